// Tasks by their keys, at the end of a block, and the tools of an agent.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Client, connect, type Task, TaskStatus, type TaskStatusInput } from "../src/index.js";
import { collect, eventually } from "./support/eventually.js";
import { TestServer } from "./support/server.js";

const HELLO = { role: "user", content: "Hello" };

let server: TestServer;
let client: Client;
before(async () => {
  server = await TestServer.start();
  client = server.client("unix");
});
after(() => server.stop());

/** Waits until the catalog, which may be a second behind, knows the status of a task. */
async function catalogued(task: Task, status: TaskStatusInput): Promise<void> {
  await eventually("the catalog knows it", async () => {
    const found = await collect(client.listTasks({ filter: { statuses: [status] } }));
    return found.some(({ uuid }) => uuid === task.uuid);
  });
}

// feature: tasks-by-key
test("the task of a key is gone on with while it is there, else started", async () => {
  const key = { taskSource: "github", owner: "octo", repo: "hello", taskType: "issue", taskId: "7" };
  const first = await client.task(key, {
    user: "ada",
    config: { model: "gpt-5" },
    systemMessage: "You fix.",
  });
  assert.deepEqual([first.isNew, first.resumed], [true, false]);
  await first.append(HELLO);
  await catalogued(first, "running");
  const again = await client.task(key, { user: "ada" });
  assert.deepEqual([again.uuid, again.isNew, again.resumed], [first.uuid, false, true]);
  await again.pause();
  await catalogued(first, "paused");
  const resumed = await client.task(key, { user: "ada" });
  assert.deepEqual([resumed.uuid, resumed.resumed], [first.uuid, true]);
  assert.equal((await resumed.append(HELLO)).seq, 3n);

  const others = [
    await client.task({ ...key, taskId: "8" }, { user: "ada" }),
    await client.task({ taskId: "7" }, { user: "ada" }),
    await client.task(key, { user: "bob" }),
  ];
  assert.deepEqual(
    others.map(({ isNew }) => isNew),
    [true, true, true],
  );
  await resumed.complete("done");
  await catalogued(first, "completed");
  const next = await client.task(key, { user: "ada" });
  assert.deepEqual([next.isNew, next.inheritedFrom], [true, first.uuid]);
});

test("a task that somebody else works on is refused", async () => {
  const key = { taskSource: "test", taskId: "held" };
  await catalogued(await client.task(key), "running");
  await using other = connect(server.options("tcp"));
  await assert.rejects(other.task(key), { name: "LeaseError", reason: "LEASE_HELD" });
});

test("at the end of its block a task is paused, unless it has ended", async () => {
  let uuid: string;
  {
    await using task = await client.startTask();
    uuid = task.uuid;
    await task.append(HELLO, { wait: false });
  }
  const { task: paused } = await client.task(uuid).get();
  assert.deepEqual([paused?.status, paused?.lastSeq], [TaskStatus.PAUSED, 1n]);
  {
    await using task = await client.resumeTask(uuid);
    await task.complete("done");
  }
  assert.equal((await client.task(uuid).get()).task?.status, TaskStatus.COMPLETED);
  {
    // One that is only looked at, and one that is gone.
    await using looked = client.task(uuid);
    await using deleted = await client.startTask();
    await client.rpc.deleteTask({
      taskUuid: deleted.uuid,
      requestId: "delete",
      leaseGeneration: deleted.lease.generation,
    });
    assert.equal(looked.uuid, uuid);
  }
});

// feature: tool-calls
// feature: tool-wrapper
test("a tool is timed and recorded", async () => {
  const task = await client.startTask();
  const add = task.tool("add", (a: number, b: number) => a + b);
  assert.equal(await add(2, 3), 5);
  const slow = task.tool("slow", async ({ ms }: { ms: number }) => {
    await new Promise((resolve) => setTimeout(resolve, ms));
  });
  await slow({ ms: 30 });
  const broken = task.tool("broken", () => {
    throw new RangeError("no such file");
  });
  await assert.rejects(broken(), RangeError);
  const big = task.tool("big", () => ({ count: 2n ** 60n }));
  await big();
  const records = (await collect(task.toolCalls())).map(({ json }) => json);
  assert.deepEqual(
    records.map(({ tool_name, arguments: given, result, status, error }) => [
      tool_name,
      given,
      result,
      status,
      error,
    ]),
    [
      ["add", [2, 3], 5, "success", undefined],
      ["slow", { ms: 30 }, null, "success", undefined],
      ["broken", undefined, undefined, "error", "RangeError: no such file"],
      ["big", undefined, { count: "1152921504606846976" }, "success", undefined],
    ],
  );
  assert.ok(Number(records[1]?.duration_ms) >= 25, String(records[1]?.duration_ms));
});

test("the view in all its forms", async () => {
  const task = await client.startTask();
  await task.append(HELLO);
  const view = task.current();
  const text = `${JSON.stringify(HELLO)}\n`;
  assert.equal(await view.text(), text);
  assert.equal(Buffer.from(await view.bytes()).toString(), text);
  assert.equal(await new Response(view.stream()).text(), text);
  assert.deepEqual(await view.toArray(), [HELLO]);
  assert.deepEqual(await collect(view.messages()), [HELLO]);
  assert.deepEqual(await collect(task.currentMessages()), [HELLO]);
  const reader = view.stream().getReader();
  await reader.read();
  await reader.cancel();
  assert.throws(() => task.current({ asOfSeq: -1 }), RangeError);
});
