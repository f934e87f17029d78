// Messages that are appended without waiting for each: what waits, what failed, and the barrier that others wait at.

import { type AppendInput, Pipeline, WINDOW_CHARS, WINDOW_MESSAGES } from "./append.js";
import type { Caller } from "./calls.js";
import { CancelledError, PipelineError, toError } from "./errors.js";
import type { Lease } from "./lease.js";
import { messageJson } from "./values.js";

/** A message as it is sent. */
type Queued = AppendInput & { readonly message: string };

type Open = Parameters<Pipeline["run"]>[2];

/** What an outbox needs of its client. */
interface OutboxWire {
  readonly rpc: { readonly appendMessages: Open };
  readonly caller: Caller;
  readonly pending: Set<Outbox>;
}

/**
 * The messages of one task that nobody waits for. They are sent in order over a stream that is open while there are any.
 * The first failure ends it: nothing behind it is appended, and whoever uses the task next is told, once.
 */
export class Outbox {
  readonly #wire: OutboxWire;
  readonly #target: () => { taskUuid: string; leaseGeneration: bigint };
  readonly #lease: Lease;
  /** What is not acknowledged, oldest first; of it the last `#unsent` are not handed to the stream yet. */
  #waiting: Queued[] = [];
  #unsent = 0;
  #chars = 0;
  #running: Promise<void> | undefined;
  #failure: PipelineError | undefined;
  #changed = deferred();

  constructor(wire: OutboxWire, target: () => { taskUuid: string; leaseGeneration: bigint }, lease: Lease) {
    this.#wire = wire;
    this.#target = target;
    this.#lease = lease;
  }

  /** How many messages are not acknowledged, or were refused and nobody was told. */
  get size(): number {
    return this.#waiting.length + (this.#failure?.unacknowledged.length ?? 0);
  }

  /** Takes a message, which has a request id. Waits only while too many wait already; throws what failed before. */
  async push(input: AppendInput & { readonly requestId: string }, signal?: AbortSignal): Promise<void> {
    this.#throwFailure();
    const message = messageJson(input.message);
    this.#waiting.push({ ...input, message });
    this.#unsent += 1;
    this.#chars += message.length;
    this.#wire.pending.add(this);
    this.#running ??= this.#run();
    this.#wake();
    while (this.#waiting.length > WINDOW_MESSAGES || this.#chars > WINDOW_CHARS) {
      await this.#change(signal);
      this.#throwFailure();
    }
  }

  /** Waits until everything is acknowledged; throws what failed, once. */
  async settled(signal?: AbortSignal): Promise<void> {
    while (this.#running) {
      await this.#change(signal);
    }
    this.#throwFailure();
  }

  #throwFailure(): void {
    const failure = this.#failure;
    if (failure) {
      this.#failure = undefined;
      this.#wire.pending.delete(this);
      throw failure;
    }
  }

  /** Sends until nothing waits any more. Never throws. */
  async #run(): Promise<void> {
    const open: Open = (requests, attempt) => this.#wire.rpc.appendMessages(requests, attempt);
    try {
      while (this.#waiting.length > 0) {
        const pipeline = new Pipeline(this.#source(), this.#target());
        const acknowledgements = pipeline.run(this.#wire.caller, {}, open);
        while (!(await acknowledgements.next()).done) {
          this.#chars -= this.#waiting.shift()?.message.length ?? 0;
          this.#lease.used();
          this.#wake();
        }
      }
    } catch (thrown) {
      this.#failure = new PipelineError(toError(thrown), this.#waiting);
      this.#waiting = [];
      this.#unsent = 0;
      this.#chars = 0;
    }
    this.#running = undefined;
    if (!this.#failure) {
      this.#wire.pending.delete(this);
    }
    this.#wake();
  }

  /** What is to be sent; it ends when everything that was sent is acknowledged, and with it the stream. */
  async *#source(): AsyncGenerator<AppendInput, void, undefined> {
    while (this.#waiting.length > 0) {
      const next = this.#unsent > 0 ? this.#waiting.at(-this.#unsent) : undefined;
      if (next) {
        this.#unsent -= 1;
        yield next;
      } else {
        await this.#changed.promise;
      }
    }
  }

  /** Something was pushed, acknowledged or given up. */
  #wake(): void {
    const { resolve } = this.#changed;
    this.#changed = deferred();
    resolve();
  }

  /** Waits for that, or throws a CancelledError. */
  async #change(signal: AbortSignal | undefined): Promise<void> {
    if (!signal) {
      await this.#changed.promise;
      return;
    }
    const cancelled = deferred();
    const cancel = () => {
      cancelled.resolve();
    };
    signal.addEventListener("abort", cancel, { once: true });
    if (!signal.aborted) {
      await Promise.race([this.#changed.promise, cancelled.promise]);
    }
    signal.removeEventListener("abort", cancel);
    if (signal.aborted) {
      throw new CancelledError("the call was cancelled", { code: "CANCELLED", cause: signal.reason });
    }
  }
}

/** A promise and what settles it. */
function deferred() {
  let resolve!: () => void;
  const promise = new Promise<void>((onResolve) => {
    resolve = onResolve;
  });
  return { promise, resolve };
}
