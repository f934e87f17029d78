// What the client does about tool outputs when the connection breaks, the server is silent or the content fails; and what the
// tools for models answer. Against a service in this process: the real one is in outputs.test.ts.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import {
  type Client,
  connect,
  DeadlineError,
  fromEnv,
  type Task,
  ToolCallStatus,
  UnavailableError,
} from "../src/index.js";
import {
  answer,
  anthropicTools,
  dispatch,
  isOutputTool,
  openaiResponsesTools,
  openaiTools,
} from "../src/tools.js";
import { collect, DEADLINE_MS, thrownBy } from "./support/eventually.js";
import { FakeOutputs } from "./support/outputs.js";

const UUID = "018f0000-0000-7000-8000-000000000001";
const MIB = 1 << 20;

let fake: FakeOutputs;
let client: Client;
let task: Task;
beforeEach(async () => {
  fake = await FakeOutputs.start();
  client = connect({ address: fake.address, timeoutMs: DEADLINE_MS });
  task = client.task(UUID);
});
afterEach(async () => {
  await client.close();
  fake.stop();
});

const numbered = (count: number) => Array.from({ length: count }, (_, at) => `line ${at + 1}\n`).join("");

async function* pieces(bytes: number, piece = 64 << 10) {
  for (let at = 0; at < bytes; at += piece) {
    yield Buffer.alloc(Math.min(piece, bytes - at), at / piece);
  }
}

test("what is small goes in one message, with all that is said about it", async () => {
  const stored = await task.output.put("ok: é\n", {
    toolName: "run",
    toolCallId: "c1",
    append: true,
    record: { arguments: { path: "." }, durationMs: 12, error: "exit 1" },
    maxMessageBytes: 100,
    tailBytes: 0n,
  });
  const [put] = fake.puts;
  assert.equal(put?.data.toString(), "ok: é\n");
  const { header } = put;
  assert.deepEqual(
    [header.taskUuid, header.toolName, header.toolCallId, header.append],
    [UUID, "run", "c1", true],
  );
  assert.deepEqual([header.maxMessageBytes, header.tailBytes, header.maxLineLength], [100n, 0n, 0]);
  const { record } = header;
  assert.deepEqual(
    [record?.argumentsJson, record?.status, record?.error, record?.duration?.nanos],
    ['{"path":"."}', ToolCallStatus.ERROR, "exit 1", 12_000_000],
  );
  assert.match(stored.refId, /^out-[0-9a-f]{32}$/);
  assert.deepEqual([stored.seq, stored.toolSeq, stored.view, stored.truncated], [7n, 3n, "ok: é\n", false]);
  assert.deepEqual(
    stored.masked.map(({ rule, count }) => [rule, count]),
    [["openai_key", 2n]],
  );
  const bare = await task.output.put("");
  assert.deepEqual([bare.seq, bare.toolSeq, bare.ref.byteSize], [undefined, undefined, 0n]);
});

test("everything that yields text or bytes can be put", async () => {
  const all = Buffer.concat(await collect(pieces(3 * MIB)));
  const contents = [all, pieces(3 * MIB), () => pieces(3 * MIB), new Response(all).body ?? "", [all]];
  for (const content of contents) {
    await task.output.put(content);
    assert.ok(fake.puts.at(-1)?.data.equals(all));
  }
  await task.output.put(["é", "\n", Buffer.from("x")]);
  assert.equal(fake.puts.at(-1)?.data.toString(), "é\nx");
  const wrong = [1] as unknown as string[];
  await assert.rejects(task.output.put(wrong), TypeError);
});

test("a put is sent again from its beginning, under the same request id", async () => {
  for (const content of [() => pieces(20 * MIB), pieces(6 * MIB), Buffer.alloc(2 * MIB)]) {
    fake.failures = [1, MIB, 2 * MIB];
    await task.output.put(content);
  }
  assert.deepEqual(
    fake.puts.map(({ data }) => data.length),
    [20 * MIB, 6 * MIB, 2 * MIB],
  );
  assert.equal(new Set(fake.puts.map(({ header }) => header.requestId)).size, 3);
});

