// A program of a user, as CommonJS.

const assert = require("node:assert/strict");
const { NotFoundError, spawn } = require("@contextstore/client");
const { ContextStore } = require("@contextstore/client/proto");
const { anthropicTools } = require("@contextstore/client/tools");

async function main() {
  assert.equal(ContextStore.typeName, "contextstore.v1.ContextStore");
  assert.equal(anthropicTools().length, 2);
  const server = await spawn();
  const task = await server.client.startTask({ user: "cjs" });
  await task.append({ role: "user", content: "Hello" }, { wait: false });
  assert.deepEqual(await task.current().toArray(), [{ role: "user", content: "Hello" }]);
  const missing = server.client.task("018f0000-0000-7000-8000-000000000000").get();
  await assert.rejects(missing, NotFoundError);
  await task.complete("done");
  await server.stop();
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
