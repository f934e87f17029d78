// A private server for scripts and tests: found, started, waited for, and stopped again.

import { type ChildProcess, spawn as spawnProcess } from "node:child_process";
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import type { ConnectOptions } from "./address.js";
import { type Client, connect } from "./client.js";
import { ContextStoreError, UnavailableError } from "./errors.js";
import locate from "./locate.cjs";

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

/** Variables that are for clients: the server would take some of them for keys of its configuration. */
const CLIENT_VARIABLES = ["ADDRESS", "TOKEN", "TOKEN_FILE", "CA_FILE", "CERT_FILE", "KEY_FILE"];
const NOT_FOR_SERVER = [
  ...CLIENT_VARIABLES.map((name) => `CONTEXTSTORE_${name}`),
  "CONTEXTSTORE_BINARY",
  "CONTEXTSTORE_BIN",
  "CONTEXTSTORE_FAKE_LLM",
];
/**
 * Who holds the leases in a directory of a private server: always the one program whose server it is. Under a name of its own,
 * each start would have to wait for the leases of the one before.
 */
const INSTANCE = "spawned";
/** What is kept of the log. */
const LOG_CHARS = 16 << 10;
/** Waits for the end of its input, which is that of this process. */
const WATCHER = 'read _; kill -TERM "$1" 2>/dev/null';
/** How long a server may take to stop in order. */
const STOP_MS = 15_000;

/**
 * Starts a server of one's own, on a socket that nobody else finds, and waits until it serves. It ends with `stop`, at the end
 * of an `await using` block, or when this process exits.
 *
 * @example
 * ```ts
 * await using server = await spawn();
 * const task = await server.client.startTask();
 * await task.append({ role: "user", content: "Hello" });
 * ```
 */
export async function spawn(options: SpawnOptions = {}): Promise<Server> {
  const binary = findBinary(options.binary);
  const folder = await mkdtemp(join(tmpdir(), "contextstore-"));
  try {
    const dataDir = options.dataDir ?? join(folder, "contexts");
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    // A socket of its own: paths of sockets are short, those of data directories may not be.
    const address = `unix:${join(folder, "s")}`;
    const args = ["serve", "--data-dir", dataDir, "--listen", address, ...(options.args ?? [])];
    const process = new Supervised(binary, args, environment(options.env), options.onLog);
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

  /** Closes the client, stops the server in order and removes what was temporary. May be called again. */
  async stop(): Promise<void> {
    try {
      await this.client[Symbol.asyncDispose]();
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

/** A child that does not outlive this process. */
class Supervised {
  log = "";
  readonly #child: ChildProcess;
  readonly #exited: Promise<string>;
  readonly #kill = () => {
    this.#child.kill("SIGKILL");
  };

  constructor(
    binary: string,
    args: readonly string[],
    env: NodeJS.ProcessEnv,
    onLog: ((text: string) => void) | undefined,
  ) {
    this.#child = spawnProcess(binary, args, { env, stdio: ["ignore", "ignore", "pipe"] });
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.log = (this.log + text).slice(-LOG_CHARS);
      onLog?.(text);
    });
    this.#exited = new Promise((resolve) => {
      this.#child.once("error", (error) => {
        resolve(`${binary} cannot be started: ${error.message}`);
      });
      this.#child.once("exit", (code, signal) => {
        resolve(`${binary} ended with ${signal ?? `status ${code ?? "unknown"}`}`);
      });
    });
    this.#outlived();
  }

  /** Ends the child with this process, also if that is killed: then the input of the watcher ends. */
  #outlived(): void {
    process.once("exit", this.#kill);
    const watcher = spawnProcess(
      "/bin/sh",
      ["-c", WATCHER, "contextstore-watcher", String(this.#child.pid)],
      {
        stdio: ["pipe", "ignore", "ignore"],
      },
    );
    // Without it the server only outlives a process that is killed.
    watcher.once("error", () => undefined);
    watcher.stdin.on("error", () => undefined);
    watcher.unref();
    (watcher.stdin as Socket).unref();
    void this.#exited.then(() => {
      process.off("exit", this.#kill);
      watcher.kill("SIGKILL");
    });
  }

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
    this.#child.kill("SIGTERM");
    const timer = setTimeout(this.#kill, STOP_MS);
    await this.#exited;
    clearTimeout(timer);
  }
}

/** Where the binary is, or an error that names every place that was looked at. */
export function findBinary(given: string | undefined, env: NodeJS.ProcessEnv = process.env): string {
  if (given !== undefined) {
    return checked(given, "the option `binary`");
  }
  if (env.CONTEXTSTORE_BINARY) {
    return checked(env.CONTEXTSTORE_BINARY, "CONTEXTSTORE_BINARY");
  }
  const packaged = locate.packagedBinary();
  if (packaged !== undefined && existsSync(packaged)) {
    return packaged;
  }
  const folders = (env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  const found = folders.map((folder) => join(folder, "contextstore")).find(isExecutable);
  if (found !== undefined) {
    return found;
  }
  throw new ContextStoreError(
    `there is no contextstore to start: CONTEXTSTORE_BINARY is not set, the package ${locate.platformPackage()} is ` +
      `not installed, and none of the ${folders.length} folders of the PATH has one`,
    { code: "NOT_FOUND" },
  );
}

function checked(binary: string, origin: string): string {
  if (!isExecutable(binary)) {
    throw new ContextStoreError(`${origin} names ${binary}, which is no program that can be run`, {
      code: "NOT_FOUND",
    });
  }
  return binary;
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

function environment(given: SpawnOptions["env"]): NodeJS.ProcessEnv {
  const merged = { ...process.env, ...given };
  const kept = Object.entries(merged).filter(
    ([name, value]) => value !== undefined && !NOT_FOR_SERVER.includes(name),
  );
  return Object.fromEntries(kept);
}
