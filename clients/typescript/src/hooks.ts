// What an agent wants done before its task is completed or stopped.

import { ContextStoreError } from "./errors.js";

/** What is about to happen to a task. */
export interface Ending<T> {
  readonly task: T;
  /** What it will be. */
  readonly status: "completed" | "paused" | "failed";
  /** What is to be remembered of it; empty if the server is to make that. */
  readonly finalSummary: string;
  /** Why it failed. */
  readonly errorMessage: string;
}

/** Called before a task ends; a promise is awaited. */
export type Hook<T> = (ending: Ending<T>) => unknown;

/**
 * What a hook that throws does. `continue`: it is reported as a warning of the process and in `hookFailures`, the next
 * one is called, and the task ends all the same. `stop`: it stands in `hookFailures`, a HookError is thrown, and the task
 * goes on.
 */
export type HookErrors = "continue" | "stop";

/** A hook that threw. */
export interface HookFailure {
  readonly name: string;
  readonly error: unknown;
}

/** A hook threw (its error is the `cause`), and `hookErrors` of its task is `stop`: the call was not made. */
export class HookError extends ContextStoreError {
  /** The hook. */
  readonly hook: string;

  constructor(hook: string, status: string, cause: unknown) {
    super(`the hook ${hook} failed, so the task was not ${status}: ${String(cause)}`, {
      code: "ABORTED",
      cause,
    });
    this.hook = hook;
  }
}

/** The hooks of one task, by name, in the order in which the names were first registered. */
export class Hooks<T> {
  readonly #completing = new Map<string, Hook<T>>();
  readonly #stopping = new Map<string, Hook<T>>();

  /** Before the task is completed. One of the same name takes the place of the first. */
  onComplete(name: string, hook: Hook<T>): void {
    this.#completing.set(name, hook);
  }

  /** Before it is paused or failed. */
  onStop(name: string, hook: Hook<T>): void {
    this.#stopping.set(name, hook);
  }

  /** Calls them one after the other; those that fail are added to `failures`. */
  async run(ending: Ending<T>, uuid: string, errors: HookErrors, failures: HookFailure[]): Promise<void> {
    const hooks = ending.status === "completed" ? this.#completing : this.#stopping;
    for (const [name, hook] of [...hooks]) {
      try {
        await hook(ending);
      } catch (error) {
        failures.push({ name, error });
        if (errors === "stop") {
          throw new HookError(name, ending.status, error);
        }
        const message = `task ${uuid}: the hook ${name} before ${ending.status} failed: ${String(error)}`;
        process.emitWarning(message, { type: "ContextStoreHook", code: "CONTEXTSTORE_HOOK" });
      }
    }
  }
}
