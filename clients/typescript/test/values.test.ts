// Ids, counts, configurations, lines and errors: what needs no server.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Code, ConnectError } from "@connectrpc/connect";
import { Caller } from "../src/calls.js";
import {
  CancelledError,
  ContextStoreError,
  type ErrorDetails,
  toError,
  UnavailableError,
} from "../src/errors.js";
import { newTaskUuid } from "../src/ids.js";
import {
  CompressionPreset,
  CompressionStrategy,
  connect,
  connectOrSpawn,
  Durability,
  Provider,
  Summarizer,
  spawn,
  TaskComplexity,
  TokenCounter,
} from "../src/index.js";
import { historyRecord, lines } from "../src/records.js";
import { configInit, toCount } from "../src/values.js";
import { collect } from "./support/eventually.js";

test("a new task has a UUIDv7 with the time it was made", () => {
  const made = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
  const uuid = newTaskUuid(made);
  assert.match(uuid, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(Number.parseInt(uuid.replace("-", "").slice(0, 12), 16), made);
  assert.notEqual(newTaskUuid(made), uuid);
});

test("a count is a whole number that fits 64 bits, as a number or a bigint", () => {
  assert.equal(toCount("seq", undefined), 0n);
  assert.equal(toCount("seq", 7), 7n);
  assert.equal(toCount("seq", 0xffff_ffff_ffff_ffffn), 0xffff_ffff_ffff_ffffn);
  for (const wrong of [-1, -1n, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, 2n ** 64n]) {
    assert.throws(() => toCount("seq", wrong), /^RangeError: seq is .*; it must be a whole number/);
  }
});

/** The enums of a configuration that names none. */
const NO_NAMES = { tokenCounter: TokenCounter.UNSPECIFIED, durability: Durability.UNSPECIFIED };

test("a configuration has bigints and JSON on the wire, and of the rest only what was given", () => {
  assert.deepEqual(configInit({}), NO_NAMES);
  assert.deepEqual(
    configInit({
      model: "m",
      contextLength: 8000,
      compression: { auto: false, tokenThreshold: 5, summaryTokens: 6, maxRequestBytes: 7n, keepPlan: true },
      prune: { target: 0.5 },
      window: { messages: 8, tokens: 9 },
      inheritance: { enabled: false, maxSummaryTokens: 10 },
      extra: { a: 1 },
    }),
    {
      ...NO_NAMES,
      model: "m",
      contextLength: 8000n,
      compression: {
        strategy: CompressionStrategy.UNSPECIFIED,
        complexity: TaskComplexity.UNSPECIFIED,
        preset: CompressionPreset.UNSPECIFIED,
        summarizer: Summarizer.UNSPECIFIED,
        provider: Provider.UNSPECIFIED,
        auto: false,
        tokenThreshold: 5n,
        summaryTokens: 6n,
        maxRequestBytes: 7n,
        keepPlan: true,
      },
      prune: { target: 0.5 },
      window: { messages: 8, tokens: 9n },
      inheritance: { enabled: false, maxSummaryTokens: 10n },
      extraJson: '{"a":1}',
    },
  );
});

test("a field that there is not is named, also where no compiler has looked", async () => {
  using client = connect({ address: "unix:/nowhere/contextstore.sock", retryForMs: 0 });
  const task = client.task("018f0000-0000-7000-8000-000000000000");
  const wrong: readonly (readonly [() => unknown, RegExp])[] = [
    [
      () => connect({ adress: "unix:/a" } as never),
      /^TypeError: options has no field adress \(did you mean address\?\); its/,
    ],
    [() => connect({ address: 5 } as never), /options\.address is 5; it must be a string/],
    [
      () => connect({ address: "tls:a:1", tls: { cert: "", cer: "" } } as never),
      /options\.tls has no field cer/,
    ],
    [() => client.startTask({ usr: "ada" } as never), /options has no field usr \(did you mean user\?\)/],
    [() => client.startTask({ user: 5 } as never), /options\.user is 5; it must be a string/],
    [
      () => client.startTask({ key: { task_id: "7" } } as never),
      /key has no field task_id \(did you mean taskId\?\)/,
    ],
    [() => client.task({ taskId: 7 } as never), /key\.taskId is 7; it must be a string/],
    [() => client.startTask({ config: { contextLenght: 1 } } as never), /config has no field contextLenght/],
    [
      () => client.startTask({ config: { compression: { atuo: true } } } as never),
      /config\.compression has no field atuo/,
    ],
    [
      () => client.startTask({ config: { window: { tokens: Number.NaN } } }),
      /^RangeError: config\.window\.tokens is NaN/,
    ],
    [
      () => collect(client.listTasks({ filter: { stats: [] } } as never)),
      /options\.filter has no field stats/,
    ],
    [
      () => task.append({ role: "user", content: "x" }, { pined: true } as never),
      /options has no field pined/,
    ],
    [() => task.append(null as never), /message is null; it must be an object/],
    [
      () => collect(task.chat([], { tool: [] } as never)),
      /options has no field tool \(did you mean tools\?\)/,
    ],
    [() => task.compress({ overrides: { keep: 1 } } as never), /options\.overrides has no field keep/],
    [() => task.output.put("x", { record: { took: 1 } } as never), /options\.record has no field took/],
    [() => task.recordUsage({ input: 1 } as never), /usage has no field input/],
    [
      () => task.pause({ requestID: "x" } as never),
      /options has no field requestID \(did you mean requestId\?\)/,
    ],
    [() => spawn({ datadir: "x" } as never), /options has no field datadir \(did you mean dataDir\?\)/],
    [() => connectOrSpawn("x", { bin: "x" } as never), /options has no field bin/],
  ];
  for (const [call, message] of wrong) {
    const thrown = await (async () => call())().then(() => "nothing", String);
    assert.match(thrown, message);
  }
});

test("lines are whole, however the chunks are cut", async () => {
  const text = '{"a":"é"}\n\n{"b":2}\nrest';
  const bytes = Buffer.from(text);
  for (let size = 1; size <= bytes.length; size += 1) {
    async function* chunks() {
      for (let at = 0; at < bytes.length; at += size) {
        yield bytes.subarray(at, at + size);
      }
    }
    const read: string[] = [];
    for await (const line of lines(chunks())) {
      read.push(Buffer.from(line).toString());
    }
    assert.deepEqual(read, text.split("\n"), `chunks of ${size}`);
  }
});

test("a record is a message with its number, or an event with that of the message before it", () => {
  const message = historyRecord(Buffer.from('{"seq":3,"role":"user"}\n'));
  assert.deepEqual([message.kind, message.seq, message.json.role], ["message", 3n, "user"]);
  assert.equal(Buffer.from(message.bytes).toString(), '{"seq":3,"role":"user"}');
  const event = historyRecord(Buffer.from('{"event":"rewrite","after":3}'));
  assert.deepEqual([event.kind, event.seq], ["rewrite", 3n]);
});

test("a broken connection is told from a fault of the program, and from the caller's own signal", () => {
  const refused = Object.assign(new Error("connect ENOENT"), { code: "ENOENT" });
  const lost = [
    new ConnectError("reset", Code.Canceled),
    new ConnectError("protocol error: missing status", Code.Internal),
    new ConnectError("gone", Code.Aborted, undefined, undefined, refused),
    refused,
  ];
  for (const error of lost) {
    assert.ok(toError(error) instanceof UnavailableError, String(error));
  }
  const fault = toError(new RangeError("cannot encode"));
  assert.deepEqual([fault.constructor, fault.code], [ContextStoreError, "INTERNAL"]);
  const status = toError(new ConnectError("busy", Code.Internal, { "grpc-status": "13" }));
  assert.deepEqual([status.code, status.reason, status.message], ["INTERNAL", undefined, "busy"]);
  const cancelled = toError(lost[0], AbortSignal.abort("enough"));
  assert.ok(cancelled instanceof CancelledError);
  assert.deepEqual([cancelled.name, cancelled.cause], ["CancelledError", "enough"]);
});

test("a call is repeated if the connection broke or if the server says when, and for no lease of others", async () => {
  const tries = async (details: Pick<ErrorDetails, "code" | "reason" | "retryAfterMs">) => {
    let made = 0;
    await new Caller(5_000, 5_000).unary({}, async () => {
      made += 1;
      if (made === 1) {
        throw new ContextStoreError("no", details);
      }
    });
    return made;
  };
  assert.equal(await tries({ code: "UNAVAILABLE" }), 2);
  assert.equal(await tries({ code: "UNAVAILABLE", reason: "READ_ONLY", retryAfterMs: 10 }), 2);
  assert.equal(await tries({ code: "RESOURCE_EXHAUSTED", reason: "DISK_FULL", retryAfterMs: 10 }), 2);
  await assert.rejects(tries({ code: "UNAVAILABLE", reason: "READ_ONLY" }), { reason: "READ_ONLY" });
  await assert.rejects(tries({ code: "RESOURCE_EXHAUSTED", reason: "QUOTA_EXCEEDED" }), /no/);
  await assert.rejects(tries({ code: "ABORTED", reason: "LEASE_HELD", retryAfterMs: 10 }), /no/);
});
