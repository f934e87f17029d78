// The example of the repository, as a user runs it, with the fake in the place of the provider.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { collect } from "./support/eventually.js";
import { FakeLlm } from "./support/fake.js";
import { TestServer } from "./support/server.js";

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
  assert.deepEqual(readdirSync(EXAMPLES), ["chat-agent.js"]);
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
      timeout: 60_000,
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
