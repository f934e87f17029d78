// Addresses, tokens and the environment.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { isLocal, optionsFromEnv, parseAddress, TokenSource } from "../src/address.js";
import { connect } from "../src/index.js";

const LOCAL = parseAddress("tcp:127.0.0.1:1");

test("an address is a Unix socket or a host and a port", () => {
  assert.deepEqual(parseAddress("unix:/run/a b.sock"), { kind: "unix", path: "/run/a b.sock" });
  assert.deepEqual(parseAddress("unix:///run/a.sock"), { kind: "unix", path: "/run/a.sock" });
  assert.deepEqual(parseAddress("unix:contexts/a.sock"), { kind: "unix", path: "contexts/a.sock" });
  assert.deepEqual(parseAddress("tcp:127.0.0.1:7777"), { kind: "tcp", host: "127.0.0.1", port: 7777 });
  assert.deepEqual(parseAddress("tls:store.test:1"), { kind: "tls", host: "store.test", port: 1 });
  assert.deepEqual(parseAddress("tcp:[::1]:65535"), { kind: "tcp", host: "::1", port: 65535 });
});

test("any other address is refused with the forms there are", () => {
  const wrong = ["", "unix:", "/run/a.sock", "127.0.0.1:1", "tcp:127.0.0.1", "tcp:host:0", "tcp:host:65536"];
  for (const address of [...wrong, "tcp:a/b:1", "tcp:::1:1", "http://127.0.0.1:1"]) {
    assert.throws(() => parseAddress(address), /is not of the form unix:.* or tcp:/, address);
  }
});

test("a token never crosses the network in clear text", async () => {
  assert.ok(isLocal(parseAddress("unix:/a")) && isLocal(parseAddress("tcp:[::1]:1")));
  assert.ok(isLocal(parseAddress("tcp:127.1.2.3:1")) && isLocal(parseAddress("tcp:localhost:1")));
  assert.ok(!isLocal(parseAddress("tcp:127.0.0.1.example.com:1")));
  assert.throws(() => connect({ address: "tcp:10.0.0.1:1", token: "t" }), /clear text to tcp:10.0.0.1:1/);
  await connect({ address: "tcp:10.0.0.1:1", token: "t", tls: true }).close();
  await connect({ address: "tls:10.0.0.1:1", token: "t" }).close();
  assert.throws(() => connect({ address: "unix:/a", tls: true }), /tls is for TCP/);
});

