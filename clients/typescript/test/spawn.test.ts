// Servers that scripts and tests start for themselves.

import assert from "node:assert/strict";
import { execFile, spawn as spawnProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { findBinary } from "../src/binary.js";
import { connect, spawn, TaskStatus } from "../src/index.js";
import { DEADLINE_MS, eventually } from "./support/eventually.js";
import { BINARY } from "./support/server.js";

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

// feature: spawn
test("a private server serves, and is gone with all it kept when it is stopped", async () => {
  let server: Awaited<ReturnType<typeof spawn>>;
  {
    await using spawned = await spawn({ binary: BINARY });
    server = spawned;
    const task = await server.client.startTask();
    await task.append({ role: "user", content: "Hello" });
    await using other = connect({ address: server.address });
    assert.equal((await other.task(task.uuid).current().toArray()).length, 1);
    assert.ok(existsSync(server.dataDir) && server.pid !== undefined && isAlive(server.pid));
    assert.match(server.log, /listen|serving|start/i);
  }
  assert.ok(!existsSync(server.dataDir));
  assert.ok(!isAlive(server.pid));
  await server.stop();
});

test("a data directory of one's own stays", async () => {
  const dataDir = join(mkdtempSync(join(tmpdir(), "contextstore-")), "x".repeat(120));
  try {
    const first = await spawn({ binary: BINARY, dataDir });
    const { uuid } = await first.client.startTask();
    await first.stop();
    const second = await spawn({ binary: BINARY, dataDir, client: { timeoutMs: 40_000 } });
    assert.equal((await second.client.task(uuid).get()).task?.status, TaskStatus.RUNNING);
    // The program that held it is gone, as its server is.
    const again = await second.client.startTask({ uuid });
    await again.append({ role: "user", content: "Hello again" });
    await second.stop();
  } finally {
    rmSync(join(dataDir, ".."), { recursive: true });
  }
});

test("a server that does not start says why", async () => {
  const env = { CONTEXTSTORE_LIMITS__MESSAGE_BYTES: "no size" };
  await assert.rejects(spawn({ binary: BINARY, env }), {
    name: "UnavailableError",
    message: /ended with status \d+\n.*message_bytes/s,
  });
  await assert.rejects(
    spawn({ binary: "/nowhere/contextstore" }),
    /`binary` names \/nowhere\/contextstore, which/,
  );
});

test("the binary is that of the environment, of a package, of the path; else all are named", () => {
  assert.equal(findBinary(undefined, { CONTEXTSTORE_BINARY: BINARY }), BINARY);
  assert.equal(findBinary(undefined, { PATH: `/nowhere:${join(BINARY, "..")}` }), BINARY);
  assert.throws(
    () => findBinary(undefined, { CONTEXTSTORE_BINARY: "/nowhere" }),
    /CONTEXTSTORE_BINARY names \/nowhere/,
  );
  assert.throws(
    () => findBinary(undefined, { PATH: "/nowhere" }),
    /CONTEXTSTORE_BINARY is not set, the package @contextstore\/server-\S+ is not installed, and none of the 1 folders/,
  );
});

// feature: spawn-dies-with-parent
test("it does not outlive its process, however that ends", async () => {
  const index = new URL("../src/index.js", import.meta.url).href;
  const script = (end: string) => `
    import { spawn } from ${JSON.stringify(index)};
    const server = await spawn({ binary: ${JSON.stringify(BINARY)} });
    console.log(server.pid);
    ${end}`;
  for (const end of ["process.exit(0);", "process.kill(process.pid, 'SIGKILL');"]) {
    const run = promisify(execFile)(process.execPath, ["--input-type=module", "--eval", script(end)]);
    const { stdout } = await run.catch((error: unknown) => error as { stdout: string });
    const pid = Number(stdout.trim());
    assert.ok(pid > 0, stdout);
    await eventually("the server is gone", () => !isAlive(pid));
  }
});

test("a program that is killed as soon as its server has started leaves no server", async () => {
  const folder = mkdtempSync(join(tmpdir(), "contextstore-"));
  // The server that the program has started kills it before it does anything else.
  const killer = join(folder, "killer");
  const commands = `echo $$ >'${folder}/pid'\nkill -9 $PPID\nexec '${BINARY}' "$@"\n`;
  writeFileSync(killer, `#!/bin/sh\n${commands}`, { mode: 0o755 });
  const options = JSON.stringify({ binary: killer, dataDir: join(folder, "data") });
  const script = `
    import { spawn } from ${JSON.stringify(new URL("../src/index.js", import.meta.url).href)};
    await spawn(${options});`;
  try {
    await assert.rejects(
      promisify(execFile)(process.execPath, ["--input-type=module", "--eval", script], {
        timeout: DEADLINE_MS,
      }),
      { signal: "SIGKILL" },
    );
    const pid = Number(readFileSync(join(folder, "pid"), "utf8"));
    await eventually("the server is gone", () => !isAlive(pid));
    assert.ok(existsSync(join(folder, "data", "tasks.db")), "it was there");
  } finally {
    rmSync(folder, { recursive: true });
  }
});

// feature: spawn-ctrl-c
test("a Ctrl-C is for the program, which appends and pauses before its server ends", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "contextstore-"));
  const script = `
    import { spawn } from ${JSON.stringify(new URL("../src/index.js", import.meta.url).href)};
    const server = await spawn({ binary: ${JSON.stringify(BINARY)}, dataDir: ${JSON.stringify(dataDir)} });
    const task = await server.client.startTask();
    const alive = setInterval(() => undefined, 1_000);
    process.once("SIGINT", async () => {
      await task.append({ role: "user", content: "interrupted" });
      await task.pause();
      await server.stop();
      clearInterval(alive);
    });
    console.log(task.uuid);`;
  // A group of its own, as a shell gives a program: a Ctrl-C goes to all of the group.
  const child = spawnProcess(process.execPath, ["--input-type=module", "--eval", script], {
    detached: true,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  process.kill(-(child.pid ?? 0), "SIGINT");
  assert.deepEqual(await once(child, "exit"), [0, null]);
  try {
    await using server = await spawn({ binary: BINARY, dataDir });
    const task = server.client.task(line.toString().trim());
    assert.equal((await task.get()).task?.status, TaskStatus.PAUSED);
    assert.deepEqual(
      (await task.current().toArray()).map(({ content }) => content),
      ["interrupted"],
    );
  } finally {
    rmSync(dataDir, { recursive: true });
  }
});

test("a program that is done ends, although it did not stop its server, and leaves no folder behind", async () => {
  const script = `
    import { spawn } from ${JSON.stringify(new URL("../src/index.js", import.meta.url).href)};
    const server = await spawn({ binary: ${JSON.stringify(BINARY)} });
    console.log(server.pid, server.dataDir);`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", script], {
    timeout: DEADLINE_MS,
  });
  const [pid, dataDir = ""] = stdout.trim().split(" ");
  await eventually("the server is gone", () => !isAlive(Number(pid)));
  assert.ok(!existsSync(dataDir));
});
