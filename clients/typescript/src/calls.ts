// How a call is made: its deadline, its retries, its end by the caller's signal. Knows no method of the service.

import { setMaxListeners } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import type { Fields } from "./check.js";
import { CancelledError, type ContextStoreError, DeadlineError, NotFoundError, toError } from "./errors.js";

/** What every call takes. */
export interface CallOptions {
  /** Ends the call. */
  readonly signal?: AbortSignal;
  /** How long the call may take, with its retries; for a stream, how long it may be silent. */
  readonly timeoutMs?: number;
}

/** What a call that has a request id takes. */
export interface MutationOptions extends CallOptions {
  /** Names the call. Default: a new one. Give the same one again to repeat a call whose outcome is not known. */
  readonly requestId?: string;
}

/** Their fields, of which those of other options are made. */
export const CALL_FIELDS = { signal: "any", timeoutMs: "any" } as const satisfies Fields<CallOptions>;
export const MUTATION_FIELDS = {
  ...CALL_FIELDS,
  requestId: "text",
} as const satisfies Fields<MutationOptions>;

/** What an attempt hands to the transport. */
export interface Attempt {
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
}

/**
 * Whether the same call may succeed a moment later: the connection broke, or the server says after how long to try
 * again. A task that somebody else works on may take any time, so whether to wait for it is the caller's to decide.
 */
function isPassing({ code, reason, retryAfterMs }: ContextStoreError): boolean {
  const isConnectionLoss = code === "UNAVAILABLE" && reason === undefined;
  return isConnectionLoss || (retryAfterMs !== undefined && reason !== "LEASE_HELD");
}

/** Makes calls with the defaults of one client. */
export class Caller {
  readonly #timeoutMs: number;
  readonly #retryForMs: number;
  readonly #closing = new AbortController();

