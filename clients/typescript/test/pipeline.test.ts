// Appends that nobody waits for: their order, the barrier before everything else, and what happens when one is refused.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import {
  type Client,
  connect,
  PipelineError,
  PreconditionError,
  type Task,
  TaskStatus,
} from "../src/index.js";
import { collect, eventually, thrownBy } from "./support/eventually.js";
import { BadProxy } from "./support/proxy.js";
import { TestServer } from "./support/server.js";

let server: TestServer;
before(async () => {
  server = await TestServer.start();
});
after(() => server.stop());

const message = (n: number) => ({ role: "user", content: `${n}` });

function numbers(messages: readonly { content?: unknown }[]): number[] {
  return messages.map(({ content }) => Number(content));
}

const upTo = (count: number) => Array.from({ length: count }, (_, at) => at + 1);

for (const transport of ["unix", "tcp"] as const) {
  describe(`over ${transport}`, () => {
    let client: Client;
    let task: Task;
    before(() => {
      client = server.client(transport);
    });
    const start = async () => {
      task = await client.startTask({ config: { compression: { auto: false } } });
    };

    // feature: append-later
    // feature: stream-current
    test("they are in order, and every read is behind them", async () => {
      await start();
      for (const n of upTo(1500)) {
        assert.equal(await task.append(message(n), { wait: false }), undefined);
      }
      assert.deepEqual(numbers(await task.current().toArray()), upTo(1500));
      await task.append(message(1501), { wait: false });
      assert.equal((await task.get()).task?.lastSeq, 1501n);
      await task.append(message(1502), { wait: false });
      assert.equal((await task.append(message(1503))).seq, 1503n);
      await task.append(message(1504), { wait: false, pinned: true });
      assert.equal((await task.message(1504)).pinned, true);
      await task.append(message(1505), { wait: false });
      assert.equal((await collect(task.messages({ fromSeq: 1505, kinds: ["message"] }))).length, 1);
      await task.append(message(1506), { wait: false });
      assert.deepEqual(
        await collect(task.appendMany([message(1507)])).then((all) => all.map(({ seq }) => seq)),
        [1507n],
      );
      await task.append(message(1508), { wait: false });
      assert.equal((await task.complete("done"))?.statistics?.totalMessages, 1508n);
    });

    test("they need not even be awaited", async () => {
      await start();
      const appended = upTo(100).map((n) => task.append(message(n), { wait: false }));
      await task.flush();
      await Promise.all(appended);
      assert.deepEqual(numbers(await task.current().toArray()), upTo(100));
    });

    test("a refused one surfaces once, with what was not appended", async () => {
      await start();
      await task.append(message(1), { wait: false });
      await task.append({ role: "nobody", content: "x" }, { wait: false });
      await task.append(message(2), { wait: false });
      const failure = await thrownBy(task.current().toArray());
      assert.ok(failure instanceof PipelineError, String(failure));
      assert.deepEqual([failure.code, failure.method], ["INVALID_ARGUMENT", "AppendMessages"]);
      assert.equal(failure.notAppended.length, 2);
      assert.match(failure.message, /^2 messages that were not waited for are not appended: /);
      assert.deepEqual(numbers(await task.current().toArray()), [1]);
      await collect(task.appendMany(failure.notAppended.slice(1)));
      assert.deepEqual(numbers(await task.current().toArray()), [1, 2]);
    });

    test("the next append tells it too, if it comes late enough", async () => {
      await start();
      const sent: unknown[] = [];
      const failure = await eventually("it is refused", async () => {
        const next = { role: "nobody", content: `${sent.length}` };
        sent.push(next);
        return await task.append(next, { wait: false }).catch((thrown: unknown) => thrown);
      });
      assert.ok(failure instanceof PipelineError, String(failure));
      // The one that tells it is not sent any more, and is the last of them.
      const lost = failure.notAppended.map(({ message }) => message);
      assert.deepEqual(lost, sent);
      await task.flush();
      assert.equal((await task.append(message(1))).seq, 1n);
    });

    test("what is wrong with the message itself is told at once", async () => {
      await start();
      await assert.rejects(task.append({ role: "user", content: 1n }, { wait: false }), TypeError);
      await task.flush();
    });

    test("a status does not change before them", async () => {
      await start();
      await task.append({ role: "nobody" }, { wait: false });
      await assert.rejects(task.complete("done"), PipelineError);
      assert.equal((await task.get()).task?.status, TaskStatus.RUNNING);
      await task.append(message(1), { wait: false });
      await task.pause();
      await task.append(message(2), { wait: false });
      const failure = await thrownBy(task.flush());
      assert.ok(failure instanceof PipelineError && failure.cause instanceof PreconditionError);
      assert.equal(failure.reason, "WRONG_STATUS");
    });

    test("waiting for them can be given up", async () => {
      await start();
      await task.append(message(1), { wait: false });
      await assert.rejects(task.flush({ signal: AbortSignal.abort() }), { name: "CancelledError" });
      await task.flush();
    });
  });
}

