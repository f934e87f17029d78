// Contexts that are made smaller, by the server and by the agent, and taken back; over both transports.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import {
  type Client,
  CompressionStrategy,
  CompressSkipReason,
  CompressStage,
  connect,
  Provider,
  SummaryAuthor,
  type Task,
} from "../src/index.js";
import { collect } from "./support/eventually.js";
import { TestServer } from "./support/server.js";

const SYSTEM = { role: "system", content: "You keep a diary." };

/** A conversation with something on each day, and many words. */
function diary(days: number) {
  return Array.from({ length: days }, (_, day) => [
    { role: "user", content: `Day ${day}: see src/day_${day}.rs. ${"It rained again. ".repeat(12)}` },
    { role: "assistant", content: `Noted day ${day}. ${"The rain is noted. ".repeat(12)}` },
  ]).flat();
}

async function started(client: Client): Promise<Task> {
  const task = await client.startTask({ config: { contextLength: 4000, compression: { auto: false } } });
  await collect(task.appendMany([SYSTEM, ...diary(20)]));
  return task;
}

async function contents(task: Task): Promise<string[]> {
  return (await collect(task.currentMessages())).map(({ content }) => String(content));
}

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

    // feature: compress
    // feature: undo
    test("a context is compressed and taken back", async () => {
      const task = await started(client);
      const before = Buffer.concat(await collect(task.current()));
      const stages: CompressStage[] = [];
      const done = await task.compress({ onProgress: ({ stage }) => stages.push(stage) });
      assert.deepEqual(stages, [
        CompressStage.EXTRACTING,
        CompressStage.SUMMARIZING,
        CompressStage.PUBLISHING,
      ]);
      assert.deepEqual(
        [done.compressed, done.skipReason, done.duplicate, done.targetMissed],
        [true, CompressSkipReason.UNSPECIFIED, false, ""],
      );
      assert.deepEqual(
        [done.strategy, done.summaryAuthor, done.provider, done.summaryId, done.generation],
        [CompressionStrategy.SUMMARIZE, SummaryAuthor.EXTRACTIVE, Provider.UNSPECIFIED, 1n, 1n],
      );
      const view = await contents(task);
      assert.equal(done.messagesAfter, BigInt(view.length));
      assert.equal(done.tokensBefore - done.tokensAfter, done.tokensRemoved);
      assert.ok(view[0] === SYSTEM.content && view[1]?.includes("src/day_10.rs"));

      const again = await task.compress();
      assert.deepEqual([again.compressed, again.skipReason], [false, CompressSkipReason.NOTHING]);
      assert.equal((await task.undoCompaction()).generation, 2n);
      assert.deepEqual(Buffer.concat(await collect(task.current())), before);
      assert.equal(await task.latestSummary(), undefined);
      assert.deepEqual(
        (await collect(task.summaries())).map(({ undone }) => undone),
        [true],
      );
      await assert.rejects(task.undoCompaction(), { reason: "NOTHING_TO_UNDO" });
    });

    test("a strategy and what it needs can be asked for", async () => {
      const task = await started(client);
      for (const strategy of ["summarize", "compact", "prune", "window"] as const) {
        const done = await task.compress({ strategy, targetTokens: 1600, overrides: { minMessages: 2 } });
        assert.deepEqual(
          [done.compressed, CompressionStrategy[done.strategy]],
          [true, strategy.toUpperCase()],
        );
        await task.undoCompaction();
      }
      const done = await task.compress({ strategy: "window", window: { messages: 4 } });
      assert.ok(done.messagesAfter <= 6n, String(done.messagesAfter));
      const kept = await task.compress({ strategy: CompressionStrategy.PRUNE, targetTokens: 1_000_000 });
      assert.deepEqual(
        [kept.strategy, kept.skipReason],
        [CompressionStrategy.PRUNE, CompressSkipReason.WITHIN_TARGET],
      );
      await assert.rejects(task.compress({ targetTokens: -1 }), RangeError);
      const unknown = await client.startTask();
      await assert.rejects(unknown.compress({ strategy: "compact" }), { reason: "LIMIT_UNKNOWN" });
    });

    test("a repeated call compresses once", async () => {
      const task = await started(client);
      const first = await task.compress({ requestId: "night-1" });
      const { compressed, duplicate, tokensAfter } = await task.compress({ requestId: "night-1" });
      assert.deepEqual([compressed, duplicate, tokensAfter], [true, true, first.tokensAfter]);
    });

    // feature: agent-compaction
    test("an agent summarises by itself", async () => {
      const task = await started(client);
      const compaction = await task.beginCompaction({ targetTokens: 1000 });
      assert.ok(compaction.budget > 0n && compaction.prompt !== "" && compaction.previousSummary === "");
      const messages = await collect(compaction.messages());
      assert.equal(BigInt(messages.length), compaction.messageCount);
      assert.deepEqual(
        [BigInt(Number(messages[0]?.seq)), BigInt(Number(messages.at(-1)?.seq))],
        [compaction.startSeq, compaction.endSeq],
      );
      await task.append({ role: "user", content: "Meanwhile." });
      await assert.rejects(compaction.commit(" "), { reason: "SUMMARY_REFUSED" });
      const done = await compaction.commit("It rained for weeks, and the roof leaked.", {
        keepSeqs: [3],
        model: "me",
      });
      assert.deepEqual([done.compressed, done.summaryAuthor, done.model], [true, SummaryAuthor.AGENT, "me"]);
      const view = await contents(task);
      assert.ok(view.includes(diary(1)[1]?.content ?? "") && view.at(-1) === "Meanwhile.");
      assert.ok(view.some((content) => content.includes("It rained for weeks, and the roof leaked.")));
      await compaction.abort();
    });
  });
}

test("a compaction is given up at the end of its block", async () => {
  using client = connect(server.options("unix"));
  const task = await started(client);
  const before = await contents(task);
  let left: { commit(summary: string): Promise<unknown> } | undefined;
  {
    await using compaction = await task.beginCompaction();
    left = compaction;
    await compaction.messages().next();
  }
  assert.deepEqual(await contents(task), before);
  await assert.rejects(left.commit("Too late."), { reason: "COMPACTION_NOT_FOUND" });
  assert.ok((await task.compress()).compressed);
});

test("a server that is killed meanwhile is asked again", async () => {
  const own = await TestServer.start();
  try {
    const task = await started(own.client("unix"));
    let restarted: Promise<void> | undefined;
    const onProgress = () => {
      restarted ??= own.kill().then(() => own.restart());
    };
    // The first call may have rewritten the view before the server was killed; then the second one reports that.
    assert.ok((await task.compress({ onProgress })).compressed);
    await restarted;
    assert.ok((await contents(task)).length < 41);
  } finally {
    await own.stop();
  }
});