  constructor(timeoutMs = 30_000, retryForMs = 10_000) {
    this.#timeoutMs = checkedTimeout("timeoutMs", timeoutMs);
    this.#retryForMs = checkedTimeout("retryForMs", retryForMs, 0);
    // One listener for each call that is under way.
    setMaxListeners(0, this.#closing.signal);
  }

  /** How long a call may take, or a stream may be silent, if the caller does not say otherwise. */
  get timeoutMs(): number {
    return this.#timeoutMs;
  }

  /** Ends every call that is under way; from now on every call fails. */
  close(): void {
    this.#closing.abort();
  }

  /**
   * Makes a unary call, again and again while it fails in passing and there is time. A try may take `leastMs`, unless the
   * caller has a timeout of its own for the call.
   */
  async unary<T>(options: CallOptions, call: (attempt: Attempt) => Promise<T>, leastMs = 1): Promise<T> {
    const least = options.timeoutMs === undefined ? leastMs : 1;
    const deadline = performance.now() + checkedTimeout("timeoutMs", options.timeoutMs ?? this.#timeoutMs);
    const patience = new Patience(this.#retryForMs, options.signal, deadline);
    for (;;) {
      try {
        return await this.once(
          { ...options, timeoutMs: Math.max(least, deadline - performance.now()) },
          call,
        );
      } catch (thrown) {
        await patience.pauseAfter(this.#errorOf(thrown, options));
      }
    }
  }

  /** Makes a unary call once. */
  async once<T>(options: CallOptions, call: (attempt: Attempt) => Promise<T>): Promise<T> {
    // In whole milliseconds: gRPC has no fractions, and a server would pass over the deadline.
    const timeoutMs = Math.ceil(checkedTimeout("timeoutMs", options.timeoutMs ?? this.#timeoutMs));
    const link = new LinkedAbort(options.signal, this.#closing.signal);
    try {
      return await call({ signal: link.signal, ...(Number.isFinite(timeoutMs) && { timeoutMs }) });
    } catch (thrown) {
      throw this.#errorOf(thrown, options);
    } finally {
      link.release();
    }
  }

  /**
   * Reads a stream to its end. It is cancelled when the reader stops early, and fails when nothing comes for
   * `silenceMs`, unless `isDue` says that nothing has to.
   */
  async *stream<T>(
    options: CallOptions,
    open: (attempt: Attempt) => AsyncIterable<T>,
    { silenceMs = this.#timeoutMs, isDue = () => true }: { silenceMs?: number; isDue?: () => boolean } = {},
  ): AsyncGenerator<T, void, undefined> {
    const longest = checkedTimeout("timeoutMs", options.timeoutMs ?? silenceMs);
    const link = new LinkedAbort(options.signal, this.#closing.signal);
    const late = new DeadlineError(`the server sent nothing for ${longest} ms`, {
      code: "DEADLINE_EXCEEDED",
    });
    try {
      const items = open({ signal: link.signal })[Symbol.asyncIterator]();
      for (;;) {
        const item = await watched(items.next(), longest, isDue, () => {
          link.abort(late);
        });
        if (item.done) {
          return;
        }
        yield item.value;
      }
    } catch (thrown) {
      throw link.signal.reason === late ? late : this.#errorOf(thrown, options);
    } finally {
      // The transport's iterators cannot be returned: only this ends the call on the server.
      link.abort(late);
      link.release();
    }
  }

  /** Reads streams one after the other, each from where the last one broke: `open` knows where that is. */
  async *resuming<T>(options: CallOptions, open: () => AsyncIterable<T>): AsyncGenerator<T, void, undefined> {
    const patience = new Patience(this.#retryForMs, options.signal);
    for (;;) {
      let received = false;
      try {
        for await (const item of open()) {
          received = true;
          yield item;
        }
        return;
      } catch (thrown) {
        const error = this.#errorOf(thrown, options);
        if (received) {
          patience.renew();
        }
        // A reader that was too slow for the server's patience goes on where it is.
        if (!(received && error.reason === "STALLED")) {
          await patience.pauseAfter(error);
        }
      }
    }
  }

  /**
   * Reads a stream that has no place to go on from: it is opened again while it fails in passing and nothing has
   * come, and never after that, unless it `repeats`: then the server knows the call by its request id.
   */
  async *unlessBegun<T>(
    options: CallOptions,
    open: (attempt: Attempt) => AsyncIterable<T>,
    watch: { silenceMs?: number; repeats?: boolean } = {},
  ): AsyncGenerator<T, void, undefined> {
    yield* this.unlessBegunIn(options, () => this.stream(options, open, watch), watch.repeats);
  }

  /** The same of a stream that is opened by `stream`. */
  async *unlessBegunIn<T>(
    options: CallOptions,
    open: () => AsyncIterable<T>,
    repeats = false,
  ): AsyncGenerator<T, void, undefined> {
    const patience = new Patience(this.#retryForMs, options.signal);
    let renewed = false;
    for (;;) {
      let received = false;
      try {
        for await (const item of open()) {
          received = true;
          yield item;
        }
        return;
      } catch (thrown) {
        const error = this.#errorOf(thrown, options);
        if (received && !repeats) {
          throw error;
        }
        if (received && !renewed) {
          // It may have gone on for long before that; but a server that fails at each try is left alone.
          renewed = true;
          patience.renew();
        }
        await patience.pauseAfter(error);
      }
    }
  }

  #errorOf(thrown: unknown, { signal }: CallOptions): ContextStoreError {
    // Each call has an error of its own: what it has not appended stands there.
    return this.#closing.signal.aborted
      ? new CancelledError("the client is closed", { code: "CANCELLED" })
      : toError(thrown, signal);
  }
}

/** Waits between attempts, longer each time, until it has lasted for so long. */
class Patience {
  readonly #forMs: number;
  readonly #deadline: number;
  readonly #signal: AbortSignal | undefined;
  #end = 0;
  #lastFailure = Number.NEGATIVE_INFINITY;
  #pauseMs = 0;

  constructor(forMs: number, signal: AbortSignal | undefined, deadline = Number.POSITIVE_INFINITY) {
    this.#forMs = forMs;
    this.#signal = signal;
    this.#deadline = deadline;
  }

  /** What was tried made progress: what fails later is another failure. */
  renew(): void {
    this.#lastFailure = Number.NEGATIVE_INFINITY;
  }

  /** Throws the error if it is not one that passes, or if there is no time left for another attempt. */
  async pauseAfter(error: ContextStoreError): Promise<void> {
    const now = performance.now();
    if (now - this.#lastFailure > this.#forMs) {
      this.#end = Math.min(now + this.#forMs, this.#deadline);
      this.#pauseMs = 25;
    }
    const pauseMs = error.retryAfterMs ?? this.#pauseMs * (0.5 + Math.random());
    if (!isPassing(error) || now + pauseMs >= this.#end) {
      throw error;
    }
    this.#pauseMs = Math.min(this.#pauseMs * 2, 1_000);
    await pause(pauseMs, this.#signal);
    this.#lastFailure = performance.now();
  }
}

/** Waits, or throws a CancelledError. */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await delay(ms, undefined, signal ? { signal } : {});
  } catch {
    throw new CancelledError("the call was cancelled", { code: "CANCELLED", cause: signal?.reason });
  }
}

/** A signal of ours that also follows others, which outlive many calls: so it lets go of them. */
class LinkedAbort {
  readonly #controller = new AbortController();
  readonly #followed: readonly AbortSignal[];
  readonly #follow = (): void => {
    this.#controller.abort(this.#followed.find((signal) => signal.aborted)?.reason);
  };

  constructor(...signals: readonly (AbortSignal | undefined)[]) {
    this.#followed = signals.filter((signal) => signal !== undefined);
    for (const signal of this.#followed) {
      signal.addEventListener("abort", this.#follow, { once: true });
    }
    if (this.#followed.some((signal) => signal.aborted)) {
      this.#follow();
    }
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason);
  }

  release(): void {
    for (const signal of this.#followed) {
      signal.removeEventListener("abort", this.#follow);
    }
  }
}

async function watched<T>(
  promise: Promise<T>,
  longestMs: number,
  isDue: () => boolean,
  onLate: () => void,
): Promise<T> {
  if (longestMs === Number.POSITIVE_INFINITY) {
    return await promise;
  }
  const timer = setInterval(() => {
    if (isDue()) {
      onLate();
    }
  }, longestMs);
  try {
    return await promise;
  } finally {
    clearInterval(timer);
  }
}

/** The longest time a timer takes. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** A time in milliseconds, Infinity if no timer is that long. Throws a RangeError, which names it, if it is none. */
export function checkedTimeout(name: string, ms: number, least = 1): number {
  if (!(ms >= least)) {
    throw new RangeError(`${name} is ${ms}; it must be at least ${least}`);
  }
  return ms > MAX_TIMER_MS ? Number.POSITIVE_INFINITY : ms;
}

/** What was asked for, or undefined if the server says for this reason that there is none. */
export async function orUndefined<T>(promise: Promise<T>, reason: string): Promise<T | undefined> {
  try {
    return await promise;
  } catch (thrown) {
    if (thrown instanceof NotFoundError && thrown.reason === reason) {
      return undefined;
    }
    throw thrown;
  }
}
