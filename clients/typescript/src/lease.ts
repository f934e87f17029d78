// The lease a client works under, kept alive while the agent waits for its LLM.

import { toError } from "./errors.js";

/** What renews a lease: answers its new time to live, in milliseconds. */
export type Renew = () => Promise<number>;

/** Reasons that say that the lease is gone for good. */
const GONE = ["STALE_LEASE", "TASK_NOT_FOUND", "WRONG_STATUS", "LEASE_HELD"];

/** A lease. Renews itself after a third of its time without a change, until it is stopped. */
export class Lease {
  readonly #renew: Renew;
  #generation = 0n;
  #last = 0n;
  #ttlMs = 0;
  #used = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(renew: Renew) {
    this.#renew = renew;
  }

  /** What every change carries; 0: no lease. */
  get generation(): bigint {
    return this.#generation;
  }

  /** The newest generation there was, also after it has ended. */
  get lastGeneration(): bigint {
    return this.#last;
  }

  /** Takes what the server granted, and keeps it alive. */
  take(generation: bigint, ttlMs: number): void {
    this.stop();
    this.#generation = generation;
    this.#last = generation;
    this.#ttlMs = ttlMs;
    this.used();
    this.#schedule();
  }

  /** A change was accepted, which renews the lease. */
  used(): void {
    this.#used = performance.now();
  }

  /** Renews no more. The lease ends by itself. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** The task was paused or has ended, and the lease with it. */
  end(): void {
    this.stop();
    this.#generation = 0n;
  }

  #schedule(): void {
    if (this.#ttlMs > 0) {
      const next = this.#used + this.#ttlMs / 3 - performance.now();
      this.#timer = setTimeout(() => void this.#tick(), Math.max(next, 10));
      this.#timer.unref();
    }
  }

  async #tick(): Promise<void> {
    const timer = this.#timer;
    if (performance.now() - this.#used >= this.#ttlMs / 3) {
      try {
        this.#ttlMs = await this.#renew();
      } catch (thrown) {
        // Whoever writes next is told why. Anything else may pass before the lease ends.
        const error = toError(thrown);
        if (GONE.includes(error.reason ?? "") || error.code === "CANCELLED") {
          return;
        }
      }
      this.used();
    }
    // Not if it was stopped, or taken anew, meanwhile.
    if (timer === this.#timer) {
      this.#schedule();
    }
  }
}
