// Messages that are appended without waiting for each: what waits, what failed, and the barrier that others wait at.

import { writeSync } from "node:fs";
import { type EncodedMessage, Pipeline, type PipelineWire, WINDOW_CHARS, WINDOW_MESSAGES } from "./append.js";
import { CancelledError, PipelineError, toError } from "./errors.js";
import type { Lease } from "./lease.js";

type Open = Parameters<Pipeline["run"]>[1];

/** A message, and the how-manieth of its outbox it is. */
interface Waiting {
  readonly message: EncodedMessage;
  readonly number: number;
}

/** What an outbox needs of its client. */
interface OutboxWire extends PipelineWire {
  readonly rpc: { readonly appendMessages: Open };
  readonly pending: Pending;
}

/** The outboxes of one client that hold messages of which nobody knows yet whether they are appended. */
export class Pending {
  readonly #outboxes = new Set<Outbox>();
  #isClosed = false;

  /** From now on no message is taken. */
  close(): void {
    this.#isClosed = true;
  }

  add(outbox: Outbox): void {
    this.#outboxes.add(outbox);
    warnAtExit(outbox);
  }

  delete(outbox: Outbox): void {
    this.#outboxes.delete(outbox);
    unsaved.delete(outbox);
  }

  get isEmpty(): boolean {
    return this.#outboxes.size === 0;
  }

  checkOpen(): void {
    if (this.#isClosed) {
      throw new CancelledError("the client is closed", { code: "CANCELLED" });
    }
  }

  /** Waits until every message is acknowledged; returns what failed. */
  async settled(signal?: AbortSignal): Promise<unknown[]> {
    const outcomes = await Promise.allSettled([...this.#outboxes].map((outbox) => outbox.settled(signal)));
    return outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason as unknown] : []));
  }
}

/** All outboxes of this process that hold something: at its exit nothing can be sent any more. */
const unsaved = new Set<Outbox>();
let isWatching = false;

function warnAtExit(outbox: Outbox): void {
  unsaved.add(outbox);
  if (!isWatching) {
    isWatching = true;
    process.on("exit", () => {
      const lost = [...unsaved].reduce((sum, { size }) => sum + size, 0);
      if (lost > 0) {
        // A warning of the process would come too late.
        writeSync(
          2,
          `(node:${process.pid}) ContextStoreUnsaved: the program ended while ${lost} messages were not known to be ` +
            "appended; await client.close() before\n",
        );
      }
    });
  }
}

/**
 * The messages of one task that nobody waits for. They are sent in order over a stream that is open while there are any.
 * The first failure ends it: nothing behind it is appended. Everybody who waits then gets the failure; if nobody does, the next
 * one who does.
 */
export class Outbox {
  readonly #wire: OutboxWire;
  readonly #target: () => { taskUuid: string; leaseGeneration: bigint };
  readonly #lease: Lease;
  /** What is not acknowledged, oldest first; of it the last `#unsent` are not handed to the stream yet. */
  #waiting: Waiting[] = [];
  #unsent = 0;
  #chars = 0;
  /** How many were taken: the number of the newest. */
  #taken = 0;
  #running: Promise<void> | undefined;
  /** How often it failed, how the last time, and whether nobody has got that yet. */
  #failures = 0;
  #failure: PipelineError | undefined;
  #isUnreported = false;
  #changed = deferred();

  constructor(wire: OutboxWire, target: () => { taskUuid: string; leaseGeneration: bigint }, lease: Lease) {
    this.#wire = wire;
    this.#target = target;
    this.#lease = lease;
  }

  /** How many messages are not acknowledged, or were refused and nobody has got the error. */
  get size(): number {
    return this.#waiting.length + (this.#isUnreported ? (this.#failure?.notAppended.length ?? 0) : 0);
  }

