// Waits for a condition: polls until it holds, or fails at a deadline.

import { setTimeout as delay } from "node:timers/promises";

/** After which a test gives up on what it waits for; on an idle machine it is there in milliseconds. */
export const DEADLINE_MS = 60_000;

/** Answers the first value that is not undefined or false. */
export async function eventually<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  withinMs = DEADLINE_MS,
): Promise<T> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const seen = await look();
    if (seen !== undefined && seen !== false) {
      return seen;
    }
    if (performance.now() > deadline) {
      throw new Error(`${what}: not so after ${withinMs} ms`);
    }
    await delay(5);
  }
}

/** Everything a stream gives. */
export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) {
    all.push(item);
  }
  return all;
}

/** What a promise is rejected with. */
export async function thrownBy(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (thrown) {
    return thrown;
  }
  throw new Error("it was not rejected");
}
