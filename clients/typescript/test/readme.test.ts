// The README names every method that there is, and its code runs as it stands.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client, Compaction, Outputs, Server, Task } from "../src/index.js";
import { DEADLINE_MS } from "./support/eventually.js";
import { FakeLlm } from "./support/fake.js";
import { TestServer } from "./support/server.js";

const README = readFileSync(new URL("../../README.md", import.meta.url), "utf8");

for (const kind of [Client, Task, Outputs, Compaction, Server]) {
  test(`the README names every method of ${kind.name}`, () => {
    const names: string[] = [];
    for (let at: unknown = kind.prototype; at !== Object.prototype; at = Object.getPrototypeOf(at)) {
      const own = Object.entries(Object.getOwnPropertyDescriptors(at));
      names.push(...own.filter(([, { value }]) => typeof value === "function").map(([name]) => name));
    }
    assert.ok(names.length > 1);
    const missing = names.filter(
      (name) => name !== "constructor" && !new RegExp(`\\b${name}\\b`).test(README),
    );
    assert.deepEqual(missing, []);
  });
}

const PACKAGE = fileURLToPath(new URL("../..", import.meta.url));

/** What the pieces of code behind the first one take as given. */
const GIVEN = `
const client = fromEnv();
const task = await client.startTask({ config: { contextLength: 128_000, compression: { auto: false } } });
const call = { id: "c1", type: "function", function: { name: "look", arguments: '{"path": "package.json"}' } } as const;
const message = { role: "assistant", content: "I look.", tool_calls: [call] };
const source = [{ role: "user", content: "one" }, { role: "user", content: "two" }];
const definitions: object[] = [];
const functions: Record<string, (given: { path?: string }) => unknown> = { look: () => "Nothing." };
const key = "none";
// The provider is not asked: what it would get is read to its end.
const fetch = async (_: string, { body }: { body: ReadableStream; [field: string]: unknown }) => {
  const sent = await new Response(body as never).json() as { messages: unknown[] };
  return { status: Array.isArray(sent.messages) ? 200 : 400 };
};
void [call, source, definitions, functions, key, fetch];
await task.append(MESSAGE);
`;

/** Whether a piece declares the name itself. */
const declares = (code: string, name: string) => new RegExp(`^const ${name}\\b`, "m").test(code);

function programOf(code: string, at: number): string {
  if (at === 0) {
    return code;
  }
  const [imports, rest] = [true, false].map((wanted) =>
    code
      .split("\n")
      .filter((line) => line.startsWith("import ") === wanted)
      .join("\n"),
  );
  const messages = declares(code, "messages")
    ? ""
    : 'const messages = [{ role: "user", content: "Go on." }]; void messages;';
  const given = GIVEN.replace("MESSAGE", "message");
  return `import { fromEnv } from "@contextstore/client";\n${imports}\n${given}\n${messages}\n${rest}\nawait client.close();\n`;
}

test("the README's code is compiled with its tsconfig, and runs", async (t) => {
  const blocks = (language: string) =>
    [...README.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "gms"))].map(
      (found) => found[1] ?? "",
    );
  const folder = mkdtempSync(join(tmpdir(), "contextstore-readme-"));
  const fake = await FakeLlm.start();
  const server = await TestServer.start({ env: { ...fake.env(), CONTEXTSTORE_LLM__PROVIDER: "openai" } });
  t.after(async () => {
    await server.stop();
    await fake.stop();
    rmSync(folder, { recursive: true });
  });
  for (const name of ["@contextstore", "@types"]) {
    mkdirSync(join(folder, "node_modules", name), { recursive: true });
  }
  symlinkSync(PACKAGE, join(folder, "node_modules/@contextstore/client"));
  symlinkSync(join(PACKAGE, "node_modules/@types/node"), join(folder, "node_modules/@types/node"));
  writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }');
  const [config] = blocks("json");
  assert.ok(config !== undefined && blocks("ts").length >= 5);
  writeFileSync(join(folder, "tsconfig.json"), config);
  const programs = blocks("ts").map(programOf);
  for (const [at, program] of programs.entries()) {
    writeFileSync(join(folder, `readme${at}.ts`), program);
  }
  const run = (file: string, ...args: string[]) =>
    promisify(execFile)(process.execPath, [file, ...args], {
      cwd: folder,
      env: { PATH: process.env.PATH, CONTEXTSTORE_DATA_DIR: server.dataDir },
      timeout: DEADLINE_MS,
    }).catch((error: unknown) => {
      const { stdout, stderr } = error as { stdout: string; stderr: string };
      return assert.fail(`${file}: ${stdout}${stderr}`);
    });
  await run(join(PACKAGE, "node_modules/typescript-7/bin/tsc"));
  for (const at of programs.keys()) {
    await run(`readme${at}.js`);
  }
});
