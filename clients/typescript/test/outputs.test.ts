// Outputs of tools, against the real server, over both transports.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { type Client, NotFoundError, type Task } from "../src/index.js";
import { answer, dispatch } from "../src/tools.js";
import { collect } from "./support/eventually.js";
import { TestServer } from "./support/server.js";

let server: TestServer;
before(async () => {
  server = await TestServer.start();
});
after(() => server.stop());

const numbered = (count: number) =>
  Array.from({ length: count }, (_, at) => `line ${at + 1}${(at + 1) % 100 === 0 ? " FAILED" : ""}\n`).join(
    "",
  );

const call = (id: string, name: string, given: unknown) => ({
  id,
  type: "function",
  function: { name, arguments: JSON.stringify(given) },
});

const asks = (...calls: readonly unknown[]) => ({ role: "assistant", content: null, tool_calls: calls });

for (const transport of ["unix", "tcp"] as const) {
  describe(`outputs over ${transport}`, () => {
    let client: Client;
    let task: Task;
    before(async () => {
      client = server.client(transport);
      task = await client.startTask({ config: { contextLength: 128_000, compression: { auto: false } } });
    });

    // feature: outputs-put
    // feature: outputs-read-grep
    test("an output is kept whole, shown in part, read and searched", async () => {
      const text = numbered(20_000);
      await task.append(asks(call("c1", "test", {})), { wait: false });
      const stored = await task.output.put(text, {
        toolName: "test",
        toolCallId: "c1",
        append: true,
        record: { arguments: { path: "." }, durationMs: 12 },
      });
      assert.match(stored.refId, /^out-[0-9a-f]{32}$/);
      assert.deepEqual([stored.truncated, stored.seq, stored.toolSeq], [true, 2n, 1n]);
      assert.deepEqual([stored.ref.byteSize, stored.ref.lineCount], [BigInt(text.length), 20_000n]);
      assert.ok(typeof stored.view === "string" && stored.view.includes(stored.refId), String(stored.view));
      const view = await task.current().toArray();
      assert.equal(view[1]?.content, stored.view);
      assert.equal(view[1].tool_call_id, "c1");
      const [record] = await collect(task.toolCalls());
      assert.deepEqual([record?.json.output_ref, record?.json.duration_ms], [stored.refId, 12]);

      const { refId } = stored;
      assert.equal(await task.output.read(refId, { raw: true }).text(), text);
      assert.equal(
        await task.output.read(refId, { offset: 9_999, limit: 2 }).text(),
        " 10000\tline 10000 FAILED\n 10001\tline 10001\n",
      );
      const found = await task.output.grep(/failed$/i, { refId, maxMatches: 3, before: 1 }).all();
      assert.deepEqual([found.matches, found.limited], [3n, true]);
      assert.deepEqual(
        found.lines.filter(({ isMatch }) => isMatch).map(({ lineNumber }) => lineNumber),
        [100n, 200n, 300n],
      );
      assert.equal(
        await task.output.grep("line 200 ", { refId, fixed: true, after: 1 }).text(),
        "200:line 200 FAILED\n201-line 201\n",
      );
      const { ref, toolName, toolCallId } = await task.output.stat(refId);
      assert.deepEqual([ref?.id, toolName, toolCallId], [refId, "test", "c1"]);
      assert.ok((await collect(task.output.list({ pageSize: 1 }))).some((known) => known.ref?.id === refId));
    });

    test("a large one is streamed, and the same twice is kept once", async () => {
      const piece = Buffer.alloc(1 << 20, "0123456789abcdef\n");
      const hash = createHash("sha256");
      const pieces = function* () {
        for (let n = 0; n < 24; n += 1) {
          hash.update(piece);
          yield piece;
        }
      };
      const first = await task.output.put(() => pieces());
      const expected = hash.digest("hex");
      assert.equal(first.ref.byteSize, 24n << 20n);
      const read = createHash("sha256");
      for await (const chunk of task.output.read(first.refId, { raw: true })) {
        read.update(chunk);
      }
      assert.equal(read.digest("hex"), expected);
      const before = (await collect(task.output.list())).length;
      const second = await task.output.put(Buffer.concat(Array.from({ length: 24 }, () => piece)));
      assert.equal(second.refId, first.refId);
      assert.equal((await collect(task.output.list())).length, before);
    });

    test("bytes that are no text are kept as they are", async () => {
      const bytes = Buffer.from([0, 255, 1, 254, 10, 0]);
      const { refId, ref } = await task.output.put(bytes);
      assert.equal(ref.mediaType, "application/octet-stream");
      assert.deepEqual(Buffer.from(await task.output.read(refId, { raw: true }).bytes()), bytes);
      const empty = await task.output.put("");
      assert.equal(await task.output.read(empty.refId).text(), "");
    });

    // feature: outputs-input-breaks
    test("what the content throws leaves nothing", async () => {
      const before = (await collect(task.output.list())).length;
      async function* broken() {
        yield "x".repeat(300_000);
        throw new RangeError("the disk is gone");
      }
      for (let n = 0; n < 10; n += 1) {
        await assert.rejects(task.output.put(broken()), RangeError);
        await assert.rejects(
          task.output.put(() => broken()),
          RangeError,
        );
      }
      assert.equal((await collect(task.output.list())).length, before);
    });

    test("a call is answered by what a tool returns or throws", async () => {
      const calls = [call("r1", "read", { n: 3 }), call("r2", "read", { n: -1 })];
      await task.append(asks(...calls));
      for (const asked of calls) {
        await task.runTool(asked, ({ n }: { n: number }) => {
          if (n < 0) {
            throw new RangeError("no such file");
          }
          return numbered(n);
        });
      }
      const [one, two] = (await task.current().toArray()).slice(-2);
      assert.deepEqual([one?.tool_call_id, one?.content], ["r1", numbered(3)]);
      assert.deepEqual([two?.tool_call_id, two?.content], ["r2", "RangeError: no such file"]);
      const records = (await collect(task.toolCalls())).slice(-2).map(({ json }) => json);
      assert.deepEqual(
        records.map(({ status, arguments: given }) => [status, given]),
        [
          ["success", { n: 3 }],
          ["error", { n: -1 }],
        ],
      );
      const big = task.tool("big", () => numbered(5000));
      assert.equal(await big(), numbered(5000));
      const last = (await collect(task.toolCalls())).at(-1)?.json;
      assert.equal(await task.output.read(String(last?.output_ref), { raw: true }).text(), numbered(5000));
    });

    // feature: tool-dispatcher
    test("a model reads and searches what it was not shown", async () => {
      const { refId } = await task.output.put(`${numbered(700)}needle ${transport}\n`);
      const read = await dispatch(task, call("m1", "tool_output_cache", { ref_id: refId, offset: 698 }));
      assert.equal(
        read?.content,
        `   699\tline 699\n   700\tline 700 FAILED\n   701\tneedle ${transport}\n[end: 701 lines]`,
      );
      const asked = call("m2", "tool_output_cache_grep", {
        pattern: `NEEDLE ${transport}`,
        ignore_case: true,
      });
      await task.append(asks(asked));
      assert.ok(await answer(task, asked));
      const told = (await task.current().toArray()).at(-1);
      assert.equal(told?.content, `${refId}:\n701:needle ${transport}\n[1 matches]`);
      for (const [name, given] of [
        ["tool_output_cache", { ref_id: "out-00000000000000000000000000000000" }],
        ["tool_output_cache", { ref_id: "nonsense" }],
        ["tool_output_cache_grep", { pattern: "(" }],
      ] as const) {
        assert.match((await dispatch(task, call("m3", name, given)))?.content ?? "", /^Error: /);
      }
      await assert.rejects(task.output.stat("out-00000000000000000000000000000000"), (error) => {
        return error instanceof NotFoundError && error.reason === "OUTPUT_NOT_FOUND";
      });
    });

    test("old outputs in the view become placeholders, and stay readable", async () => {
      // Only when that is asked for: these outputs are more than the task's own budget.
      const own = await client.startTask({
        config: { contextLength: 128_000, compression: { auto: false }, outputs: { enabled: false } },
      });
      const refs: string[] = [];
      for (const n of [1, 2, 3, 4]) {
        await own.append(asks(call(`t${n}`, "test", {})));
        const content = `${n}\n${numbered(2000)}`;
        refs.push(
          (await own.output.put(content, { toolName: "test", toolCallId: `t${n}`, append: true })).refId,
        );
      }
      await own.append({ role: "assistant", content: "Seen." });
      const trimmed = await own.trim({ budgetTokens: 0 });
      assert.equal(trimmed.trimmed, 4n);
      assert.ok(trimmed.tokensAfter < trimmed.tokensBefore, String(trimmed.tokensAfter));
      const [, first] = await own.current().toArray();
      assert.match(String(first?.content), new RegExp(refs[0] ?? ""));
      assert.ok(String(first?.content).length < 1000);
      assert.equal(await own.output.read(refs[0] ?? "", { limit: 1 }).text(), "     1\t1\n");
      const collected = await client.collectGarbage({ taskUuid: own.uuid, minAgeMs: 0 });
      assert.deepEqual([collected.removed, collected.kept], [0n, 4n]);
    });

    test("answers tell what was masked", async () => {
      const key = `sk-proj-${"a1B2c3D4".repeat(6)}`;
      const { masked } = await task.append({ role: "user", content: `My key is ${key}.` });
      assert.equal(masked[0]?.count, 1n);
      const stored = await task.output.put(`token: ${key}\n`);
      assert.equal(stored.masked[0]?.rule, masked[0].rule);
      assert.ok(!(await task.output.read(stored.refId, { raw: true }).text()).includes(key));
    });
  });
}