test("a long stream that breaks says that it cannot be sent again", async () => {
  fake.failures = [15 * MIB];
  const failure = await thrownBy(task.output.put(pieces(20 * MIB)));
  assert.ok(failure instanceof UnavailableError);
  assert.match(failure.message, /hand in a function that opens it/);
  assert.equal(fake.puts.length, 0);
});

test("what the content throws is what the caller gets, and nothing is put", async () => {
  async function* broken() {
    yield* pieces(MIB);
    throw new RangeError("the disk is gone");
  }
  await assert.rejects(task.output.put(broken()), new RangeError("the disk is gone"));
  for (let n = 0; n < 20; n += 1) {
    await assert.rejects(
      task.output.put(() => broken()),
      RangeError,
    );
  }
  // What the server would have taken for the whole.
  await task.output.put("after it");
  assert.deepEqual(
    fake.puts.map(({ data }) => data.length),
    ["after it".length],
  );
});

test("a put that is cancelled is not taken for a whole one", async () => {
  for (let n = 0; n < 20; n += 1) {
    const stop = new AbortController();
    async function* endless() {
      for (let sent = 0; ; sent += 1) {
        yield Buffer.alloc(64 << 10);
        if (sent === n) {
          stop.abort();
        }
      }
    }
    await assert.rejects(
      task.output.put(() => endless(), { signal: stop.signal }),
      { name: "CancelledError" },
    );
  }
  await task.output.put("after it");
  assert.equal(fake.puts.length, 1);
});

test("a content may be slow, a server may not", async () => {
  // It is slower than the server may be, which has time enough on a busy machine.
  const timeoutMs = 2_000;
  async function* slow() {
    for await (const piece of pieces(128 << 10)) {
      yield piece;
      await delay(timeoutMs + 100);
    }
  }
  await task.output.put(slow(), { timeoutMs });
  fake.isSilent = true;
  await assert.rejects(task.output.put(pieces(2 * MIB), { timeoutMs: 200 }), DeadlineError);
  await assert.rejects(task.output.put("small", { timeoutMs: 200 }), DeadlineError);
});

test("lines and bytes are read across broken connections", async () => {
  const { refId } = await task.output.put(numbered(60));
  const whole = await task.output.read(refId).text();
  assert.ok(whole.startsWith("     1\tline 1\n     2\tline 2\n") && whole.endsWith("    60\tline 60\n"));
  fake.failures = [1, 5, 9, 0, 11];
  assert.equal(await task.output.read(refId).text(), whole);
  fake.failures = [3, 4];
  assert.equal(
    await task.output.read(refId, { offset: 9, limit: 2 }).text(),
    "    10\tline 10\n    11\tline 11\n",
  );
  fake.failures = [2, 3, 1];
  assert.equal(
    await task.output.read(refId, { raw: true, offset: 5n, limit: 40 }).text(),
    numbered(60).slice(5, 45),
  );
  assert.equal(await new Response(task.output.read(refId, { raw: true }).stream()).text(), numbered(60));
});

test("a search goes on where it broke in one output, and is not begun twice over all", async () => {
  const { refId } = await task.output.put(numbered(30));
  fake.failures = [2, 5, 7];
  const found = await task.output.grep(/LINE 2/i, { refId }).all();
  assert.deepEqual(
    found.lines.map(({ lineNumber }) => lineNumber),
    [2n, ...Array.from({ length: 10 }, (_, at) => BigInt(at + 20))],
  );
  assert.deepEqual([found.matches, found.limited], [11n, false]);
  fake.failures = [3];
  await assert.rejects(task.output.grep("line").toArray(), UnavailableError);
  fake.failures = [0];
  assert.equal(await task.output.grep("line [12]$", { maxMatches: 1 }).text(), `${refId}:\n1:line 1\n`);
  assert.equal((await collect(task.output.grep("line 30"))).length, 1);
});

