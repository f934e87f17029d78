// The examples of the repository, as a user runs them, with the fake in the place of the provider.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { collect, DEADLINE_MS } from "./support/eventually.js";
import { FAKE_LLM, FakeLlm } from "./support/fake.js";
import { BINARY, TestServer } from "./support/server.js";

// From build/test: the examples are compiled to build/examples, where the package finds itself by its name.
const EXAMPLES = fileURLToPath(new URL("../examples", import.meta.url));

let fake: FakeLlm;
let server: TestServer;
before(async () => {
  fake = await FakeLlm.start();
  server = await TestServer.start({ env: { ...fake.env(), CONTEXTSTORE_LLM__PROVIDER: "openai" } });
});
after(async () => {
  await server.stop();
  await fake.stop();
});

test("every example is run", () => {
  assert.deepEqual(readdirSync(EXAMPLES), ["chat-agent.js", "coding-agent.js", "fake-model.js"]);
});

test("chat-agent", async () => {
  const folder = mkdtempSync(join(tmpdir(), "contextstore-example-"));
  try {
    writeFileSync(join(folder, "notes.txt"), "Buy milk.");
    await fake.script({
      text: "I look.",
      tool_calls: [
        { name: "list_files", arguments: '{"path": "."}' },
        { name: "read_file", arguments: '{"path": "notes.txt"}' },
        { name: "read_file", arguments: '{"path": "../../etc/hostname"}' },
      ],
    });
    await fake.script({ text: "There are notes: milk." });
    const { stdout } = await promisify(execFile)(process.execPath, [join(EXAMPLES, "chat-agent.js")], {
      cwd: folder,
      env: { PATH: process.env.PATH, CONTEXTSTORE_DATA_DIR: server.dataDir },
      timeout: 5 * DEADLINE_MS,
    });
    assert.ok(stdout.includes("I look.") && stdout.trimEnd().endsWith("There are notes: milk."), stdout);
    assert.deepEqual(
      (await fake.requests()).map(({ verdict }) => verdict),
      ["ok", "ok"],
    );
    const task = server.client("unix").task(/^task (\S+)$/m.exec(stdout)?.[1] ?? "");
    assert.equal((await task.get()).task?.finalSummary, "There are notes: milk.");
    const messages = (await collect(task.messages({ kinds: ["message"] }))).map(({ json }) => json);
    const results = messages.filter(({ role }) => role === "tool").map(({ content }) => String(content));
    assert.deepEqual(results.slice(0, 2), ['["notes.txt"]', '"Buy milk."']);
    assert.match(results[2] ?? "", /^Error: /);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("coding-agent, offline and with a server of its own", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [join(EXAMPLES, "coding-agent.js")], {
    env: { PATH: process.env.PATH, CONTEXTSTORE_BINARY: BINARY, CONTEXTSTORE_FAKE_LLM: FAKE_LLM },
    timeout: 5 * DEADLINE_MS,
  });
  const expected = [
    /^task (\S+)$/m,
    /^\[run_check: 4001 lines, \d+ bytes, cut: out-[0-9a-f]{32}\]$/m,
    /^compressed: \d+ → \d+ tokens$/m,
    /^\[tool_output_cache_grep /m,
    /^paused\nresumed$/m,
    /^the last plan: \{"steps":\[.*\],"done":3\}$/m,
    /^task \S+, inherits from (\S+)$/m,
    /It subtracted when a was over 2000\. That is mended\.\n$/,
  ];
  let from = 0;
  for (const pattern of expected) {
    const found = pattern.exec(stdout.slice(from));
    assert.ok(found, `${String(pattern)} is not in, or not in its place in\n${stdout}`);
    from += found.index;
  }
  assert.equal(expected[0]?.exec(stdout)?.[1], expected[6]?.exec(stdout)?.[1]);
});
