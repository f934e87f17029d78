// Nothing that was handed over vanishes: it is stored once and in order, or it is reported.

import assert from "node:assert/strict";
import { execFile, spawn as spawnProcess } from "node:child_process";
import { once, setMaxListeners } from "node:events";
import { after, before, test } from "node:test";
import {
  type ChatMessage,
  ContextStoreError,
  connect,
  InvalidRequestError,
  PipelineError,
  type Task,
} from "../src/index.js";
import { collect, DEADLINE_MS, eventually, thrownBy } from "./support/eventually.js";
import { BadProxy } from "./support/proxy.js";
import { TestServer } from "./support/server.js";

let server: TestServer;
before(async () => {
  server = await TestServer.start();
});
after(() => server.stop());

const INDEX = new URL("../src/index.js", import.meta.url).href;
const message = (n: number) => ({ role: "user", content: `${n}` });
const upTo = (count: number) => Array.from({ length: count }, (_, at) => at + 1);
const start = () => server.client("unix").startTask({ config: { compression: { auto: false } } });

async function numbers(task: Task): Promise<number[]> {
  return (await task.current().toArray()).map(({ content }) => Number(content));
}

// feature: append-later-survives-cancel
test("a call that is cancelled loses nothing that was handed over before it", async () => {
  const task = await start();
  for (const n of upTo(300)) {
    await task.append(message(n), { wait: false });
  }
  await assert.rejects(task.flush({ signal: AbortSignal.abort() }), { name: "CancelledError" });
  await assert.rejects(task.get({ signal: AbortSignal.timeout(1) }), { name: "CancelledError" });
  const cancelled = new AbortController();
  const chat = task.append(message(0), { signal: cancelled.signal });
  cancelled.abort();
  await assert.rejects(chat, { name: "CancelledError" });
  await task.flush();
  assert.deepEqual(
    (await numbers(task)).filter((n) => n > 0),
    upTo(300),
  );
});

test("a message whose append was cancelled before it was on its way is not appended", async () => {
  const task = await start();
  const aborted = { wait: false, signal: AbortSignal.abort() } as const;
  await assert.rejects(task.append(message(1), aborted), { name: "CancelledError" });
  const stop = new AbortController();
  setMaxListeners(0, stop.signal);
  // More than may be on its way at once.
  const all = upTo(1500).map((n) => task.append(message(n), { wait: false, signal: stop.signal }));
  stop.abort();
  const outcomes = await Promise.allSettled(all);
  const taken = upTo(1500).filter((n) => outcomes[n - 1]?.status === "fulfilled");
  assert.ok(taken.length < 1500, `${taken.length}`);
  await task.flush();
  assert.deepEqual(await numbers(task), taken);
});

test("a message that is taken back does not count as one that is saved", {
  timeout: DEADLINE_MS,
}, async () => {
  const task = await start();
  const processId = Number(server.processId);
  process.kill(processId, "SIGSTOP");
  let isFlushed = false;
  const stop = new AbortController();
  setMaxListeners(0, stop.signal);
  const kept = upTo(600).map((n) => task.append(message(n), { wait: false }));
  const flush = task.flush().then(() => {
    isFlushed = true;
  });
  const cancelled = upTo(700).map((n) =>
    thrownBy(task.append(message(600 + n), { wait: false, signal: stop.signal })),
  );
  try {
    stop.abort();
    await Promise.all(cancelled);
    await new Promise(setImmediate);
    assert.equal(isFlushed, false, "the server has saved nothing");
  } finally {
    process.kill(processId, "SIGCONT");
  }
  await Promise.all([...kept, flush]);
  assert.deepEqual(await numbers(task), upTo(600));
});

// feature: concurrent-use
test("many callers use one task at once", async () => {
  const task = await start();
  const tool = task.tool("double", (n: number) => n * 2);
  await Promise.all(
    [0, 1, 2, 3].map(async (caller) => {
      for (const n of upTo(100)) {
        await task.append(message(caller * 1000 + n), { wait: false });
        if (n % 10 === 0) {
          await task.flush();
          assert.equal(await tool(n), 2 * n);
        }
      }
    }),
  );
  await task.flush();
  const stored = await numbers(task);
  assert.equal(stored.length, 400);
  for (const caller of [0, 1, 2, 3]) {
    const own = stored.filter((n) => Math.floor(n / 1000) === caller).map((n) => n % 1000);
    assert.deepEqual(own, upTo(100));
  }
  assert.equal((await collect(task.toolCalls())).length, 40);
});