test("outputs are listed page by page, known, trimmed and collected", async () => {
  for (const n of [1, 2, 3, 4, 5]) {
    await task.output.put(`${n}`);
  }
  assert.equal((await collect(task.output.list({ pageSize: 2 }))).length, 5);
  const { refId } = await task.output.put("1");
  assert.equal((await task.output.stat(refId)).ref?.byteSize, 1n);
  assert.equal((await task.trim()).tokensAfter, 7n);
  assert.equal((await task.trim({ budgetTokens: 0 })).tokensAfter, 0n);
  const collected = await client.collectGarbage({ minAgeMs: 60_000, dryRun: true });
  assert.deepEqual([collected.removed, collected.kept], [60n, 1n]);
});

test("a large result of a tool is kept as an output", async () => {
  const text = "x".repeat(20_000);
  const big = task.tool("big", (_: string) => text);
  assert.equal(await big("a"), text);
  assert.equal(fake.puts[0]?.data.toString(), text);
  assert.equal(fake.puts[0].header.record?.argumentsJson, '"a"');
  await task.tool("bytes", () => Buffer.from([1, 2]))();
  assert.deepEqual([...(fake.puts[1]?.data ?? [])], [1, 2]);
});

test("a call of a model is run, timed, put and answered, whatever happens", async () => {
  const call = (given: string) => ({
    id: "c1",
    type: "function",
    function: { name: "run", arguments: given },
  });
  const run = await task.runTool(call('{"n": 2}'), ({ n }: { n: number }) => ({ double: n * 2 }));
  assert.deepEqual([run.error, run.seq], [undefined, 7n]);
  assert.equal(fake.puts[0]?.data.toString(), '{"double":4}');
  const { header } = fake.puts[0];
  assert.deepEqual([header.toolCallId, header.toolName, header.append], ["c1", "run", true]);
  assert.equal(header.record?.argumentsJson, '{"n":2}');
  const failures: [string, () => unknown, RegExp][] = [
    ["{", () => 1, /^Error: the arguments are not JSON: /],
    ["[]", () => 1, /not a JSON object/],
    ["", () => Promise.reject(new RangeError("no")), /^RangeError: no$/],
    [
      "{}",
      async function* () {
        yield "half";
        throw new Error("broke");
      },
      /^Error: broke$/,
    ],
  ];
  for (const [given, fn, words] of failures) {
    const failed = await task.runTool(call(given), fn);
    assert.ok(failed.error instanceof Error);
    assert.match(fake.puts.at(-1)?.data.toString() ?? "", words);
    assert.equal(fake.puts.at(-1)?.header.record?.status, ToolCallStatus.ERROR);
  }
  await task.runTool(call("{}"), () => ["a", "b"]);
  assert.equal(fake.puts.at(-1)?.data.toString(), '["a","b"]');
});

test("the tools are described for each provider", () => {
  const names = ["tool_output_cache", "tool_output_cache_grep"];
  assert.deepEqual(
    openaiTools().map(({ function: { name } }) => name),
    names,
  );
  assert.deepEqual(
    anthropicTools().map(({ name, input_schema: { type } }) => [name, type]),
    names.map((name) => [name, "object"]),
  );
  assert.deepEqual(
    openaiResponsesTools().map(({ type, name }) => [type, name]),
    names.map((name) => ["function", name]),
  );
  assert.ok(isOutputTool("tool_output_cache") && !isOutputTool("read_file"));
});

