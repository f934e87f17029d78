// The server is killed, restarted or not there yet, while the client is at work.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { connect, fromEnv, UnavailableError } from "../src/index.js";
import { collect, DEADLINE_MS, eventually } from "./support/eventually.js";
import { BINARY, TestServer } from "./support/server.js";

// Each has a server of its own, and mostly waits for it.
describe("a server that comes and goes", { concurrency: true }, () => {
  test("a client that is there before its server waits for it", async (t) => {
    const dir = mkdtempSync(join(tmpdir(), "contextstore-early-"));
    const client = fromEnv({ CONTEXTSTORE_DATA_DIR: dir });
    const ready = client.waitUntilReady();
    const server = await TestServer.start({ dataDir: dir });
    t.after(() => server.stop());
    await ready;
    assert.equal((await client.serverInfo()).processId, server.processId);
    await client.close();
  });

  test("a server that is not there is said to be unavailable", async () => {
    const dir = mkdtempSync(join(tmpdir(), "contextstore-none-"));
    for (const address of [`unix:${dir}/contextstore.sock`, "tcp:127.0.0.1:1"]) {
      const client = connect({ address, token: "t", retryForMs: 50 });
      await assert.rejects(client.startTask(), UnavailableError, address);
      await assert.rejects(client.waitUntilReady({ timeoutMs: 100 }), { name: "DeadlineError" }, address);
      await client.close();
    }
    rmSync(dir, { recursive: true });
  });

  test("an agent goes on across a kill of its server", async (t) => {
    const server = await TestServer.start();
    t.after(() => server.stop());
    const client = connect(server.options("unix"));
    const task = await client.startTask();
    const stop = new AbortController();
    const followed: bigint[] = [];
    const following = (async () => {
      for await (const { seq } of task.messages({ follow: true, kinds: ["message"], signal: stop.signal })) {
        followed.push(seq);
      }
    })();
    for (let n = 1n; n <= 20n; n += 1n) {
      if (n % 5n === 0n) {
        await server.kill();
        const appended = task.append({ role: "user", content: `${n}` });
        await server.restart();
        assert.equal((await appended).seq, n);
      } else {
        assert.equal((await task.append({ role: "user", content: `${n}` })).seq, n);
      }
    }
    await eventually("all were followed", () => followed.length >= 20);
    stop.abort();
    await assert.rejects(following, { name: "CancelledError" });
    assert.deepEqual(
      (await collect(task.currentMessages())).map(({ content }) => content),
      Array.from({ length: 20 }, (_, at) => `${at + 1}`),
    );
    await client.close();
  });

  test("a lease outlives its time while the client is idle, and ends when it is let go", async (t) => {
    // A machine that is too busy for a renewal within two seconds would lose it.
    const ttlMs = 3_000;
    const server = await TestServer.start({ env: { CONTEXTSTORE_LEASE__TTL: `${ttlMs}ms` } });
    t.after(() => server.stop());
    const task = await server.client("unix").startTask();
    const other = connect(server.options("unix"));
    const take = () => other.startTask({ uuid: task.uuid });
    const outlived = performance.now() + ttlMs + 500;
    await eventually("the lease is older than it may become", async () => {
      await assert.rejects(take, { reason: "LEASE_HELD" });
      return performance.now() > outlived;
    });
    task.lease.stop();
    const taken = await eventually("the lease has ended", () => take().catch(() => undefined));
    assert.ok(taken.lease.generation > task.lease.generation);
    await other.close();
  });

  // feature: outputs-retry
  test("a slow output is put whole, although its server is killed meanwhile", async (t) => {
    const server = await TestServer.start();
    t.after(() => server.stop());
    const client = connect(server.options("unix"));
    const task = await client.startTask();
    const file = join(server.dataDir, "..", `contextstore-slow-${process.pid}`);
    const content = Buffer.alloc(3_200_000, "0123456789abcdef\n");
    writeFileSync(file, content);
    let isKilled = false;
    let opened = 0;
    let closed = 0;
    // Slow: half of it is read before the server is killed, the rest behind that.
    async function* slowly() {
      opened += 1;
      try {
        let read = 0;
        for await (const chunk of createReadStream(file, { highWaterMark: 64 << 10 })) {
          read += (chunk as Buffer).length;
          yield chunk as Buffer;
          if (!isKilled && read >= content.length / 2) {
            isKilled = true;
            await server.kill();
            await server.restart();
          }
        }
      } finally {
        closed += 1;
      }
    }
    for (const put of [() => slowly(), slowly()]) {
      isKilled = false;
      opened = 0;
      closed = 0;
      const { refId, ref } = await task.output.put(put);
      assert.equal(ref.byteSize, BigInt(content.length));
      assert.ok(content.equals(await task.output.read(refId, { raw: true }).bytes()));
      await eventually("what was opened is closed", () => opened > 0 && closed === opened);
    }
    rmSync(file);
    await client.close();
  });

  test("a reader that stops early leaves nothing behind on the server", async (t) => {
    const server = await TestServer.start({ env: { CONTEXTSTORE_LIMITS__READ_STREAMS: "2" } });
    t.after(() => server.stop());
    const client = connect({ ...server.options("unix"), retryForMs: DEADLINE_MS });
    const task = await client.startTask();
    await task.append({ role: "user", content: "hello" });
    for (let n = 0; n < 10; n += 1) {
      for await (const { kind } of task.messages({ follow: true })) {
        assert.equal(kind, "started");
        break;
      }
    }
    await client.close();
  });

  test("a program that is done ends, although it did not close its client", async (t) => {
    const server = await TestServer.start();
    t.after(() => server.stop());
    const program = `
    const { fromEnv } = await import(${JSON.stringify(new URL("../src/index.js", import.meta.url).href)});
    const task = await fromEnv().startTask();
    await task.append({ role: "user", content: "bye" });
  `;
    const child = spawn(process.execPath, ["--input-type=module", "--eval", program], {
      env: { ...process.env, CONTEXTSTORE_DATA_DIR: server.dataDir },
      stdio: "inherit",
      timeout: DEADLINE_MS,
    });
    assert.deepEqual(await once(child, "exit"), [0, null]);
  });
});

test("a call that begins while the server says goodbye does not end the program", async (t) => {
  const dir = mkdtempSync(join(tmpdir(), "contextstore-goodbye-"));
  const client = connect({ address: `unix:${dir}/s` });
  t.after(async () => {
    await client.close();
    rmSync(dir, { recursive: true });
  });
  for (let round = 0; round < 8; round += 1) {
    const child = spawn(BINARY, ["serve", "--data-dir", dir, "--listen", `unix:${dir}/s`], {
      stdio: "ignore",
    });
    const exited = once(child, "exit");
    await client.waitUntilReady();
    await client.serverInfo();
    child.kill("SIGTERM");
    // At another moment in each round: the one that counts is between two of the connection's last events.
    const until = performance.now() + round * 0.5;
    while (performance.now() < until) {
      await new Promise(setImmediate);
    }
    const calls: Promise<unknown>[] = [];
    for (let n = 0; n < 3; n += 1) {
      calls.push(client.serverInfo({ timeoutMs: 60 }).catch(() => undefined));
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await Promise.all(calls);
    await exited;
  }
});
