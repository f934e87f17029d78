// The short names of the enums, as callers hand them in, and what reaches the server.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { create } from "@bufbuild/protobuf";
import {
  type Client,
  type CompressionInput,
  CompressionStrategy,
  type ConfigInput,
  Provider,
  RecordKind,
  type Task,
  TaskOrder,
  TaskStatus,
} from "../src/index.js";
import { TaskFilterSchema } from "../src/proto.js";
import { collect, eventually } from "./support/eventually.js";
import { TestServer } from "./support/server.js";

/** The names in the order of the protocol: the first one has the number 1. */
const CONFIG = {
  durability: ["group", "each", "process"],
  tokenCounter: ["fitted", "heuristic", "o200k", "cl100k"],
} as const;
const COMPRESSION = {
  strategy: ["summarize", "compact", "prune", "window"],
  complexity: ["simple", "medium", "complex"],
  preset: ["balanced", "conservative", "aggressive"],
  summarizer: ["auto", "llm", "extractive"],
  provider: ["openai", "openai_responses", "anthropic", "ollama", "lmstudio"],
} as const;
const MOST = 5;

let server: TestServer;
let client: Client;
before(async () => {
  server = await TestServer.start();
  client = server.client("unix");
});
after(() => server.stop());

/** The name of each field at a place, of a field with fewer names its last one. */
function namesAt(fields: Readonly<Record<string, readonly string[]>>, at: number): Record<string, string> {
  return Object.fromEntries(
    Object.entries(fields).map(([field, names]) => [field, names[Math.min(at, names.length - 1)] ?? ""]),
  );
}

/** Their numbers. */
function numbersAt(fields: Readonly<Record<string, readonly string[]>>, at: number): Record<string, number> {
  return Object.fromEntries(
    Object.entries(fields).map(([field, names]) => [field, Math.min(at + 1, names.length)]),
  );
}

/** Of an object the fields that another one has. */
function picked(given: object, like: object): object {
  return Object.fromEntries(Object.keys(like).map((key) => [key, given[key as keyof typeof given]]));
}

test("every short name of a configuration is the value of the protocol", async () => {
  const task = await client.startTask();
  for (let at = 0; at < MOST; at += 1) {
    const compression = namesAt(COMPRESSION, at) as CompressionInput;
    await task.update({ ...(namesAt(CONFIG, at) as ConfigInput), compression });
    const { config } = (await task.get()).task ?? {};
    assert.ok(config?.compression);
    assert.deepEqual(picked(config, CONFIG), numbersAt(CONFIG, at));
    assert.deepEqual(picked(config.compression, COMPRESSION), numbersAt(COMPRESSION, at));
  }
});

test("a value of an enum is as good as its name", async () => {
  const task = await client.startTask({ config: { compression: { strategy: CompressionStrategy.WINDOW } } });
  const compression = (await task.get()).task?.config?.compression;
  assert.equal(compression?.strategy, CompressionStrategy.WINDOW);
  // What was read can be handed in, also if nothing is set.
  assert.equal(compression.provider, Provider.UNSPECIFIED);
  await task.update({ compression: { strategy: compression.strategy, provider: compression.provider } });
  assert.equal((await task.get()).task?.config?.compression?.strategy, CompressionStrategy.WINDOW);
});

