// What an agent does, over both transports, against the real server.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { toError } from "../src/errors.js";
import {
  AccessError,
  CancelledError,
  type Client,
  connect,
  fromEnv,
  InvalidRequestError,
  LeaseError,
  NotFoundError,
  PreconditionError,
  StaleViewError,
  TaskStatus,
} from "../src/index.js";
import { collect, eventually } from "./support/eventually.js";
import { LONG, TestServer } from "./support/server.js";

const HELLO = { role: "user", content: "Fix the failing test, please." };

let server: TestServer;
before(async () => {
  server = await TestServer.start();
});
after(() => server.stop());

for (const transport of ["unix", "tcp"] as const) {
  describe(`over ${transport}`, () => {
    let client: Client;
    before(() => {
      client = server.client(transport);
    });

    // feature: append
    // feature: usage
    // feature: plans
    test("a task from its start to its end", async () => {
      await client.waitUntilReady();
      const task = await client.startTask({
        key: { taskSource: "github", owner: "octo", repo: transport, taskType: "issue", taskId: "7" },
        user: "ada",
        config: { llmProvider: "openai", model: "gpt-5", contextLength: 8000, extra: { retries: 3 } },
      });
      assert.ok(task.isNew);
      const { config } = (await task.get()).task ?? {};
      assert.deepEqual([config?.model, JSON.parse(config?.extraJson ?? "")], ["gpt-5", { retries: 3 }]);
      const first = await task.append(HELLO);
      assert.equal(first.seq, 1n);
      assert.equal(first.pressure?.limit, 8000n);
      const call = { id: "c1", type: "function", function: { name: "run", arguments: "{}" } };
      await task.append({ role: "assistant", content: null, tool_calls: [call] });
      await task.append('{"role":"tool","tool_call_id":"c1","content":"ok \\u00e9 😀"}');
      const recorded = await task.recordToolCall({
        toolName: "run",
        arguments: { path: "." },
        result: "ok",
        durationMs: 12,
        messageSeq: 3n,
      });
      assert.equal(recorded.seq, 1n);
      await task.recordToolCall({ toolName: "run", error: "no such file" });
      assert.equal(await task.latestPlan(), undefined);
      await task.appendPlan({ steps: ["read", "fix"] }, { planType: "initial" });
      await task.appendPlan(["fix"], { planType: "revision" });
      const updated = await task.update({ model: "gpt-6", contextLength: 9000n });
      assert.deepEqual([updated?.config?.model, updated?.config?.contextLength], ["gpt-6", 9000n]);
      await task.recordUsage({ inputTokens: 100, outputTokens: 20, cacheReadTokens: 5n });
      const { statistics } = await task.updateStatistics({ llmCalls: 2, tokens: 10 });
      assert.deepEqual([statistics?.llmCallCount, statistics?.totalTokens], [3n, 135n]);

      const view = await collect(task.currentMessages());
      assert.deepEqual(view, [
        HELLO,
        { role: "assistant", content: null, tool_calls: [call] },
        { role: "tool", tool_call_id: "c1", content: "ok é 😀" },
      ]);
      const onDisk = readFileSync(join(server.dataDir, "running", task.uuid, "current.jsonl"));
      assert.ok(Buffer.concat(await collect(task.current())).equals(onDisk));

      const records = await collect(task.messages({ kinds: ["message"] }));
      assert.deepEqual(
        records.map(({ seq, json }) => [seq, json.role]),
        [
          [1n, "user"],
          [2n, "assistant"],
          [3n, "tool"],
        ],
      );
      assert.ok((await collect(task.messages())).some(({ kind }) => kind === "started"));
      assert.equal((await task.message(1)).json.content, HELLO.content);
      assert.deepEqual(
        (await collect(task.toolCalls())).map(({ seq, json }) => [seq, json.status]),
        [
          [1n, "success"],
          [2n, "error"],
        ],
      );
      assert.deepEqual(
        (await collect(task.plans({ from: 2 }))).map(({ seq, json }) => [seq, json.plan_content]),
        [[2n, ["fix"]]],
      );
      assert.deepEqual(await task.latestPlan(), { id: 2n, planType: "revision", content: ["fix"] });
      assert.equal(await task.latestSummary(), undefined);
      assert.deepEqual(await collect(task.summaries()), []);

      const done = await task.complete("Fixed it.");
      assert.equal(done?.status, TaskStatus.COMPLETED);
      const info = await client.task(task.uuid).get();
      assert.deepEqual([info.task?.finalSummary, info.task?.user], ["Fixed it.", "ada"]);
    });

    test("a task is paused, resumed under a new lease, and fails", async () => {
      const task = await client.startTask();
      const first = task.lease.generation;
      assert.equal((await task.pause())?.status, TaskStatus.PAUSED);
      await assert.rejects(task.append(HELLO), { reason: "WRONG_STATUS" });
      assert.equal((await task.resume())?.status, TaskStatus.RUNNING);
      assert.ok(task.lease.generation > first);
      await task.append(HELLO);
      await task.pause();
      const again = await client.resumeTask(task.uuid);
      await again.append(HELLO);
      const failed = await again.fail("no more money", { finalSummary: "half of it" });
      assert.deepEqual([failed?.status, failed?.errorMessage], [TaskStatus.FAILED, "no more money"]);
    });

    // feature: append-many
    // feature: stream-history
    test("many messages are pipelined, and acknowledged in order", async () => {
      const task = await client.startTask({ config: { durability: "process" } });
      const count = LONG ? 3000 : 1200;
      const messages = Array.from({ length: count }, (_, at) => ({ role: "user", content: `message ${at}` }));
      let seq = 0n;
      for await (const acknowledged of task.appendMany(messages)) {
        seq += 1n;
        assert.equal(acknowledged.seq, seq);
      }
      assert.equal(seq, BigInt(count));
      assert.deepEqual(await collect(task.currentMessages()), messages);
      const history = await collect(task.messages({ fromSeq: count - 1, kinds: ["message"] }));
      assert.deepEqual(
        history.map((record) => record.seq),
        [BigInt(count - 1), BigInt(count)],
      );
      assert.deepEqual(await collect(task.appendMany([])), []);
    });

    test("of many messages the first that is refused ends it, behind those before it", async () => {
      const task = await client.startTask();
      const acknowledged: bigint[] = [];
      const run = async () => {
        for await (const { seq } of task.appendMany([
          HELLO,
          { message: HELLO, pinned: true },
          { role: "king" },
          HELLO,
        ])) {
          acknowledged.push(seq);
        }
      };
      await assert.rejects(run, InvalidRequestError);
      assert.deepEqual(acknowledged, [1n, 2n]);
      assert.equal((await task.get()).task?.statistics?.totalMessages, 2n);
      assert.ok((await task.message(2)).pinned);
    });

    test("a source of messages that fails loses nothing of what it gave before", async () => {
      const task = await client.startTask();
      async function* source() {
        yield HELLO;
        yield HELLO;
        throw new Error("the model hung up");
      }
      const acknowledged: bigint[] = [];
      const run = async () => {
        for await (const { seq } of task.appendMany(source())) {
          acknowledged.push(seq);
        }
      };
      await assert.rejects(run, { message: "the model hung up" });
      assert.deepEqual(acknowledged, [1n, 2n]);
    });

    // feature: pins
    // feature: rewind
    test("pins, and the view taken back", async () => {
      const task = await client.startTask();
      await collect(task.appendMany([1, 2, 3, 4].map((n) => ({ role: "user", content: `${n}` }))));
      await task.pin(2);
      assert.ok((await task.message(2)).pinned);
      await task.unpin(2n);
      assert.ok(!(await task.message(2)).pinned);
      const { generation } = await task.rewind(3);
      assert.ok(generation > 0n);
      assert.equal((await collect(task.currentMessages())).length, 3);
      assert.equal((await collect(task.currentMessages({ asOfSeq: 2 }))).length, 2);
    });

    test("errors say what is wrong: class, code, reason and field", async () => {
      const task = await client.startTask();
      const nobody = client.task("018f0000-0000-7000-8000-000000000000");
      const missing = await rejection(nobody.get());
      assert.ok(missing instanceof NotFoundError);
      assert.deepEqual([missing.code, missing.reason], ["NOT_FOUND", "TASK_NOT_FOUND"]);
      const invalid = await rejection(task.append({ role: "king", content: "" }));
      assert.ok(invalid instanceof InvalidRequestError);
      assert.equal(invalid.reason, "INVALID_FIELD");
      assert.equal(invalid.fields.length, 1);
      assert.match(invalid.fields[0]?.field ?? "", /role|message_json/);
      await assert.rejects(client.task("not a uuid").get(), InvalidRequestError);
      await assert.rejects(task.message(9), { name: "NotFoundError", reason: "MESSAGE_NOT_FOUND" });

      const other = connect({ ...server.options(transport), instanceId: "somebody-else" });
      const held = await rejection(other.startTask({ uuid: task.uuid }));
      assert.ok(held instanceof LeaseError);
      assert.equal(held.reason, "LEASE_HELD");
      await assert.rejects(other.task(task.uuid).append(HELLO), { reason: "LEASE_HELD" });
      await other.close();
      const taken = await client.startTask({ uuid: task.uuid });
      assert.ok(!taken.isNew);
      assert.ok(taken.lease.generation > task.lease.generation);
      assert.ok((await taken.renewLease()) > 0);
      await assert.rejects(task.append(HELLO), { name: "LeaseError", reason: "STALE_LEASE" });

      await taken.append(HELLO, { requestId: "once" });
      assert.ok((await taken.append(HELLO, { requestId: "once" })).duplicate);
      await assert.rejects(taken.append({ role: "user", content: "other" }, { requestId: "once" }), {
        reason: "REQUEST_ID_REUSED",
      });
      await taken.complete();
      assert.ok((await rejection(taken.append(HELLO))) instanceof PreconditionError);
      await taken.delete();
      await assert.rejects(taken.get(), NotFoundError);
    });

    test("a view that was rewritten while it was read is stale", async () => {
      const task = await client.startTask();
      await collect(task.appendMany([HELLO, HELLO]));
      await task.rewind(1);
      const stale = client.rpc.streamCurrent({ taskUuid: task.uuid, offset: 1n, generation: 0n });
      const error = toError(await rejection(collect(stale)));
      assert.ok(error instanceof StaleViewError, error.message);
    });

    test("a signal ends a call, a stream and a follower; a reader may stop early", async () => {
      const task = await client.startTask();
      await assert.rejects(task.append(HELLO, { signal: AbortSignal.abort() }), CancelledError);
      await collect(task.appendMany(Array.from({ length: 100 }, () => HELLO)));
      const stop = new AbortController();
      const follower = task.messages({ follow: true, kinds: ["message"], signal: stop.signal });
      for (let seq = 1n; seq <= 100n; seq += 1n) {
        assert.equal((await follower.next()).value?.seq, seq);
      }
      const waiting = follower.next();
      await task.append(HELLO);
      assert.equal((await waiting).value?.seq, 101n);
      const forever = follower.next();
      stop.abort("enough");
      await assert.rejects(forever, (error) => error instanceof CancelledError && error.cause === "enough");
      for await (const { seq } of task.messages({ follow: true, kinds: ["message"] })) {
        if (seq === 3n) {
          break;
        }
      }
      for await (const _ of task.appendMany(Array.from({ length: 100 }, () => HELLO))) {
        break;
      }
      await task.append(HELLO);
    });

    test("tasks are listed in pages", async () => {
      const user = `lister over ${transport}`;
      for (let n = 0; n < 5; n += 1) {
        await client.startTask({ user, key: { taskId: `${n}` } });
      }
      const listed = await eventually("all are in the catalog", async () => {
        const tasks = await collect(
          client.listTasks({ filter: { user }, order: "created_asc", pageSize: 2 }),
        );
        return tasks.length === 5 && tasks;
      });
      assert.deepEqual(
        listed.map((task) => task.key?.taskId),
        ["0", "1", "2", "3", "4"],
      );
    });

    test("the server says what it is", async () => {
      const info = await client.serverInfo();
      assert.equal(info.processId, server.processId);
      assert.ok((info.limits?.messageBytes ?? 0n) > 0n);
    });
  });
}

