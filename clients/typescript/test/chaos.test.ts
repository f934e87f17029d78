// Random appends, flushes, cancellations, kills of the server and closes of clients: what was reported is what is so.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import {
  type AppendInput,
  type Client,
  ContextStoreError,
  connect,
  PipelineError,
  type Task,
} from "../src/index.js";
import { LONG, TestServer } from "./support/server.js";

const SEED = Number(process.env.CONTEXTSTORE_SEED || Math.floor(Math.random() * 1e9));
/** What is not appended is known by its request id for the next thousand records: so the rounds are short, and each has new tasks. */
const ROUNDS = LONG ? 40 : 1;
const STEPS = 50;

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** An agent that appends at random, and keeps account of what it is told. */
class Agent {
  /** What was reported as saved; what was handed over without a report yet; what was reported as not saved. */
  readonly saved = new Set<number>();
  readonly underWay = new Set<number>();
  readonly lost = new Map<number, AppendInput>();
  readonly #server: TestServer;
  readonly #next: () => number;
  readonly #name: string;
  #client: Client;
  #task!: Task;
  #number = 0;

  constructor(server: TestServer, next: () => number, name: string) {
    this.#server = server;
    this.#next = next;
    this.#name = name;
    this.#client = this.#connect();
  }

  #connect(): Client {
    const retryForMs = this.#next() < 0.5 ? 10_000 : 20;
    return connect({ ...this.#server.options("unix"), retryForMs, instanceId: this.#name });
  }

  async start(): Promise<void> {
    this.#task = await this.#client.startTask({ config: { compression: { auto: false } } });
  }

  get uuid(): string {
    return this.#task.uuid;
  }

  #message(): AppendInput {
    this.#number += 1;
    return {
      message: { role: "user", content: `${this.#number}` },
      requestId: `${this.#name}-${this.#number}`,
    };
  }

