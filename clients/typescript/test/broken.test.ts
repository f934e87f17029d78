// Broken connections: every call happens once, every stream goes on where it was.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import {
  type Client,
  connect,
  DeadlineError,
  NotFoundError,
  StaleViewError,
  type Task,
  UnavailableError,
} from "../src/index.js";
import { collect, DEADLINE_MS, eventually } from "./support/eventually.js";
import { BadProxy } from "./support/proxy.js";
import { LONG, TestServer } from "./support/server.js";

let server: TestServer;
before(async () => {
  server = await TestServer.start();
});
after(() => server.stop());

/** A message of about a kilobyte. */
function message(n: number): { role: string; content: string } {
  return { role: "user", content: `${n} ${"x".repeat(1000)}` };
}

function numbers(messages: readonly { content?: unknown }[]): number[] {
  return messages.map(({ content }) => Number.parseInt(String(content), 10));
}

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, at) => at + 1);
}

describe("through a connection that breaks", () => {
  let proxy: BadProxy;
  let client: Client;
  let task: Task;

  beforeEach(async () => {
    proxy = await BadProxy.start(server.socket);
    client = connect({ address: proxy.address });
    task = await client.startTask({ config: { compression: { auto: false } } });
  });
  afterEach(async () => {
    await client.close();
    await proxy.stop();
  });

  async function* messages(count: number) {
    for (const n of upTo(count)) {
      yield message(n);
    }
  }

  test("an append whose answer was lost is made once", async () => {
    for (const n of upTo(20)) {
      proxy.cutAfter(0);
      assert.equal((await task.append(message(n))).seq, BigInt(n));
    }
    assert.ok(proxy.cuts >= 20);
    assert.deepEqual(numbers(await collect(task.currentMessages())), upTo(20));
  });

  test("many appends go on with what was not acknowledged", async () => {
    const count = LONG ? 2500 : 1500;
    const sequence: bigint[] = [];
    proxy.cutAfter(1000);
    for await (const { seq } of task.appendMany(messages(count))) {
      sequence.push(seq);
      if (sequence.length % 400 === 0) {
        proxy.cutAfter(500);
      }
    }
    assert.ok(proxy.cuts >= 3, `${proxy.cuts} cuts`);
    assert.deepEqual(sequence, upTo(count).map(BigInt));
    assert.deepEqual(numbers(await collect(task.currentMessages())), upTo(count));
  });

  test("no more is under way than the server remembers, also if acknowledgements are not taken", async () => {
    let taken = 0;
    async function* counted() {
      for await (const next of messages(1200)) {
        taken += 1;
        yield next;
      }
    }
    const acknowledged = task.appendMany(counted());
    assert.equal((await acknowledged.next()).value?.seq, 1n);
    await eventually("the window is full", async () => ((await task.get()).task?.lastSeq ?? 0n) >= 513n);
    assert.equal(taken, 513);
    proxy.cut();
    assert.equal((await collect(acknowledged)).at(-1)?.seq, 1200n);
    assert.deepEqual(numbers(await collect(task.currentMessages())), upTo(1200));
  });

  test("the view is one snapshot, although it grows between two attempts", async () => {
    // Larger than what the connection takes in before it is read.
    await collect(task.appendMany(messages(4000)));
    const before = readFileSync(join(server.dataDir, "running", task.uuid, "current.jsonl"));
    const read: Uint8Array[] = [];
    for await (const chunk of task.current({ chunkBytes: 64 << 10 })) {
      read.push(chunk);
      if (read.length % 16 === 1) {
        await appendBeside(task, message(0));
        proxy.cut();
      }
    }
    assert.ok(proxy.cuts >= 2, `${proxy.cuts} cuts`);
    assert.ok(Buffer.concat(read).equals(before));
  });

  test("a view that is rewritten for the first time between two attempts is stale", async () => {
    await collect(task.appendMany(messages(4000)));
    const beside = server.client("unix").rpc;
    let cuts = 0;
    const read = async () => {
      for await (const _ of task.current({ chunkBytes: 64 << 10 })) {
        if (cuts === 0) {
          const { uuid: taskUuid, lease } = task;
          await beside.rewindTask({ taskUuid, seq: 3000n, leaseGeneration: lease.generation });
          proxy.cut();
          cuts += 1;
        }
      }
    };
    await assert.rejects(read, StaleViewError);
  });

  test("summaries are asked for again", async () => {
    const long = await client.startTask({ config: { contextLength: 4000, compression: { auto: false } } });
    await collect(long.appendMany(messages(40)));
    const compaction = await long.beginCompaction();
    await compaction.commit("All of it was said, and nothing is left to do. ".repeat(12));
    proxy.cutAfter(0);
    const summaries = await collect(long.summaries());
    assert.deepEqual([proxy.cuts, summaries.map(({ id }) => id)], [1, [1]]);
  });

  test("the history has every record once, messages and events", async () => {
    await collect(task.appendMany(messages(600)));
    for (const seq of [10, 300, 600]) {
      await task.pin(seq);
      await task.unpin(seq);
    }
    await collect(task.appendMany(messages(600)));
    const whole = await collect(task.messages());
    const bytes = whole.reduce((sum, record) => sum + record.bytes.length, 0);
    const fresh = connect({ address: proxy.address });
    for (let at = 100_000; at < bytes; at += 200_000) {
      proxy.cutAfter(at);
      assert.deepEqual(await collect(fresh.task(task.uuid).messages()), whole, `cut after ${at} bytes`);
    }
    await fresh.close();
    assert.ok(proxy.cuts > 3);
  });

  // feature: watch
  test("followers and watchers miss nothing", async () => {
    const seen = await firstEvent(task);
    const last = (await task.get()).task?.lastSeq ?? 0n;
    const stop = new AbortController();
    const { signal } = stop;
    const followed: bigint[] = [];
    const watched: bigint[] = [];
    const following = (async () => {
      for await (const { seq } of task.messages({ follow: true, kinds: ["message"], signal })) {
        followed.push(seq);
      }
    })();
    const watching = (async () => {
      for await (const { event } of task.watch({ resumeToken: seen.resumeToken, signal })) {
        if (event.case === "messageAppended") {
          watched.push(event.value.seq);
        }
      }
    })();
    for (const n of upTo(30)) {
      if (n % 7 === 0) {
        proxy.cutAfter(200);
      }
      await task.append(message(n));
    }
    const all = upTo(Number(last) + 30).map(BigInt);
    await eventually("all were followed", () => followed.length >= all.length);
    await eventually("all were watched", () => watched.length >= all.length - Number(seen.seq));
    stop.abort();
    await assert.rejects(following, { name: "CancelledError" });
    await assert.rejects(watching, { name: "CancelledError" });
    assert.deepEqual(followed, all);
    assert.deepEqual(watched, all.slice(Number(seen.seq)));
    assert.ok(proxy.cuts >= 4, `${proxy.cuts} cuts`);
  });

  test("a watcher that has seen nothing yet misses nothing", async () => {
    const beside = server.client("unix").task(task.uuid);
    task.lease.stop();
    for (const n of upTo(3)) {
      await client.serverInfo();
      const before = proxy.heads;
      const events = task.watch();
      const first = events.next();
      // The server has begun to answer, and what comes behind that has arrived: so the watch has begun.
      await eventually("the watcher is there", () => proxy.heads > before);
      await client.serverInfo();
      proxy.cut();
      await appendBeside(task, message(n));
      const seen = await Promise.race([first, delay(DEADLINE_MS, undefined, { ref: false })]);
      assert.ok(seen?.value?.event.case === "messageAppended", "nothing was seen");
      assert.equal(seen.value.event.value.seq, (await beside.get()).task?.lastSeq);
      await events.return();
    }
  });

  test("a removal whose answer was lost has happened, and another one finds nothing", async () => {
    proxy.cutAfter(0);
    await task.delete();
    assert.ok(proxy.cuts >= 1);
    await assert.rejects(task.delete(), NotFoundError);
  });

  test("a server that says nothing is given up on in time", async () => {
    await task.append(message(1));
    proxy.silence();
    await assert.rejects(task.append(message(2), { timeoutMs: 200 }), DeadlineError);
    await assert.rejects(collect(task.current({ timeoutMs: 200 })), DeadlineError);
    await assert.rejects(collect(task.appendMany([message(3)], { timeoutMs: 200 })), DeadlineError);
    await assert.rejects(client.waitUntilReady({ timeoutMs: 200 }), DeadlineError);
  });
});

