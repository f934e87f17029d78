// What a server does not take, and what it does not know: large messages, numbers and texts that JSON has not, other versions.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { type ConnectRouter, createClient } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import {
  AccessError,
  type Client,
  ContextStoreError,
  connect,
  InvalidRequestError,
  PipelineError,
  UnsupportedByServerError,
} from "../src/index.js";
import {
  AppendMessageResponseSchema,
  ChatResponseSchema,
  ChatStartedSchema,
  ContextStore,
  GetServerInfoResponseSchema,
  WatchTaskResponseSchema,
} from "../src/proto.js";
import { openConnection } from "../src/transport.js";
import { collect, eventually, thrownBy } from "./support/eventually.js";
import { TestServer } from "./support/server.js";

let server: TestServer;
let client: Client;
before(async () => {
  server = await TestServer.start();
  client = server.client("unix");
});
after(() => server.stop());

const UUID = "018f0000-0000-7000-8000-000000000000";
const large = (mib: number) => ({ role: "user", content: "x".repeat(mib << 20) });

// feature: too-large
test("a message that is too large is refused at once, however large, and the client works on", async () => {
  const task = await client.startTask({ config: { compression: { auto: false } } });
  const seen = new Set<string>();
  for (const mib of [17, 40]) {
    const message = large(mib);
    const calls: Promise<unknown>[] = [task.append(message)];
    if (mib === 17) {
      calls.push(
        task.appendPlan(message),
        collect(task.appendMany([message])),
        collect(task.chat([message])),
      );
    }
    for (const error of await Promise.all(calls.map(thrownBy))) {
      assert.ok(error instanceof InvalidRequestError, String(error));
      assert.deepEqual([error.reason, error.metadata.limit], ["TOO_LARGE", "16777216"]);
      seen.add(error.message.replace(/\d+ bytes/, "N bytes"));
    }
    void task.append({ role: "user", content: "before" }, { wait: false });
    void task.append(message, { wait: false }).catch(() => undefined);
    void task.append({ role: "user", content: "behind" }, { wait: false }).catch(() => undefined);
    const late = await thrownBy(task.flush());
    assert.ok(late instanceof PipelineError && late.reason === "TOO_LARGE", String(late));
    assert.equal(late.notAppended.length, 2);
  }
  assert.deepEqual(
    [...seen],
    ["the request has N bytes; at most 16777216 are allowed (limits.message_bytes)"],
  );
  await task.append(large(15));
  assert.equal((await task.get()).task?.lastSeq, 3n);
});

test("large calls that are cancelled leave the client as it was", async () => {
  const task = await client.startTask({ config: { compression: { auto: false } } });
  for (let n = 0; n < 12; n += 1) {
    const stop = new AbortController();
    const append = task.append(large(4), { signal: stop.signal });
    setTimeout(() => {
      stop.abort();
    }, n % 6);
    await append.catch(() => undefined);
  }
  assert.ok((await task.append({ role: "user", content: "small" })).seq > 0n);
});

test("a connection that Node has given up is replaced", async () => {
  // A megabyte of memory: large calls that are cancelled leave too little of it.
  const connection = openConnection(server.options("unix"), 1);
  const rpc = createClient(ContextStore, connection.transport);
  const body = { case: "json", value: "x".repeat(1_000_000) } as const;
  const processId = Number(server.processId);
  let patienceMs = 5;
  await eventually("it is given up", async () => {
    // A server that reads nothing leaves what the calls send in the memory of the connection, as soon as they have sent it.
    process.kill(processId, "SIGSTOP");
    try {
      patienceMs *= 2;
      const signal = AbortSignal.timeout(patienceMs);
      await Promise.all(
        [1, 2, 3].map(() => thrownBy(rpc.appendMessage({ taskUuid: UUID, message: { body } }, { signal }))),
      );
    } finally {
      process.kill(processId, "SIGCONT");
    }
    return await rpc.getServerInfo({}).then(
      () => false,
      (error: unknown) => String(error).includes("ENHANCE_YOUR_CALM"),
    );
  });
  await eventually("it answers", async () => {
    return await rpc.getServerInfo({}).then(
      ({ processId }) => processId === server.processId,
      () => false,
    );
  });
  connection.close();
});

// feature: nan-refused
test("numbers that JSON has not are refused, with their place", async () => {
  const task = await client.startTask();
  const refused = async (call: () => Promise<unknown>, message: string) => {
    await assert.rejects(call, { name: "RangeError", message: `${message}; it must be a finite number` });
  };
  await refused(() => task.append({ role: "user", content: Number.NaN }), "message.content is NaN");
  await refused(
    () => task.append({ role: "user", content: null, more: [{ x: Number.NEGATIVE_INFINITY }] }),
    "message.more[0].x is -Infinity",
  );
  await refused(
    () => task.append({ role: "user", content: Number.NaN }, { wait: false }),
    "message.content is NaN",
  );
  await refused(
    () => collect(task.chat([], { params: { temperature: Number.POSITIVE_INFINITY } })),
    "params.temperature is Infinity",
  );
  await refused(() => task.appendPlan({ steps: [Number.NaN] }), "plan.steps[0] is NaN");
  await refused(() => task.recordToolCall({ toolName: "t", result: { n: Number.NaN } }), "result.n is NaN");
  await refused(
    () => task.output.put("x", { record: { arguments: [Number.NaN] } }),
    "record.arguments[0] is NaN",
  );
  await refused(() => task.update({ extra: { n: Number.NaN } }), "config.extra.n is NaN");
  await refused(
    () => task.update({ compression: { threshold: Number.NaN } }),
    "config.compression.threshold is NaN",
  );
  await refused(() => task.compress({ prune: { target: Number.NaN } }), "options.prune.target is NaN");
  await task.flush();
  assert.equal((await task.get()).task?.lastSeq, 0n);
  // What a tool itself answers is its own affair.
  assert.equal(await task.tool("nan", (n: number) => n)(Number.NaN), Number.NaN);
});