  #numberOf({ requestId }: AppendInput): number {
    return Number(requestId?.split("-")[1]);
  }

  /** What an error reports as not saved. */
  #account(thrown: unknown, given: readonly AppendInput[] = []): void {
    const errors: readonly unknown[] = thrown instanceof AggregateError ? thrown.errors : [thrown];
    for (const error of errors) {
      assert.ok(error instanceof ContextStoreError, String(error));
      for (const input of [...error.notAppended, ...given]) {
        const n = this.#numberOf(input);
        if (!this.saved.has(n)) {
          this.lost.set(n, input);
        }
        this.underWay.delete(n);
      }
    }
    // It names everything that is not appended: the rest is.
    if (errors.some((error) => error instanceof PipelineError)) {
      this.#settle();
    }
  }

  /** What the error of an append reports as not saved: what it was given is the last of it. */
  #accountAppend(thrown: unknown, given: AppendInput): void {
    assert.ok(thrown instanceof ContextStoreError, String(thrown));
    assert.equal(thrown.notAppended.at(-1)?.requestId, given.requestId);
    this.#account(thrown);
  }

  /** Everything that is under way is now saved, but for what an error says. */
  #settle(thrown?: unknown): void {
    if (thrown !== undefined) {
      this.#account(thrown);
      return;
    }
    for (const n of this.underWay) {
      this.saved.add(n);
    }
    this.underWay.clear();
  }

  async step(): Promise<void> {
    const dice = this.#next();
    const signal = this.#next() < 0.2 ? { signal: AbortSignal.timeout(Math.floor(this.#next() * 5)) } : {};
    if (dice < 0.5) {
      for (let left = Math.floor(this.#next() * 40); left >= 0; left -= 1) {
        const input = this.#message();
        const n = this.#number;
        this.underWay.add(n);
        await this.#task.append(input, { wait: false, ...signal }).catch((error: unknown) => {
          this.#accountAppend(error, input);
        });
      }
    } else if (dice < 0.65) {
      const input = this.#message();
      // It waits for what is under way: so it reports about that too.
      await this.#task.append(input, signal).then(
        () => {
          this.#settle();
          this.saved.add(this.#numberOf(input));
        },
        (error: unknown) => {
          this.#accountAppend(error, input);
        },
      );
    } else if (dice < 0.8) {
      const inputs = Array.from({ length: Math.floor(this.#next() * 60) }, () => this.#message());
      let seen = 0;
      try {
        for await (const _ of this.#task.appendMany(inputs, signal)) {
          this.#settle();
          const input = inputs[seen];
          this.saved.add(input ? this.#numberOf(input) : 0);
          seen += 1;
        }
        this.#settle();
      } catch (error) {
        this.#account(error, inputs.slice(seen));
      }
    } else if (dice < 0.9) {
      await this.#task.flush(signal).then(
        () => {
          this.#settle();
        },
        (error: unknown) => {
          this.#settle(error);
        },
      );
    } else {
      await this.reopen();
    }
  }

  /** Closes the client, and goes on with another. */
  async reopen(): Promise<void> {
    const { uuid, lease } = this.#task;
    await this.#client.close({ timeoutMs: this.#next() < 0.5 ? 10_000 : 5 }).then(
      () => {
        this.#settle();
      },
      (error: unknown) => {
        this.#settle(error);
      },
    );
    assert.equal(this.underWay.size, 0, "closing reports about everything");
    this.#client = this.#connect();
    this.#task = this.#client.task(uuid);
    this.#task.lease.take(lease.generation, 0);
  }

  /** Appends again what was reported as not saved. */
  async again(): Promise<void> {
    const inputs = [...this.lost.entries()].sort(([a], [b]) => a - b).map(([, input]) => input);
    for await (const _ of this.#task.appendMany(inputs));
  }

  async stored(): Promise<number[]> {
    return (await this.#task.current().toArray()).map(({ content }) => Number(content));
  }

  async stop(): Promise<void> {
    await this.#client.close();
  }
}

// feature: chaos
for (let seed = SEED; seed < SEED + ROUNDS; seed += 1) {
  test(`chaos, CONTEXTSTORE_SEED=${seed}`, async (t) => {
    await round(seed, t);
  });
}

async function round(seed: number, t: TestContext): Promise<void> {
  const next = random(seed);
  const server = await TestServer.start();
  t.after(() => server.stop());
  const agents = [0, 1, 2].map((n) => new Agent(server, random(seed + n + 1), `agent${n}`));
  await Promise.all(agents.map((agent) => agent.start()));
  const over = new AbortController();
  let kills = 0;
  const killing = (async () => {
    while (!over.signal.aborted) {
      await new Promise((resolve) => setTimeout(resolve, next() * 400));
      await server.kill();
      kills += 1;
      await server.restart();
    }
  })();
  await Promise.all(
    agents.map(async (agent) => {
      for (let n = 0; n < STEPS; n += 1) {
        await agent.step();
      }
      await agent.reopen();
    }),
  );
  over.abort();
  await killing;
  for (const agent of agents) {
    const { saved, lost } = agent;
    const before = await agent.stored();
    assert.equal(new Set(before).size, before.length, "each is stored once");
    assert.deepEqual(
      before.filter((n) => saved.has(n)),
      [...saved].sort((a, b) => a - b),
      "what was reported as saved is stored, in order",
    );
    assert.deepEqual(
      before.filter((n) => !saved.has(n) && !lost.has(n)),
      [],
      "every other one was reported as not saved",
    );
    await agent.again();
    const all = [...saved, ...lost.keys()].sort((a, b) => a - b);
    assert.deepEqual(
      (await agent.stored()).sort((a, b) => a - b),
      all,
      "everything is stored once",
    );
    assert.deepEqual(
      all,
      Array.from({ length: all.length }, (_, at) => at + 1),
      "nothing is forgotten",
    );
    await agent.stop();
  }
  t.diagnostic(
    `saved ${agents.map(({ saved }) => saved.size).join(", ")}; lost ${agents.map(({ lost }) => lost.size).join(", ")}; kills ${kills}`,
  );
}