test("the tools answer in the form of the call", async () => {
  const { refId } = await task.output.put(numbered(500));
  const openai = (name: string, given: unknown) => ({
    id: "c1",
    type: "function",
    function: { name, arguments: JSON.stringify(given) },
  });
  const read = await dispatch(task, openai("tool_output_cache", { ref_id: refId, offset: 9, limit: 2 }));
  assert.deepEqual(read, {
    role: "tool",
    tool_call_id: "c1",
    content: "    10\tline 10\n    11\tline 11\n[lines 10 to 11 of 500; offset=11 reads on]",
  });
  const all = await dispatch(task, openai("tool_output_cache", { ref_id: refId }));
  assert.match(all?.content ?? "", /\[lines 1 to 200 of 500; offset=200 reads on\]$/);
  const end = await dispatch(task, openai("tool_output_cache", { ref_id: refId, offset: 499 }));
  assert.equal(end?.content, "   500\tline 500\n[end: 500 lines]");
  const behind = await dispatch(task, openai("tool_output_cache", { ref_id: refId, offset: 500 }));
  assert.equal(behind?.content, "There are no lines behind 500: the output has 500.");

  const use = {
    type: "tool_use",
    id: "t1",
    name: "tool_output_cache_grep",
    input: { pattern: "LINE 49", ignore_case: true },
  };
  const found = await dispatch(task, { ...use, type: "tool_use" });
  assert.equal(found?.type, "tool_result");
  assert.match(found.content, new RegExp(`^${refId}:\n49:line 49\n--\n490:line 490\n[^]*\\[11 matches\\]$`));
  const limited = { pattern: "line", max_matches: 2, ref_id: refId };
  const some = await dispatch(task, {
    type: "function_call",
    call_id: "f1",
    name: "tool_output_cache_grep",
    arguments: JSON.stringify(limited),
  });
  assert.deepEqual(some, {
    type: "function_call_output",
    call_id: "f1",
    output: "1:line 1\n--\n2:line 2\n[2 matches; there may be more]",
  });
  assert.equal(await dispatch(task, openai("read_file", {})), undefined);

  assert.ok(await answer(task, openai("tool_output_cache_grep", { pattern: "nothing" })));
  assert.ok(!(await answer(task, openai("other", {}))));
  assert.deepEqual(fake.messages, ['{"role":"tool","tool_call_id":"c1","content":"No line matches."}']);
});

test("a model is told what it got wrong", async () => {
  const wrong: [string, unknown, RegExp][] = [
    ["tool_output_cache", {}, /^Error: ref_id: a text is required$/],
    ["tool_output_cache", { ref_id: 7 }, /a text is required/],
    ["tool_output_cache", { ref_id: "out-1", offset: -1 }, /offset: a whole number from 0 on/],
    ["tool_output_cache_grep", { pattern: "(" }, /the pattern cannot be compiled/],
    ["tool_output_cache_grep", { pattern: "x", ignore_case: "yes" }, /true or false/],
    ["tool_output_cache_grep", [], /not an object/],
    ["tool_output_cache_grep", "{", /not JSON/],
  ];
  for (const [name, input, words] of wrong) {
    const told = await dispatch(task, { type: "tool_use", id: "t1", name, input });
    assert.match(told?.content ?? "", words);
    assert.equal(told?.is_error, true);
  }
  await client.close();
  await assert.rejects(
    dispatch(task, { type: "tool_use", id: "t1", name: "tool_output_cache", input: { ref_id: "out-1" } }),
    { name: "CancelledError" },
  );
});

test("over TLS the token is sent, and only a server that is trusted is spoken to", async () => {
  const dir = mkdtempSync(join(tmpdir(), "contextstore-tls-"));
  const [key, cert] = [join(dir, "key.pem"), join(dir, "cert.pem")];
  const made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=store.test"];
  const names = ["-addext", "subjectAltName=DNS:store.test,IP:127.0.0.1"];
  execFileSync("openssl", [...made, ...names, "-keyout", key, "-out", cert], { stdio: "ignore" });
  const secure = await FakeOutputs.start({
    key: readFileSync(key, "utf8"),
    cert: readFileSync(cert, "utf8"),
  });
  const options = { address: secure.address, token: "secret", retryForMs: 0 };
  try {
    const trusted = connect({ ...options, tls: { ca: readFileSync(cert), serverName: "store.test" } });
    await trusted.task(UUID).output.put("x");
    assert.deepEqual(secure.tokens, ["Bearer secret"]);
    await trusted.close();
    const fromThere = fromEnv({
      CONTEXTSTORE_ADDRESS: secure.address.replace("tcp:", "tls:"),
      CONTEXTSTORE_CA_FILE: cert,
      CONTEXTSTORE_TOKEN: "other",
    });
    await fromThere.task(UUID).output.put("x");
    assert.deepEqual(secure.tokens, ["Bearer secret", "Bearer other"]);
    await fromThere.close();
    const stranger = connect({ ...options, tls: true });
    await assert.rejects(
      stranger.task(UUID).output.put("x"),
      /PutToolOutput: the server at tcp:.* cannot be reached: .*certificate/,
    );
    await stranger.close();
  } finally {
    secure.stop();
    rmSync(dir, { recursive: true });
  }
});