// feature: token-file
test("a token comes from the options or from a file, which is read each time", () => {
  const dir = mkdtempSync(join(tmpdir(), "contextstore-"));
  try {
    const file = join(dir, "token");
    const source = new TokenSource({ tokenFile: file }, LOCAL);
    assert.throws(() => source.get(), {
      name: "AccessError",
      message: /^the token file .*token cannot be read \(ENOENT.*the server was not asked$/,
    });
    writeFileSync(file, "first\n");
    assert.equal(source.get(), "first");
    writeFileSync(file, "second\n");
    assert.equal(source.get(), "second");
    writeFileSync(file, "\n");
    assert.throws(() => source.get(), /token is empty; the server was not asked/);
    writeFileSync(file, "third\r\n");
    assert.equal(source.get(), "third");
    for (const spoilt of [" third", "third ", "third\n\n", "third\r\n\r\n", "third\r", "third\t\n"]) {
      writeFileSync(file, spoilt);
      assert.throws(() => source.get(), /only a newline at its end is removed/, JSON.stringify(spoilt));
      assert.throws(() => new TokenSource({ token: spoilt }, LOCAL), /visible ASCII/);
    }
  } finally {
    rmSync(dir, { recursive: true });
  }
  const given = new TokenSource({ token: "given" }, LOCAL);
  assert.equal(given.get(), "given");
  assert.equal(new TokenSource({ token: "given\n" }, LOCAL).get(), "given");
  assert.equal(new TokenSource({ token: "given\r\n" }, LOCAL).get(), "given");
  assert.throws(() => new TokenSource({ token: "given \n" }, LOCAL), /visible ASCII/);
  assert.throws(() => new TokenSource({ token: "two words" }, LOCAL), /visible ASCII/);
  assert.throws(() => new TokenSource({ token: "a", tokenFile: "b" }, LOCAL), /only one of/);
});

test("the token of a data directory is sent only while a server runs there", async () => {
  const dir = mkdtempSync(join(tmpdir(), "contextstore-"));
  try {
    writeFileSync(join(dir, "token"), "first\n");
    const source = new TokenSource({ dataDir: dir }, LOCAL);
    assert.throws(() => source.get(), { name: "UnavailableError", message: /it has no running server/ });
    // The process that is noted there has not locked it.
    writeFileSync(join(dir, "LOCK"), `${process.pid}\n`);
    assert.throws(() => source.get(), /it has no running server/);
    using client = connect({ address: "tcp:127.0.0.1:1", dataDir: dir, retryForMs: 0 });
    await assert.rejects(client.serverInfo(), {
      name: "UnavailableError",
      message: /it has no running server/,
    });
  } finally {
    rmSync(dir, { recursive: true });
  }
});

test("the environment gives the address and the token, and the data directory what is left open", () => {
  const options = (env: Record<string, string>) => optionsFromEnv(env);
  const tcp = { CONTEXTSTORE_ADDRESS: "tcp:127.0.0.1:1" };
  const dir = { CONTEXTSTORE_DATA_DIR: "/data" };
  assert.deepEqual(options(dir), { address: "unix:/data/contextstore.sock" });
  assert.deepEqual(options({ ...dir, ...tcp }), { address: "tcp:127.0.0.1:1", dataDir: "/data" });
  assert.deepEqual(options({ ...dir, CONTEXTSTORE_ADDRESS: "unix:/a" }), { address: "unix:/a" });
  assert.deepEqual(options({ ...dir, ...tcp, CONTEXTSTORE_TOKEN_FILE: "/t" }), {
    address: "tcp:127.0.0.1:1",
    tokenFile: "/t",
  });
  assert.deepEqual(options({ ...dir, ...tcp, CONTEXTSTORE_TOKEN: "t", CONTEXTSTORE_TOKEN_FILE: "/t" }), {
    address: "tcp:127.0.0.1:1",
    token: "t",
  });
  assert.deepEqual(options({ CONTEXTSTORE_ADDRESS: "" }), { address: "unix:contexts/contextstore.sock" });
  // Nobody has named a data directory, so no token is looked for in one.
  assert.deepEqual(options(tcp), { address: "tcp:127.0.0.1:1" });
  assert.deepEqual(options({ ...dir, CONTEXTSTORE_ADDRESS: "tls:store.test:1" }), {
    address: "tls:store.test:1",
    tls: {},
  });
});

test("a data directory says where its server is, if that is not at the usual socket", () => {
  const dir = mkdtempSync(join(tmpdir(), "contextstore-"));
  const options = () => optionsFromEnv({ CONTEXTSTORE_DATA_DIR: dir });
  const usual = { address: `unix:${join(dir, "contextstore.sock")}` };
  try {
    writeFileSync(join(dir, "addresses"), "");
    assert.deepEqual(options(), usual);
    writeFileSync(join(dir, "addresses"), "tcp:127.0.0.1:1\ntcp:127.0.0.1:2\n");
    assert.deepEqual(options(), { address: "tcp:127.0.0.1:1", dataDir: dir });
    writeFileSync(join(dir, "addresses"), "tcp:127.0.0.1:1\nunix:/run/c.sock\nunix:/run/d.sock\n");
    assert.deepEqual(options(), { address: "unix:/run/c.sock" });
    writeFileSync(join(dir, "contextstore.sock"), "");
    assert.deepEqual(options(), usual);
  } finally {
    rmSync(dir, { recursive: true });
  }
});
