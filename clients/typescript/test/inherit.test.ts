// Tasks that come from others: forks, and what a new task takes over from one that ended; over both transports.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { TaskStatus } from "../src/index.js";
import { collect } from "./support/eventually.js";
import { TestServer } from "./support/server.js";

let server: TestServer;
before(async () => {
  server = await TestServer.start();
});
after(() => server.stop());

const SYSTEM = "You fix tests.";

for (const transport of ["unix", "tcp"] as const) {
  // feature: fork
  test(`a task is forked, over ${transport}`, async () => {
    const client = server.client(transport);
    const task = await client.startTask({ systemMessage: SYSTEM });
    await collect(task.appendMany([1, 2, 3].map((n) => ({ role: "user", content: `Step ${n}.` }))));
    const fork = await task.fork({ atSeq: 2 });
    assert.ok(fork.isNew && fork.uuid !== task.uuid);
    assert.equal((await fork.append({ role: "user", content: "Elsewhere." })).seq, 3n);
    const said = async (of: typeof fork) =>
      (await collect(of.currentMessages())).map(({ content }) => content);
    assert.deepEqual(await said(fork), [SYSTEM, "Step 1.", "Elsewhere."]);
    assert.deepEqual(await said(task), [SYSTEM, "Step 1.", "Step 2.", "Step 3."]);
    const whole = await client.forkTask(task.uuid);
    assert.deepEqual(await said(whole), await said(task));
    await assert.rejects(task.fork({ atSeq: 99 }), { reason: "MESSAGE_NOT_FOUND" });
  });

  // feature: inheritance
  test(`a task takes over from an earlier one, over ${transport}`, async () => {
    const client = server.client(transport);
    const key = { taskSource: "github", owner: "octo", repo: transport, taskType: "issue", taskId: "7" };
    const first = await client.startTask({ key, user: "ada" });
    assert.deepEqual([first.inheritedFrom, first.inheritanceComment], ["", ""]);
    await first.append({ role: "user", content: "Fix it." });
    await assert.rejects(client.inheritanceContext(first.uuid), { reason: "WRONG_STATUS" });
    await first.complete("The parser was fixed.");
    const [found] = await client.previousContexts(key, "ada");
    assert.deepEqual([found?.taskUuid, found?.status], [first.uuid, TaskStatus.COMPLETED]);
    const context = await client.inheritanceContext(first.uuid, { maxSummaryTokens: 500 });
    assert.ok(context.text.includes("The parser was fixed."), context.text);

    const second = await client.startTask({ key, user: "ada", systemMessage: SYSTEM });
    assert.equal(second.inheritedFrom, first.uuid);
    assert.ok(second.inheritanceComment.includes(first.uuid), second.inheritanceComment);
    const [system, inherited] = await collect(second.currentMessages());
    assert.equal(system?.content, SYSTEM);
    assert.ok(String(inherited?.content).includes("The parser was fixed."));
    await second.complete("The lexer was fixed.");
    for (const [inherit, inheritedFrom] of [
      ["never", ""],
      ["auto", second.uuid],
      [first.uuid, first.uuid],
    ] as const) {
      const third = await client.startTask({ key, user: "ada", inherit });
      assert.equal(third.inheritedFrom, inheritedFrom);
    }
  });
}