/** For how long nothing happens: that it is longer than the patience of the client is what the test is about. */
const IDLE_MS = 1_000;

test("a follower that has heard nothing for longer than a call is tried again goes on", async (t) => {
  const proxy = await BadProxy.start(server.socket);
  const client = connect({ address: proxy.address, retryForMs: IDLE_MS / 2 });
  t.after(async () => {
    await client.close();
    await proxy.stop();
  });
  const task = await server.client("unix").startTask();
  const follower = client.task(task.uuid).messages({ follow: true, kinds: ["message"] });
  for (const n of upTo(2)) {
    const before = proxy.heads;
    const next = follower.next();
    await eventually("the follower is there", () => n > 1 || proxy.heads > before);
    await delay(IDLE_MS);
    proxy.cut();
    await task.append(message(n));
    assert.equal((await next).value?.seq, BigInt(n));
  }
});

test("without retries the first failure is the caller's", async (t) => {
  const proxy = await BadProxy.start(server.socket);
  const client = connect({ address: proxy.address, retryForMs: 0 });
  t.after(async () => {
    await client.close();
    await proxy.stop();
  });
  const task = await client.startTask();
  proxy.cutAfter(0);
  await assert.rejects(task.append(message(1)), UnavailableError);
});

/** Appends under the same lease, but round the proxy. */
async function appendBeside(task: Task, message: { role: string; content: string }): Promise<void> {
  await server.client("unix").rpc.appendMessage({
    taskUuid: task.uuid,
    leaseGeneration: task.lease.generation,
    message: { body: { case: "json", value: JSON.stringify(message) } },
  });
}

/** The first event that a watcher sees: a message that was appended for it. */
async function firstEvent(task: Task): Promise<{ resumeToken: string; seq: bigint }> {
  const events = task.watch();
  const first = events.next();
  // From when on the watcher is there is not known, so it gets a message until it has seen one.
  const { value } = await eventually("the watcher is there", async () => {
    await task.append(message(0));
    return await Promise.race([first, delay(20, undefined)]);
  });
  await events.return();
  assert.ok(value?.event.case === "messageAppended");
  return { resumeToken: value.resumeToken, seq: value.event.value.seq };
}
