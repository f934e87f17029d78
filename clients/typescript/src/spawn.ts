// A private server for scripts and tests: found, started, waited for, and stopped again.

import { type ChildProcess, spawn as spawnProcess } from "node:child_process";
import { rmSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ConnectOptions } from "./address.js";
import { findBinary, serverEnvironment } from "./binary.js";
import { checkFields, type Fields } from "./check.js";
import { type Client, connect } from "./client.js";
import { UnavailableError } from "./errors.js";

/** How to start a server. */
export interface SpawnOptions {
  /** The binary. Default: `CONTEXTSTORE_BINARY`, then the installed platform package, then the `PATH`. */
  readonly binary?: string;
  /** Where it keeps tasks; it stays when the server is stopped. Default: a temporary folder, which is removed. */
  readonly dataDir?: string;
  /** More flags of `contextstore serve`. */
  readonly args?: readonly string[];
  /** Variables on top of those of this process, such as `CONTEXTSTORE_LLM__PROVIDER`; `undefined` takes one away. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** What `connect` takes for the client, beside the address. */
  readonly client?: Omit<ConnectOptions, "address" | "token" | "tokenFile" | "dataDir" | "tls">;
  /** How long it may take until it serves. Default: 30 s. */
  readonly timeoutMs?: number;
  /** Hands over what the server logs, line by line or in pieces. Default: only what it said last is kept, for errors. */
  readonly onLog?: (text: string) => void;
}

const FIELDS = {
  binary: "text",
  dataDir: "text",
  args: "texts",
  env: "any",
  client: "any",
  timeoutMs: "number",
  onLog: "function",
} as const satisfies Fields<SpawnOptions>;
/**
 * Who holds the leases in a directory of a private server: always the one program whose server it is. Under a name of its own,
 * each start would have to wait for the leases of the one before.
 */
const INSTANCE = "spawned";
/** What is kept of the log. */
const LOG_CHARS = 16 << 10;
/** How long a server may take to stop in order. */
const STOP_MS = 15_000;

/**
 * Starts a server of one's own, on a socket that nobody else finds, and waits until it serves. It ends with `stop`, at the end
 * of an `await using` block, or with this process, however that ends; it does not keep the process alive. A Ctrl-C does not
 * reach it: what the program appends on its way out is stored.
 *
 * @example
 * ```ts
 * await using server = await spawn();
 * const task = await server.client.startTask();
 * await task.append({ role: "user", content: "Hello" });
 * ```
 */
export async function spawn(options: SpawnOptions = {}): Promise<Server> {
  checkFields("options", options, FIELDS);
  const binary = findBinary(options.binary);
  const folder = await mkdtemp(join(tmpdir(), "contextstore-"));
  try {
    const dataDir = options.dataDir ?? join(folder, "contexts");
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    // A socket of its own: paths of sockets are short, those of data directories may not be.
    const address = `unix:${join(folder, "s")}`;
    const args = [
      "serve",
      "--data-dir",
      dataDir,
      "--listen",
      address,
      "--stop-with-stdin",
      ...(options.args ?? []),
    ];
    const process = new Supervised(binary, args, serverEnvironment(options.env), options.onLog);
    process.leaves(folder, options.dataDir === undefined);
    const client = connect({ instanceId: INSTANCE, ...options.client, address });
    const server = new Server(client, dataDir, folder, process);
    try {
      await process.guard(client.waitUntilReady({ timeoutMs: options.timeoutMs ?? 30_000 }));
    } catch (thrown) {
      await server.stop();
      throw thrown;
    }
    return server;
  } catch (thrown) {
    await rm(folder, { recursive: true, force: true });
    throw thrown;
  }
}

/**
 * A server that `spawn` has started.
 *
 * @example
 * ```ts
 * const server = await spawn({ env: { CONTEXTSTORE_LLM__PROVIDER: "openai" }, onLog: (text) => process.stderr.write(text) });
 * console.log(server.address, server.pid, server.dataDir);
 * await server.stop();
 * ```
 */
export class Server {
  /** A client of it; it is closed when the server is stopped. */
  readonly client: Client;
  /** Where it keeps tasks. */
  readonly dataDir: string;
  readonly #folder: string;
  readonly #process: Supervised;

  /** @internal */
  constructor(client: Client, dataDir: string, folder: string, process: Supervised) {
    this.client = client;
    this.dataDir = dataDir;
    this.#folder = folder;
    this.#process = process;
  }

  /** Where it listens; for other clients and other processes of this user. */
  get address(): string {
    return this.client.address;
  }

  /** The id of its process. */
  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** What it said last. */
  get log(): string {
    return this.#process.log;
  }

  /**
   * Closes the client, stops the server in order and removes what was temporary. What was appended with `wait: false` is waited for, as
   * by `client.close`. May be called again.
   */
  async stop(options: { readonly timeoutMs?: number } = {}): Promise<void> {
    try {
      await this.client.close(options);
    } finally {
      await this.#process.stop();
      await rm(this.#folder, { recursive: true, force: true });
    }
  }

  /** As `stop`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** A child that does not outlive this process: its input is a pipe that ends with this process, however that ends. */
class Supervised {
  log = "";
  readonly #child: ChildProcess;
  readonly #exited: Promise<string>;

  constructor(
    binary: string,
    args: readonly string[],
    env: NodeJS.ProcessEnv,
    onLog: ((text: string) => void) | undefined,
  ) {
    // A session of its own: a Ctrl-C is for this process, which may have something to append before it ends.
    const child = spawnProcess(binary, args, { env, stdio: ["pipe", "ignore", "pipe"], detached: true });
    this.#child = child;
    child.stdin.on("error", () => undefined);
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.log = (this.log + text).slice(-LOG_CHARS);
      onLog?.(text);
    });
    for (const held of [child, child.stdin as Socket, child.stderr as Socket]) {
      held.unref();
    }
    this.#exited = new Promise((resolve) => {
      child.once("error", (error) => {
        resolve(`${binary} cannot be started: ${error.message}`);
      });
      child.once("exit", (code, signal) => {
        resolve(`${binary} ended with ${signal ?? `status ${code ?? "unknown"}`}`);
      });
    });
  }

  /** Has a folder removed at the exit of this process. If the server keeps its data there, it has nothing to end in order. */
  leaves(folder: string, isOfData: boolean): void {
    const leave = () => {
      if (isOfData) {
        this.#kill();
      }
      rmSync(folder, { recursive: true, force: true });
    };
    process.once("exit", leave);
    void this.#exited.then(() => {
      process.off("exit", leave);
    });
  }

  readonly #kill = () => {
    this.#child.kill("SIGKILL");
  };

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Waits for something, unless the child ends before. */
  async guard(promise: Promise<void>): Promise<void> {
    const ended = this.#exited.then((how) => {
      throw new UnavailableError(`${how}\n${this.log.trim()}`.trim(), { code: "UNAVAILABLE" });
    });
    try {
      await Promise.race([promise, ended]);
    } finally {
      // Whichever of the two comes later is nobody's concern.
      promise.catch(() => undefined);
      ended.catch(() => undefined);
    }
  }

  async stop(): Promise<void> {
    if (this.#child.pid === undefined) {
      return;
    }
    this.#child.stdin?.end();
    const timer = setTimeout(this.#kill, STOP_MS);
    await this.#exited;
    clearTimeout(timer);
  }
}
