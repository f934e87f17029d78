// A real server in a directory of its own, that can be killed and started again.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { type Client, type ConnectOptions, connect } from "../../src/index.js";
import { eventually } from "./eventually.js";

// From build/test/support, where the compiled tests are.
const BUILT = fileURLToPath(new URL("../../../../../target/debug/contextstore", import.meta.url));
/** The server to run. */
export const BINARY = resolve(process.env.CONTEXTSTORE_BIN || BUILT);
/** Whether tests are to be as long as they are in `make test-long`. */
export const LONG = process.env.CONTEXTSTORE_TEST_LONG === "1";
// Servers that are spawned would take it for a key of their configuration.
delete process.env.CONTEXTSTORE_TEST_LONG;

/** How to start one. */
interface ServerOptions {
  readonly dataDir?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** A server and the clients that were made for it. */
export class TestServer {
  readonly dataDir: string;
  readonly #env: Readonly<Record<string, string>>;
  readonly #clients = new Map<string, Client>();
  #process: ChildProcess | undefined;
  #said = "";
  #port = 0;

  private constructor({ dataDir, env }: ServerOptions) {
    this.dataDir = dataDir ?? mkdtempSync(join(tmpdir(), "contextstore-"));
    this.#env = env ?? {};
  }

  /** Starts one, and waits until it serves. */
  static async start(options: ServerOptions = {}): Promise<TestServer> {
    const server = new TestServer(options);
    await server.restart();
    return server;
  }

  get socket(): string {
    return join(this.dataDir, "contextstore.sock");
  }

  get processId(): number | undefined {
    return this.#process?.pid;
  }

  /** How to reach it. */
  options(transport: "unix" | "tcp"): ConnectOptions {
    return transport === "unix"
      ? { address: `unix:${this.socket}` }
      : { address: `tcp:127.0.0.1:${this.#port}`, dataDir: this.dataDir };
  }

  /** A client that ends with the server. */
  client(transport: "unix" | "tcp"): Client {
    const client = this.#clients.get(transport) ?? connect(this.options(transport));
    this.#clients.set(transport, client);
    return client;
  }

  /** Starts it again, where it was. */
  async restart(): Promise<void> {
    this.#port ||= await freePort();
    const listen = [`unix:${this.socket}`, `tcp:127.0.0.1:${this.#port}`];
    const flags = listen.flatMap((address) => ["--listen", address]);
    const child = spawn(BINARY, ["serve", "--data-dir", this.dataDir, ...flags], {
      env: { PATH: process.env.PATH, ...this.#env },
      stdio: ["ignore", "ignore", "pipe"],
    });
    this.#process = child;
    child.stderr.on("data", (data: Buffer) => {
      this.#said += data.toString();
    });
    await once(child, "spawn");
    await eventually(`the server listens: ${BINARY}`, () => {
      if (child.exitCode !== null) {
        throw new Error(`the server ended with ${child.exitCode}: ${this.#said}`);
      }
      return portOf(join(this.dataDir, "addresses")) === this.#port;
    });
    await this.client("unix").waitUntilReady();
  }

  /** Kills it without a warning. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  /** Stops it in order, and removes what it kept. */
  async stop(): Promise<void> {
    for (const client of this.#clients.values()) {
      await client.close();
    }
    await this.#end("SIGTERM");
    rmSync(this.dataDir, { recursive: true, force: true });
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process;
    if (child && child.exitCode === null && child.signalCode === null) {
      const exited = once(child, "exit");
      child.kill(signal);
      await exited;
    }
  }
}

/**
 * A port that nobody listens on now; a server that is started again gets the same. It is below those that the system gives to
 * connections: one of those could be taken by another test while the server is away.
 */
async function freePort(): Promise<number> {
  return await eventually("a port is free", async () => {
    const port = 15_000 + Math.floor(Math.random() * 17_000);
    const probe = createServer();
    try {
      probe.listen(port, "127.0.0.1");
      await once(probe, "listening");
      return port;
    } catch {
      return undefined;
    } finally {
      probe.close();
    }
  });
}

/** The TCP port that the server has written down, once it has. */
function portOf(file: string): number | undefined {
  try {
    return Number(/^tcp:.*:(\d+)$/m.exec(readFileSync(file, "utf8"))?.[1]) || undefined;
  } catch {
    return undefined;
  }
}
