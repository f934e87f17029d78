// Errors say what was tried, and blame nobody who is not to blame.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Code, ConnectError } from "@connectrpc/connect";
import { AccessError, connect, DeadlineError, UnavailableError } from "../src/index.js";
import { DEADLINE_MS, thrownBy } from "./support/eventually.js";
import { BadProxy } from "./support/proxy.js";
import { TestServer } from "./support/server.js";

let server: TestServer;
let dir: string;
before(async () => {
  server = await TestServer.start();
  dir = mkdtempSync(join(tmpdir(), "contextstore-errors-"));
});
after(async () => {
  await server.stop();
  rmSync(dir, { recursive: true });
});

// feature: no-server-advice
test("a server that is not there is an error at once, with what was called and what to do", {
  timeout: DEADLINE_MS,
}, async () => {
  for (const address of [`unix:${dir}/none.sock`, "tcp:127.0.0.1:1"]) {
    // Were it tried again, that would be for an hour.
    using client = connect({ address, timeoutMs: 3_600_000, retryForMs: 3_600_000 });
    const error = await thrownBy(client.serverInfo());
    assert.ok(error instanceof UnavailableError);
    const words = `GetServerInfo: no server listens at ${address} (`;
    assert.ok(error.message.startsWith(words) && /ENOENT|ECONNREFUSED/.test(error.message), error.message);
    assert.match(
      error.message,
      /Start one with `contextstore serve --data-dir .*connectOrSpawn.*CONTEXTSTORE_DATA_DIR/,
    );
    assert.deepEqual([error.method, error.address, error.reason], ["GetServerInfo", address, "NO_SERVER"]);
    const late = await thrownBy(client.waitUntilReady({ timeoutMs: 100 }));
    assert.ok(late instanceof DeadlineError);
    assert.match(
      late.message,
      /^the server at .* is not ready after 100 ms: Check: no server listens at .*(ENOENT|ECONNREFUSED)/,
    );
  }
});

test("a stream that cannot be opened says the same", async () => {
  using client = connect({ address: `unix:${dir}/none.sock`, retryForMs: 0 });
  await assert.rejects(client.task("018f0000-0000-7000-8000-000000000000").current().text(), {
    message: /^StreamCurrent: no server listens at unix:.*none\.sock \(ENOENT\)/,
    method: "StreamCurrent",
  });
});

test("a token file that cannot be read is what is wrong, not the server", {
  timeout: DEADLINE_MS,
}, async () => {
  const { address } = server.options("tcp");
  const tokenFile = join(dir, "token");
  // Were it tried again, that would be for an hour.
  using client = connect({ address, tokenFile, timeoutMs: 3_600_000, retryForMs: 3_600_000 });
  const missing = await thrownBy(client.serverInfo());
  assert.ok(missing instanceof AccessError);
  assert.match(
    missing.message,
    /^the token file .*token cannot be read \(ENOENT.*\); the server was not asked$/,
  );

  writeFileSync(tokenFile, "two words");
  await assert.rejects(client.serverInfo(), /does not hold a token: it must be visible ASCII without spaces/);
  writeFileSync(tokenFile, "wrong");
  const refused = await thrownBy(client.serverInfo());
  assert.ok(refused instanceof AccessError);
  assert.ok(refused.message.endsWith(`(the token is that of the file ${tokenFile})`), refused.message);
  using given = connect({ address, token: "wrong" });
  await assert.rejects(given.serverInfo(), /\(the token is that of the option `token`\)$/);
  // Those who call the service itself get errors of the transport, with their code.
  const raw = await thrownBy(client.rpc.getServerInfo({}));
  assert.ok(raw instanceof ConnectError && raw.code === Code.Unauthenticated);
});

test("what took too long is named", async () => {
  const proxy = await BadProxy.start(server.socket);
  const client = connect({ address: proxy.address });
  await client.serverInfo();
  proxy.silence();
  const error = await thrownBy(client.serverInfo({ timeoutMs: 100.5 }));
  assert.ok(error instanceof DeadlineError);
  assert.equal(error.message, `GetServerInfo: the server at ${proxy.address} did not answer in time`);
  await client.close();
  await proxy.stop();
});