test("everybody who waits gets the failure", async () => {
  const task = await start();
  await task.append({ role: "nobody" }, { wait: false });
  const outcomes = await Promise.all([task.flush(), task.flush(), task.get()].map(thrownBy));
  assert.ok(outcomes.every((error) => error instanceof PipelineError));
  await task.flush();
});

test("who waits does not wait for what is handed over later", { timeout: DEADLINE_MS }, async () => {
  const task = await start();
  const done = new AbortController();
  const others = (async () => {
    for (let n = 1; !done.signal.aborted; n += 1) {
      await task.append(message(n), { wait: false });
      await new Promise(setImmediate);
    }
  })();
  for (const _ of upTo(3)) {
    await task.flush();
  }
  done.abort();
  await others;
  await task.flush();
});

// feature: append-many-source-fails
test("what comes before a source that fails, or a message that cannot be sent, is appended first", async () => {
  const task = await start();
  async function* failing() {
    yield* upTo(300).map(message);
    throw new RangeError("the source is gone");
  }
  const seen: bigint[] = [];
  const reading = async (source: Parameters<Task["appendMany"]>[0]) => {
    for await (const { seq } of task.appendMany(source)) {
      seen.push(seq);
    }
  };
  await assert.rejects(reading(failing()), { name: "RangeError", message: "the source is gone" });
  assert.equal(seen.length, 300);
  await assert.rejects(reading([message(301), { role: "user", content: 1n }, message(0)]), {
    name: "TypeError",
    message: /^messages\[1\] cannot be written as JSON: .*BigInt/,
  });
  await assert.rejects(reading([message(302), { role: "user", content: [Number.NaN] }]), {
    name: "RangeError",
    message: "messages[1].content[0] is NaN; it must be a finite number",
  });
  assert.equal(seen.length, 302);
  assert.deepEqual(await numbers(task), upTo(302));
});

// feature: resend-not-appended
test("what was not appended can be appended again as it is, and is stored once", async () => {
  const proxy = await BadProxy.start(server.socket);
  const client = connect({ address: proxy.address, retryForMs: 0 });
  const task = await client.startTask({ config: { compression: { auto: false } } });
  for (const n of upTo(400)) {
    if (n === 200) {
      proxy.cutAfter(1);
    }
    await task
      .append(message(n), { wait: false, pinned: n % 100 === 0, outputRef: `ref-${n}` })
      .catch((error: unknown) => {
        assert.ok(error instanceof PipelineError, String(error));
        for (const lost of error.notAppended) {
          void task.append(lost, { wait: false });
        }
      });
  }
  const failure = await task.flush().catch((error: unknown) => error);
  if (failure instanceof PipelineError) {
    const [first] = failure.notAppended;
    assert.deepEqual(
      first?.message,
      message(Number(first?.requestId && (first.message as ChatMessage).content)),
    );
    await collect(task.appendMany(failure.notAppended));
  }
  assert.deepEqual(await numbers(task), upTo(400));
  assert.equal((await task.message(100)).pinned, true);
  assert.equal((await task.message(300)).json.output_ref, "ref-300");
  await client.close();
  await proxy.stop();

  const refused = await thrownBy(
    collect((await start()).appendMany([message(1), { role: "nobody" }, message(2)])),
  );
  assert.ok(refused instanceof InvalidRequestError);
  assert.deepEqual(refused.notAppended.at(0)?.message, { role: "nobody" });
  assert.ok(refused.notAppended.every(({ requestId }) => requestId));
});

test("what a failing append was given is the last of what is not appended", async () => {
  const task = await start();
  const refused = { role: "nobody" };
  const contents = (error: unknown) => {
    assert.ok(error instanceof ContextStoreError, String(error));
    assert.ok(error.notAppended.every(({ requestId }) => requestId));
    return error.notAppended.map((input) => input.message);
  };
  await task.append(refused, { wait: false });
  assert.deepEqual(contents(await thrownBy(task.append(message(1)))), [refused, message(1)]);
  assert.deepEqual(contents(await thrownBy(task.append(refused))), [refused]);
  const large = { role: "user", content: "x".repeat(17 << 20) };
  assert.deepEqual(contents(await thrownBy(task.append(large))), [large]);
  const signal = AbortSignal.abort();
  for (const wait of [true, false]) {
    const error = await thrownBy(task.append(message(2), { wait, signal, requestId: "two" }));
    assert.deepEqual(contents(error), [message(2)]);
    assert.ok(error instanceof ContextStoreError);
    await collect(task.appendMany(error.notAppended));
  }
  assert.deepEqual(await numbers(task), [2]);
  const closed = connect(server.options("unix"));
  await closed.close();
  const errors = await Promise.all(
    upTo(3).map((n) => thrownBy(closed.task(task.uuid).append(message(n), { wait: n > 1 }))),
  );
  assert.deepEqual(
    errors.map(contents),
    upTo(3).map((n) => [message(n)]),
  );
});

