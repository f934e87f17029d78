// Where the binary is looked for: there is none, then it comes with the package of the platform.

const assert = require("node:assert/strict");
const { mkdirSync, symlinkSync, writeFileSync } = require("node:fs");
const { join } = require("node:path");
const { spawn } = require("@contextstore/client");

async function main() {
  const binary = process.env.CONTEXTSTORE_BINARY;
  delete process.env.CONTEXTSTORE_BINARY;
  process.env.PATH = "";
  const name = `@contextstore/server-${process.platform}-${process.arch}`;
  await assert.rejects(
    spawn(),
    new RegExp(`CONTEXTSTORE_BINARY is not set, the package ${name} is not installed`),
  );
  const folder = join(__dirname, "node_modules", name);
  mkdirSync(join(folder, "bin"), { recursive: true });
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name, version: "0.0.0" }));
  symlinkSync(binary, join(folder, "bin", "contextstore"));
  const server = await spawn();
  assert.notEqual((await server.client.serverInfo()).version, "");
  await server.stop();
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