test("over TCP nothing is open without the token but health", async () => {
  const { address } = server.options("tcp");
  const without = connect({ address });
  await without.waitUntilReady();
  const refused = await rejection(without.startTask());
  assert.ok(refused instanceof AccessError);
  assert.deepEqual([refused.code, refused.reason], ["UNAUTHENTICATED", "UNAUTHENTICATED"]);
  await assert.rejects(collect(without.task("018f0000-0000-7000-8000-000000000000").current()), AccessError);
  await without.close();
  const wrong = connect({ address, token: "wrong" });
  await assert.rejects(wrong.serverInfo(), AccessError);
  await wrong.close();
});

test("the environment is enough to connect", async () => {
  const { address } = server.options("tcp");
  for (const env of [
    { CONTEXTSTORE_DATA_DIR: server.dataDir },
    { CONTEXTSTORE_DATA_DIR: server.dataDir, CONTEXTSTORE_ADDRESS: address },
  ]) {
    const client = fromEnv(env);
    assert.equal((await client.serverInfo()).processId, server.processId);
    await client.close();
  }
});

test("a closed client makes no calls", async () => {
  const client = connect(server.options("unix"));
  const task = await client.startTask();
  const follower = task.messages({ follow: true, fromSeq: 1 });
  const waiting = follower.next();
  await client.close();
  await assert.rejects(waiting, CancelledError);
  await assert.rejects(task.get(), { name: "CancelledError", message: "the client is closed" });
  await assert.rejects(client.waitUntilReady(), { name: "CancelledError", message: "the client is closed" });
});

async function rejection(promise: Promise<unknown>): Promise<unknown> {
  return await promise.then(
    () => assert.fail("it did not fail"),
    (error: unknown) => error,
  );
}