// feature: lone-surrogates
test("half a character becomes U+FFFD, wherever it stands", async () => {
  const task = await client.startTask({ user: "a\ud800", systemMessage: "b\udc00" });
  await task.append({ role: "user", content: "c\ud83d" });
  await task.append({ role: "user", content: "d\ude00" }, { wait: false });
  await task.append('{"role":"user","content":"e\ud83d"}');
  await task.append('{"role":"user","content":"f\\ud83d"}');
  const contents = (await task.current().toArray()).map(({ content }) => content);
  assert.deepEqual(contents, ["b\ufffd", "c\ufffd", "d\ufffd", "e\ufffd", "f\ufffd"]);
  assert.equal((await task.get()).task?.user, "a\ufffd");
  const { refId } = await task.output.put("g\ud83d");
  assert.equal(await task.output.read(refId, { raw: true }).text(), "g\ufffd");
  // Cut in two, it is whole again.
  const cut = await task.output.put(["h\ud83d", "\ude00i\ud83d"]);
  assert.equal(await task.output.read(cut.refId, { raw: true }).text(), "h\u{1f600}i\ufffd");
});

/** A gRPC server of this process. */
async function fake(
  routes: (router: ConnectRouter) => void,
): Promise<{ client: Client; stop: () => Promise<void> }> {
  const http2 = createServer(connectNodeAdapter({ routes }));
  http2.listen(0, "127.0.0.1");
  await once(http2, "listening");
  const fakeClient = connect({ address: `tcp:127.0.0.1:${(http2.address() as AddressInfo).port}` });
  return {
    client: fakeClient,
    stop: async () => {
      await fakeClient.close();
      http2.close();
    },
  };
}

// feature: older-server
test("a method that an older server does not have is an error of its own, with the server's version", async () => {
  const old = await fake((router) => {
    router.service(ContextStore, { getServerInfo: () => ({ version: "0.0.9" }) });
  });
  const task = old.client.task(UUID);
  const calls = { ForkTask: task.fork(), StreamCurrent: task.current().text(), Chat: collect(task.chat([])) };
  for (const [method, call] of Object.entries(calls)) {
    const error = await thrownBy(call);
    assert.ok(error instanceof UnsupportedByServerError, String(error));
    assert.deepEqual([error.method, error.serverVersion, error.code], [method, "0.0.9", "UNIMPLEMENTED"]);
    assert.match(error.message, /of version 0\.0\.9, has no such method: upgrade the server$/);
  }
  await task.append({ role: "user", content: "x" }, { wait: false });
  const late = await thrownBy(task.flush());
  assert.ok(late instanceof PipelineError && late.cause instanceof UnsupportedByServerError, String(late));
  await old.stop();

  const ancient = await fake(() => undefined);
  const error = await thrownBy(ancient.client.startTask());
  assert.ok(error instanceof UnsupportedByServerError && error.serverVersion === undefined, String(error));
  assert.match(error.message, /^StartTask: .* of an unknown version, has no such method/);
  await ancient.stop();
});

// feature: newer-server
test("what only a newer server knows breaks nothing", async () => {
  // A field 9999 of one byte, as a later version may have it.
  const $unknown = [{ no: 9999, wireType: 0, data: new Uint8Array([1]) }];
  const next = await fake((router) => {
    router.service(ContextStore, {
      getServerInfo: () =>
        Object.assign(create(GetServerInfoResponseSchema, { version: "9.0.0" }), { $unknown }),
      appendMessage: () => Object.assign(create(AppendMessageResponseSchema, { seq: 7n }), { $unknown }),
      async *watchTask() {
        yield Object.assign(create(WatchTaskResponseSchema, { resumeToken: "1" }), { $unknown });
      },
      async *chat() {
        yield Object.assign(create(ChatResponseSchema, {}), { $unknown });
        const started = create(ChatStartedSchema, { model: "new" });
        yield create(ChatResponseSchema, {
          event: { case: "started", value: Object.assign(started, { provider: 99 }) },
        });
        yield create(ChatResponseSchema, { event: { case: "text", value: "Hello" } });
      },
    });
  });
  assert.equal((await next.client.serverInfo()).version, "9.0.0");
  const task = next.client.task(UUID);
  assert.equal((await task.append({ role: "user", content: "x" })).seq, 7n);
  assert.deepEqual(
    (await collect(task.watch())).map(({ event }) => event.case),
    [undefined],
  );
  // A value of an enum that this client does not know has its number for a name.
  assert.deepEqual(await collect(task.chat([])), [
    { type: "started", seqs: [], provider: "99", model: "new" },
    { type: "text", text: "Hello" },
  ]);
  await next.stop();
  const unheard = new ContextStoreError("new", { code: "ABORTED", reason: "SOMETHING_NEW" });
  assert.ok(!(unheard instanceof AccessError) && unheard.reason === "SOMETHING_NEW");
});
