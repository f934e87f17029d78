// The server of a data directory that programs share; data directories with any name, and who gets their tokens.

import assert from "node:assert/strict";
import { spawn as spawnProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type Http2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { connect, connectOrSpawn, fromEnv, UnavailableError } from "../src/index.js";
import { eventually, thrownBy } from "./support/eventually.js";
import { BINARY, TestServer } from "./support/server.js";

let root: string;
before(() => {
  root = mkdtempSync(join(tmpdir(), "contextstore-"));
});
after(() => {
  rmSync(root, { recursive: true, force: true });
});

async function isGone(dataDir: string): Promise<void> {
  await eventually("the server has ended", () =>
    readFileSync(join(dataDir, "server.log"), "utf8").includes("stopped"),
  );
}

// feature: connect-or-spawn
test("a server is started where there is none, shared, and ends behind its last client", async () => {
  const dataDir = join(root, "shared");
  const first = await connectOrSpawn(dataDir, { binary: BINARY });
  const { processId } = await first.serverInfo();
  const task = await first.startTask();
  await task.append({ role: "user", content: "Hello" }, { wait: false });
  const second = await connectOrSpawn(dataDir, { binary: "/nowhere" });
  assert.equal((await second.serverInfo()).processId, processId);
  await first.close();
  assert.equal((await second.task(task.uuid).current().toArray()).length, 1);
  assert.equal(statSync(join(dataDir, "server.log")).mode & 0o777, 0o600);
  await second.close();
  // It waits for half a minute; a test does not.
  process.kill(processId, "SIGTERM");
  await isGone(dataDir);
});

test("programs that call it at once get one server, which outlives the one that started it", async () => {
  const dataDir = join(root, `${"long".repeat(30)} name`);
  const index = new URL("../src/index.js", import.meta.url).href;
  const script = `
    import { connectOrSpawn } from ${JSON.stringify(index)};
    const client = await connectOrSpawn(${JSON.stringify(dataDir)}, { binary: ${JSON.stringify(BINARY)} });
    console.log((await client.serverInfo()).processId);
    await new Promise((resolve) => process.stdin.once("end", resolve).resume());
    await (await client.startTask()).append({ role: "user", content: "Bye" });`;
  const children = [0, 1, 2].map(() =>
    spawnProcess(process.execPath, ["--input-type=module", "--eval", script], {
      stdio: ["pipe", "pipe", "inherit"],
    }),
  );
  const lines = await Promise.all(
    children.map(async ({ stdout }) => String((await once(stdout, "data"))[0]).trim()),
  );
  assert.equal(new Set(lines).size, 1, lines.join(" "));
  for (const child of children) {
    child.stdin.end();
    assert.deepEqual(await once(child, "exit"), [0, null]);
  }
  const client = await connectOrSpawn(dataDir, { binary: BINARY });
  assert.equal(String((await client.serverInfo()).processId), lines[0]);
  assert.match(client.address, /^unix:.{1,107}$/);
  await client.close();
  process.kill(Number(lines[0]), "SIGTERM");
});

test("a server that cannot be started is an error with the end of its log", async () => {
  const dataDir = join(root, "broken");
  const env = { CONTEXTSTORE_LIMITS__MESSAGE_BYTES: "no size" };
  await assert.rejects(connectOrSpawn(dataDir, { binary: BINARY, env }), {
    name: "UnavailableError",
    message: /cannot be reached, nor one be started: .*ended with status \d+\n.*message_bytes/s,
  });
});

test("no server is started while another one holds the directory and does not serve yet", async () => {
  const own = await TestServer.start();
  const [starts, ends] = [join(root, "starts"), join(root, "ends")];
  const binary = join(root, "counted");
  writeFileSync(
    binary,
    `#!/bin/sh\necho >>"${starts}"\n"${BINARY}" "$@"\nstatus=$?\necho >>"${ends}"\nexit $status\n`,
    {
      mode: 0o755,
    },
  );
  writeFileSync(starts, "");
  writeFileSync(ends, "");
  const hide = (name: string) => {
    renameSync(join(own.dataDir, name), join(root, name));
  };
  try {
    // As while it recovers: it has the lock, and listens nowhere.
    hide("contextstore.sock");
    hide("addresses");
    const held = await thrownBy(connectOrSpawn(own.dataDir, { binary, timeoutMs: 1_500 }));
    assert.equal(readFileSync(starts, "utf8"), "");
    assert.match(String(held), /^UnavailableError: .* a server holds the directory, but does not serve/);
    // Its lock cannot be seen: it is tried now and then.
    const lock = readFileSync(join(own.dataDir, "LOCK"));
    writeFileSync(join(own.dataDir, "LOCK"), "1\n");
    await assert.rejects(connectOrSpawn(own.dataDir, { binary, timeoutMs: 1_500 }), UnavailableError);
    const started = readFileSync(starts, "utf8");
    assert.match(started, /^\n{1,2}$/);
    await eventually("they have ended", () => readFileSync(ends, "utf8") === started);
    writeFileSync(join(own.dataDir, "LOCK"), lock);
    renameSync(join(root, "contextstore.sock"), own.socket);
    await using client = await connectOrSpawn(own.dataDir, { binary });
    assert.equal((await client.serverInfo()).processId, own.processId);
  } finally {
    await own.stop();
  }
});

// feature: address-any-name
test("a data directory may have any name", async () => {
  for (const name of ["%41", "a#b?c,d", "with space", "ünïcödé-目录", "a%2Fb&c=d;e'f\"g"]) {
    const dataDir = join(root, name);
    const client = await connectOrSpawn(dataDir, { binary: BINARY });
    const { uuid } = await client.startTask();
    await using other = connect({ address: `unix:${join(dataDir, "contextstore.sock")}` });
    assert.equal((await other.task(uuid).get()).task?.uuid, uuid, name);
    await using third = fromEnv({ CONTEXTSTORE_DATA_DIR: dataDir });
    const { processId } = await third.serverInfo();
    await client.close();
    process.kill(processId, "SIGTERM");
  }
});

test("the path of a socket may be relative", async () => {
  const server = await TestServer.start();
  const before = process.cwd();
  process.chdir(server.dataDir);
  try {
    await using client = connect({ address: "unix:contextstore.sock" });
    assert.equal((await client.serverInfo()).processId, server.processId);
  } finally {
    process.chdir(before);
    await server.stop();
  }
});

/** A stranger on a port, who writes down what calls bring. */
async function stranger(): Promise<{ server: Http2Server; port: number; got: (string | undefined)[] }> {
  const got: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    got.push(request.headers.authorization);
    response.writeHead(404).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { server, port: (server.address() as AddressInfo).port, got };
}

// feature: token-only-to-holder
test("the token of a data directory goes only to the server that holds it, where that listens", async () => {
  const own = await TestServer.start();
  const other = await stranger();
  try {
    const options = own.options("tcp");
    await using client = connect(options);
    assert.equal((await client.serverInfo()).processId, own.processId);
    const port = /:(\d+)$/.exec(options.address)?.[1];
    await using byName = connect({ ...options, address: `tcp:localhost:${port}` });
    assert.equal((await byName.serverInfo()).processId, own.processId);

    // The directory is held, but somebody else listens at the address.
    await using wrong = connect({ ...options, address: `tcp:127.0.0.1:${other.port}`, retryForMs: 0 });
    const refused = await thrownBy(wrong.serverInfo());
    assert.match(
      String(refused),
      /the token of .* is not sent: its server does not listen at 127\.0\.0\.1:\d+/,
    );
    // The address is written down, but nobody holds the directory.
    await own.kill();
    writeFileSync(join(own.dataDir, "addresses"), `tcp:127.0.0.1:${other.port}\n`);
    const stale = await thrownBy(wrong.serverInfo());
    assert.match(String(stale), /is not sent: it has no running server/);
    assert.deepEqual(other.got, []);
  } finally {
    other.server.close();
    await own.stop();
  }
});
