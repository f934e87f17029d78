// A clock that the test moves: timers go off when it says so, however busy the machine is.

import { mock } from "node:test";

interface Timer {
  readonly at: number;
  readonly run: () => void;
}

/** Stands in for `setTimeout`, `clearTimeout` and `performance.now` until it is put back. */
export class FakeClock {
  #now = 1_000;
  readonly #timers = new Set<Timer>();
  readonly #mocks = [
    mock.method(performance, "now", () => this.#now),
    mock.method(globalThis, "setTimeout", ((run: () => void, ms: number) => {
      const timer = { at: this.#now + ms, run, unref: () => undefined };
      this.#timers.add(timer);
      return timer;
    }) as unknown as typeof setTimeout),
    mock.method(globalThis, "clearTimeout", ((timer: Timer) => {
      this.#timers.delete(timer);
    }) as unknown as typeof clearTimeout),
  ];

  /** Lets so much time pass, and all that is due in it happen. */
  async pass(ms: number): Promise<void> {
    const end = this.#now + ms;
    for (;;) {
      const [next] = [...this.#timers].sort((one, other) => one.at - other.at);
      if (!next || next.at > end) {
        break;
      }
      this.#timers.delete(next);
      this.#now = next.at;
      next.run();
      // What it does asynchronously is done before the next one.
      await new Promise((done) => setImmediate(done));
    }
    this.#now = end;
  }

  restore(): void {
    for (const { mock } of this.#mocks) {
      mock.restore();
    }
  }
}