test("each of many appends that wait for room has its own message last", async () => {
  const proxy = await BadProxy.start(server.socket);
  const client = connect({ address: proxy.address, retryForMs: 0 });
  const task = await client.startTask({ config: { compression: { auto: false } } });
  proxy.silence();
  const appends = upTo(600).map((n) => task.append(message(n), { wait: false }));
  await appends[511];
  proxy.cut();
  const outcomes = await Promise.allSettled(appends);
  const failures = outcomes.flatMap((outcome, at) => {
    if (outcome.status === "fulfilled") {
      return [];
    }
    assert.ok(outcome.reason instanceof PipelineError, String(outcome.reason));
    assert.deepEqual(outcome.reason.notAppended.at(-1)?.message, message(at + 1));
    return [outcome.reason];
  });
  assert.equal(failures.length, 600 - 512);
  await client.close();
  await proxy.stop();
  const again = server.client("unix").task(task.uuid);
  again.lease.take(task.lease.generation, 0);
  for (const { notAppended } of [failures.at(-1), failures.at(0)].filter(
    (failure) => failure !== undefined,
  )) {
    assert.equal(notAppended.length, 600);
    await collect(again.appendMany(notAppended));
  }
  assert.deepEqual(await numbers(again), upTo(600));
});

async function runs(program: string): Promise<{ stdout: string; stderr: string; code: number }> {
  return await new Promise((resolve) => {
    const env = { ...process.env, CONTEXTSTORE_DATA_DIR: server.dataDir };
    const script = `import { connect, fromEnv } from ${JSON.stringify(INDEX)};\n${program}`;
    execFile(
      process.execPath,
      ["--input-type=module", "--eval", script],
      { env, timeout: 2 * DEADLINE_MS },
      (error, stdout, stderr) => {
        resolve({ stdout, stderr, code: Number(error?.code ?? 0) });
      },
    );
  });
}

// feature: append-later-at-exit
test("a program that ends stores what it handed over, or says how much it could not", async () => {
  const appends = `
    const task = await client.startTask({ config: { compression: { auto: false } } });
    console.log(task.uuid);
    for (let n = 1; n <= 400; n += 1) await task.append({ role: "user", content: String(n) }, { wait: false });`;
  const ended = await runs(`const client = fromEnv();${appends}`);
  assert.deepEqual([ended.code, ended.stderr], [0, ""]);
  assert.deepEqual(await numbers(server.client("unix").task(ended.stdout.trim())), upTo(400));

  const exited = await runs(`const client = fromEnv();${appends}; process.exit(0);`);
  const lost = Number(/ended while (\d+) messages were not known to be appended/.exec(exited.stderr)?.[1]);
  assert.ok(lost > 0, exited.stderr);
  const kept = await numbers(server.client("unix").task(exited.stdout.trim()));
  assert.deepEqual(kept, upTo(kept.length));
  assert.ok(kept.length >= 400 - lost, `${kept.length} and ${lost}`);
});

test("a program whose server is gone at its end says how much is not appended", async () => {
  const own = await TestServer.start();
  const program = `
    import { connect } from ${JSON.stringify(INDEX)};
    const client = connect({ address: ${JSON.stringify(`unix:${own.socket}`)}, retryForMs: 100 });
    const task = await client.startTask();
    console.log("started");
    await new Promise((resolve) => process.stdin.once("end", resolve).resume());
    for (let n = 1; n <= 5; n += 1) await task.append({ role: "user", content: String(n) }, { wait: false });`;
  const child = spawnProcess(process.execPath, ["--input-type=module", "--eval", program], {
    stdio: ["pipe", "pipe", "pipe"],
  });
  let said = "";
  child.stderr.on("data", (data: Buffer) => {
    said += data.toString();
  });
  await once(child.stdout, "data");
  await own.kill();
  child.stdin.end();
  await once(child, "close");
  await own.stop();
  assert.match(said, /ended while 5 messages were not known to be appended/);
});

test("a message that was handed over is stored as it was then", async () => {
  const task = await start();
  const mutable = { role: "user", content: "1" };
  await task.append(mutable, { wait: false });
  mutable.content = "2";
  await task.flush();
  await eventually("it is stored", async () => (await numbers(task)).length === 1);
  assert.deepEqual(await numbers(task), [1]);
});
