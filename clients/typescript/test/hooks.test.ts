// Hooks: what an agent wants done before its task ends, and what an error of one does.

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { type Client, type Ending, HookError, type Task, TaskStatus } from "../src/index.js";
import { TestServer } from "./support/server.js";

let server: TestServer;
let client: Client;
before(async () => {
  server = await TestServer.start();
  client = server.client("unix");
});
after(() => server.stop());

// feature: hooks
test("hooks run in order, before the status changes, and are awaited", async () => {
  const task = await client.startTask();
  const seen: string[] = [];
  for (const name of ["first", "second", "first"]) {
    const hook = async ({ task, status }: Ending<Task>) => {
      seen.push(`${name} ${status} ${TaskStatus[(await task.get()).task?.status ?? 0]}`);
    };
    task.onComplete(name, hook);
    task.onStop(name, hook);
  }
  await task.pause();
  await task.resume();
  assert.deepEqual(seen.splice(0), ["first paused RUNNING", "second paused RUNNING"]);
  await task.complete("All done.");
  assert.deepEqual(seen, ["first completed RUNNING", "second completed RUNNING"]);
});

test("a hook knows how the task ends", async () => {
  const task = await client.startTask();
  const endings: Ending<Task>[] = [];
  task.onStop("note", (ending) => endings.push(ending));
  task.onComplete("never", () => assert.fail("it was not completed"));
  await task.fail("no luck", { finalSummary: "Tried." });
  const told = { task, status: "failed", finalSummary: "Tried.", errorMessage: "no luck" };
  assert.deepEqual(endings, [told]);
});

test("errors are reported, and the task ends", async () => {
  const task = await client.startTask();
  const called: string[] = [];
  const broken = new Error("broken");
  task.onComplete("broken", () => Promise.reject(broken));
  task.onComplete("fine", () => called.push("fine"));
  const warned = once(process, "warning");
  assert.equal((await task.complete())?.status, TaskStatus.COMPLETED);
  assert.deepEqual([called, task.hookFailures], [["fine"], [{ name: "broken", error: broken }]]);
  const [warning] = (await warned) as [Error & { code?: string }];
  assert.ok(warning.code === "CONTEXTSTORE_HOOK" && warning.message.includes(task.uuid), String(warning));
});

test("errors can stop it", async () => {
  const task = await client.startTask();
  task.hookErrors = "stop";
  const broken = new Error("broken");
  task.onComplete("broken", () => {
    throw broken;
  });
  task.onComplete("later", () => assert.fail("it was stopped before"));
  await assert.rejects(task.complete(), (error) => {
    return error instanceof HookError && error.hook === "broken" && error.cause === broken;
  });
  assert.deepEqual(task.hookFailures, [{ name: "broken", error: broken }]);
  assert.equal((await task.get()).task?.status, TaskStatus.RUNNING);
  task.onComplete("broken", () => undefined);
  const late = new Error("late");
  task.onComplete("later", () => Promise.reject(late));
  // What failed before does not stay.
  await assert.rejects(task.complete(), HookError);
  assert.deepEqual(task.hookFailures, [{ name: "later", error: late }]);
  task.onComplete("later", () => undefined);
  assert.equal((await task.complete())?.status, TaskStatus.COMPLETED);
  assert.deepEqual(task.hookFailures, []);
});