  /**
   * Takes a message. Waits only while too many wait already; throws what failed before. A call that is cancelled before its
   * message is on its way takes it back.
   */
  async push(message: EncodedMessage, signal?: AbortSignal): Promise<void> {
    throwIfAborted(signal);
    this.#wire.pending.checkOpen();
    this.#throwUnreported();
    this.#taken += 1;
    const number = this.#taken;
    this.#waiting.push({ message, number });
    this.#unsent += 1;
    this.#chars += message.json.length;
    this.#wire.pending.add(this);
    this.#running ??= this.#run();
    this.#wake();
    try {
      await this.#until(() => this.#waiting.length <= WINDOW_MESSAGES && this.#chars <= WINDOW_CHARS, signal);
    } catch (thrown) {
      if (!(thrown instanceof CancelledError) || this.#takeBack(number)) {
        throw thrown;
      }
    }
  }

  /** Waits until everything that was taken so far is acknowledged; throws what failed. */
  async settled(signal?: AbortSignal): Promise<void> {
    const taken = this.#taken;
    const isSettled = () => (this.#waiting[0]?.number ?? Number.POSITIVE_INFINITY) > taken;
    if (!isSettled()) {
      await this.#until(isSettled, signal);
    }
    this.#throwUnreported();
  }

  /** Waits until something is so; throws the failure that comes before, to everybody who waits. */
  async #until(isSo: () => boolean, signal: AbortSignal | undefined): Promise<void> {
    const before = this.#failures;
    while (this.#failures === before && !isSo()) {
      await this.#change(signal);
    }
    if (this.#failures !== before && this.#failure) {
      this.#report();
      throw this.#failure;
    }
  }

  #throwUnreported(): void {
    if (this.#isUnreported && this.#failure) {
      this.#report();
      throw this.#failure;
    }
  }

  #report(): void {
    this.#isUnreported = false;
    if (!this.#running) {
      this.#wire.pending.delete(this);
    }
  }

  /** Takes a message back that was not handed to the stream. */
  #takeBack(number: number): boolean {
    const firstUnsent = this.#waiting.length - this.#unsent;
    const at = this.#waiting.findIndex((waiting) => waiting.number === number);
    const waiting = this.#waiting[at];
    if (!waiting || at < firstUnsent) {
      return false;
    }
    this.#waiting.splice(at, 1);
    this.#unsent -= 1;
    this.#chars -= waiting.message.json.length;
    this.#wake();
    return true;
  }

  /** Sends until nothing waits any more. Never throws. */
  async #run(): Promise<void> {
    const open: Open = (requests, attempt) => this.#wire.rpc.appendMessages(requests, attempt);
    try {
      while (this.#waiting.length > 0) {
        const pipeline = new Pipeline(this.#wire, this.#source(), this.#target());
        const acknowledgements = pipeline.run({}, open);
        while (!(await acknowledgements.next()).done) {
          this.#chars -= this.#waiting.shift()?.message.json.length ?? 0;
          this.#lease.used();
          this.#wake();
        }
      }
    } catch (thrown) {
      const lost = this.#waiting.map(({ message }) => message.input);
      this.#failure = new PipelineError(toError(thrown), lost);
      this.#failures += 1;
      this.#isUnreported = true;
      this.#waiting = [];
      this.#unsent = 0;
      this.#chars = 0;
    }
    this.#running = undefined;
    if (!this.#isUnreported) {
      this.#wire.pending.delete(this);
    }
    this.#wake();
  }

  /** What is to be sent; it ends when everything that was sent is acknowledged, and with it the stream. */
  async *#source(): AsyncGenerator<EncodedMessage, void, undefined> {
    while (this.#waiting.length > 0) {
      const next = this.#unsent > 0 ? this.#waiting.at(-this.#unsent) : undefined;
      if (next) {
        this.#unsent -= 1;
        yield next.message;
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
    throwIfAborted(signal);
  }
}

function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) {
    throw new CancelledError("the call was cancelled", { code: "CANCELLED", cause: signal.reason });
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