test("tasks are listed by the names of statuses and orders", async () => {
  const user = "lists";
  const tasks: Task[] = [];
  for (const end of [() => undefined, pause, complete, fail]) {
    const task = await client.startTask({ user });
    await end(task);
    tasks.push(task);
  }
  const uuids = tasks.map(({ uuid }) => uuid);
  await eventually("the catalog has their statuses", async () => {
    const ended = await collect(client.listTasks({ filter: { user, statuses: ["failed"] } }));
    return ended.length === 1;
  });
  for (const [at, status] of (["running", "paused", "completed", "failed"] as const).entries()) {
    const found = await collect(client.listTasks({ filter: { user, statuses: [status] } }));
    assert.deepEqual(
      found.map(({ uuid, status }) => [uuid, status]),
      [[uuids[at], at + 1]],
    );
  }
  const statuses = [TaskStatus.COMPLETED, TaskStatus.PAUSED];
  for (const filter of [{ user, statuses }, create(TaskFilterSchema, { user, statuses })]) {
    assert.equal((await collect(client.listTasks({ filter }))).length, 2);
  }
  for (const order of ["created_asc", "updated_asc", TaskOrder.CREATED_ASC] as const) {
    const found = await collect(client.listTasks({ filter: { user }, order }));
    assert.deepEqual(
      found.map(({ uuid }) => uuid),
      uuids,
    );
  }
  for (const order of ["created_desc", "updated_desc"] as const) {
    const found = await collect(client.listTasks({ filter: { user }, order }));
    assert.deepEqual(
      found.map(({ uuid }) => uuid),
      [...uuids].reverse(),
    );
  }
});

const pause = (task: Task) => task.pause();
const complete = (task: Task) => task.complete("done");
const fail = (task: Task) => task.fail("broke");

test("records are read by the names of their kinds", async () => {
  const task = await client.startTask();
  await task.append({ role: "user", content: "Hello" });
  await task.pin(1);
  for (const kind of ["message", "started", "pin"] as const) {
    const found = await collect(task.messages({ kinds: [kind] }));
    assert.deepEqual(
      found.map((record) => record.kind),
      [kind],
    );
  }
  assert.equal((await collect(task.messages({ kinds: [RecordKind.MESSAGE, "pin"] }))).length, 2);
});

test("an unknown name is refused with the field and the names there are", async () => {
  const task = await client.startTask();
  const provider = "openai, openai_responses, anthropic, ollama, lmstudio";
  const strategy = "summarize, compact, prune, window";
  const refused: readonly (readonly [() => unknown, string])[] = [
    [
      () => client.startTask({ config: { durability: "always" } } as never),
      'config.durability is "always"; it must be one of group, each, process',
    ],
    [
      () => task.update({ tokenCounter: "o2k" } as never),
      'config.tokenCounter is "o2k"; it must be one of fitted, heuristic, o200k, cl100k',
    ],
    [
      () => task.update({ compression: { strategy: "PRUNE" } } as never),
      `config.compression.strategy is "PRUNE"; it must be one of ${strategy}`,
    ],
    [
      () => task.compress({ overrides: { preset: "fast" } } as never),
      'options.overrides.preset is "fast"; it must be one of balanced, conservative, aggressive',
    ],
    [
      () => task.compress({ strategy: "unspecified" } as never),
      `options.strategy is "unspecified"; it must be one of ${strategy}`,
    ],
    [
      () => task.beginCompaction({ strategy: 9 as never }),
      `options.strategy is 9; it must be one of ${strategy}`,
    ],
    [
      () => collect(task.chat([], { provider: "" as never })),
      `options.provider is ""; it must be one of ${provider}`,
    ],
    [
      () => collect(task.requestBody("opanai" as never)),
      `provider is "opanai"; it must be one of ${provider}`,
    ],
    [
      () => collect(client.listTasks({ order: "newest" } as never)),
      'options.order is "newest"; it must be one of created_desc, created_asc, updated_desc, updated_asc',
    ],
    [
      () => collect(client.listTasks({ filter: { statuses: ["running", "ended"] } } as never)),
      'options.filter.statuses[1] is "ended"; it must be one of running, paused, completed, failed',
    ],
    [
      () => collect(client.listTasks({ filter: { statuses: "running" } } as never)),
      'options.filter.statuses is "running"; it must be an array of running, paused, completed, failed',
    ],
    [
      () => collect(task.messages({ kinds: ["messages"] as never })),
      'options.kinds[0] is "messages"; it must be one of message, started, lease, config, rewrite, status, usage, ' +
        "statistics, pin, forked, erased",
    ],
  ];
  for (const [call, message] of refused) {
    await assert.rejects(async () => call(), { name: "TypeError", message });
  }
});
