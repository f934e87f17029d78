// Uses what was installed as a user would: a server of its own, a task, a message, what the model sees.

import assert from "node:assert/strict";
import { spawn } from "@contextstore/client";
import { binary } from "@contextstore/server";

const server = await spawn();
try {
  const task = await server.client.startTask({ user: "ada" });
  const { seq } = await task.append({ role: "user", content: "From a tarball." });
  const messages = [];
  for await (const message of task.currentMessages()) {
    messages.push(message);
  }
  assert.deepEqual([seq, messages[0].content], [1n, "From a tarball."]);
  const { version } = await server.client.serverInfo();
  console.log(`TypeScript: ${binary()} serves ${version}`);
} finally {
  await server.stop();
}
