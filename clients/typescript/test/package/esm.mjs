// A program of a user, as an ES module.

import assert from "node:assert/strict";
import { ContextStoreError, NotFoundError, spawn } from "@contextstore/client";
import { ContextStore, ToolOutputs } from "@contextstore/client/proto";
import { openaiTools } from "@contextstore/client/tools";

assert.equal(ContextStore.typeName, "contextstore.v1.ContextStore");
assert.equal(ToolOutputs.typeName, "contextstore.v1.ToolOutputs");
assert.equal(openaiTools().length, 2);

const server = await spawn();
const task = await server.client.startTask({ user: "esm" });
const { seq } = await task.append({ role: "user", content: "Hello" });
assert.equal(seq, 1n);
assert.deepEqual(await task.current().toArray(), [{ role: "user", content: "Hello" }]);
const missing = server.client.task("018f0000-0000-7000-8000-000000000000").get();
await assert.rejects(
  missing,
  (error) => error instanceof NotFoundError && error instanceof ContextStoreError,
);
await task.complete("done");
await server.stop();