test("a broken connection is taken up again", async () => {
  const proxy = await BadProxy.start(server.socket);
  await using client = connect({ address: proxy.address });
  const task = await client.startTask({ config: { compression: { auto: false } } });
  for (const n of upTo(2000)) {
    await task.append(message(n), { wait: false });
    if (n % 500 === 0) {
      proxy.cutAfter(100);
    }
  }
  assert.deepEqual(numbers(await task.current().toArray()), upTo(2000));
  assert.ok(proxy.cuts >= 3, `${proxy.cuts} cuts`);
  await client.close();
  await proxy.stop();
});

// feature: append-later-survives-close
test("a client that is closed waits for them, however it is closed", async () => {
  const closings: readonly ((client: Client) => unknown)[] = [
    (client) => client.close(),
    (client) => client[Symbol.asyncDispose](),
    (client) => {
      client[Symbol.dispose]();
    },
  ];
  for (const close of closings) {
    const client = connect(server.options("unix"));
    const task = await client.startTask({ config: { compression: { auto: false } } });
    for (const n of upTo(300)) {
      await task.append(message(n), { wait: false });
    }
    await close(client);
    const view = server.client("unix").task(task.uuid).current();
    const stored = await eventually("all are stored", async () => {
      const found = numbers(await view.toArray());
      return found.length === 300 ? found : undefined;
    });
    assert.deepEqual(stored, upTo(300));
    await assert.rejects(task.append(message(301), { wait: false }), /the client is closed/);
  }
});

test("what a closing client cannot append in time is thrown, and can be appended again, once", async () => {
  const proxy = await BadProxy.start(server.socket);
  const client = connect({ address: proxy.address });
  const task = await client.startTask({ config: { compression: { auto: false } } });
  await task.append(message(1), { wait: false });
  await task.flush();
  proxy.silence();
  for (const n of upTo(40).slice(1)) {
    await task.append(message(n), { wait: false, pinned: n % 10 === 0 });
  }
  const failure = await thrownBy(client.close({ timeoutMs: 50 }));
  assert.ok(failure instanceof PipelineError, String(failure));
  assert.equal(failure.notAppended.length, 39);
  await client.close();
  await proxy.stop();
  const again = server.client("unix").task(task.uuid);
  again.lease.take(task.lease.generation, 0);
  await collect(again.appendMany(failure.notAppended));
  assert.deepEqual(numbers(await again.current().toArray()), upTo(40));
});

test("client.flush throws what failed in any task", async () => {
  await using client = connect(server.options("unix"));
  let refused = 0;
  const { appendMessages } = client.rpc;
  client.rpc.appendMessages = async function* counted(...given) {
    try {
      yield* appendMessages(...given);
    } catch (thrown) {
      refused += 1;
      throw thrown;
    }
  };
  const [one, two] = [await client.startTask(), await client.startTask()];
  await one.append({ role: "nobody" }, { wait: false });
  await two.append({ role: "nobody" }, { wait: false });
  await assert.rejects(client.flush(), { name: "AggregateError" });
  await client.flush();
  const before = refused;
  await one.append({ role: "nobody" }, { wait: false });
  await two.append(message(1), { wait: false });
  await two.get();
  // It has failed before, and nobody was told.
  await eventually("it is refused", () => refused > before);
  await assert.rejects(client.flush(), PipelineError);
  await one.flush();
});
