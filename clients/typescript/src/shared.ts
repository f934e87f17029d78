// The server of a data directory, shared by all programs of this user: connected to, or started.

import { type ChildProcess, spawn as spawnProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, open, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { addressIn, type ConnectOptions, parseAddress } from "./address.js";
import { findBinary, serverEnvironment } from "./binary.js";
import { pause } from "./calls.js";
import { checkFields, checkKind, type Fields } from "./check.js";
import { type Client, connect } from "./client.js";
import { type ContextStoreError, DeadlineError, UnavailableError } from "./errors.js";
import { isLocked } from "./lock.js";

/** How the server of a data directory is started if there is none, and how to connect to it. */
export interface ConnectOrSpawnOptions {
  /** The binary. Default: as for `spawn`. */
  readonly binary?: string;
  /** More flags of `contextstore serve`. */
  readonly args?: readonly string[];
  /** Variables on top of those of this process; `undefined` takes one away. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** What `connect` takes for the client, beside the address and the token. */
  readonly client?: Omit<ConnectOptions, "address" | "token" | "tokenFile" | "dataDir" | "tls">;
  /** How long it may take until the server serves. Default: 30 s. */
  readonly timeoutMs?: number;
}

const FIELDS = {
  binary: "text",
  args: "texts",
  env: "any",
  client: "any",
  timeoutMs: "number",
} as const satisfies Fields<ConnectOrSpawnOptions>;

/** For how long nobody may be connected until the server stops. */
const IDLE = "30s";
/** The longest path of a socket, in bytes. */
const MAX_SOCKET_BYTES = 107;
/** How long one try to reach the server may take. */
const TRY_MS = 2_000;
/** How long the next start waits for a server that holds the directory where its lock cannot be seen, as in another container. */
const IN_USE_MS = 1_000;
/** What an error has of the log. */
const LOG_CHARS = 4 << 10;

/**
 * A client of the server that holds a data directory; if there is none, one is started. It is shared: every program that calls this
 * gets the same server, which ends by itself half a minute after the last client has gone. Closing the client does not stop it. It
 * logs to `server.log` in the data directory, which each start begins anew.
 *
 * @example
 * ```ts
 * const client = await connectOrSpawn("contexts");
 * const task = await client.task({ taskSource: "github", owner: "octo", repo: "hello", taskId: "7" });
 * ```
 */
export async function connectOrSpawn(dataDir: string, options: ConnectOrSpawnOptions = {}): Promise<Client> {
  checkKind("dataDir", dataDir, "text");
  checkFields("options", options, FIELDS);
  const folder = resolve(dataDir);
  const deadline = performance.now() + (options.timeoutMs ?? 30_000);
  let started: Started | undefined;
  for (;;) {
    const reached = await reach(folder, options, Math.min(TRY_MS, Math.max(1, deadline - performance.now())));
    if ("client" in reached) {
      await started?.nameLog(reached.processId);
      return reached.client;
    }
    if (performance.now() >= deadline || started?.hasFailed) {
      await started?.nameLog();
      throw unreachable(folder, reached.error, started);
    }
    // Another process may have been quicker; then ours finds the directory in use, and ends.
    if ((started === undefined || started.mayBeFollowed) && !isHeld(folder)) {
      await started?.nameLog();
      started = await Started.start(folder, options);
    }
    await pause(25, undefined);
  }
}

/** Whether a server holds the directory, as far as can be seen from here. It may not serve yet. */
function isHeld(folder: string): boolean {
  try {
    return isLocked(join(folder, "LOCK"));
  } catch {
    return false;
  }
}

type Reached =
  | { readonly client: Client; readonly processId: number }
  | { readonly error: ContextStoreError };

/** Tries once to reach the server of a data directory. */
async function reach(folder: string, options: ConnectOrSpawnOptions, timeoutMs: number): Promise<Reached> {
  const address = addressIn(folder);
  const access = parseAddress(address).kind === "tcp" ? { dataDir: folder } : {};
  const client = connect({ ...options.client, address, ...access });
  try {
    const { processId } = await client.serverInfo({ timeoutMs });
    await client.waitUntilReady({ timeoutMs });
    return { client, processId };
  } catch (error) {
    await client.close();
    if (error instanceof UnavailableError || error instanceof DeadlineError) {
      return { error };
    }
    throw error;
  }
}

function unreachable(
  folder: string,
  cause: ContextStoreError,
  started: Started | undefined,
): UnavailableError {
  const why = isHeld(folder)
    ? `a server holds the directory, but does not serve: ${cause.message}`
    : (started?.how ?? cause.message);
  const message = `the server of ${folder} cannot be reached, nor one be started: ${why}`;
  const log = started?.log.slice(-LOG_CHARS).trim() ?? "";
  return new UnavailableError(`${message}\n${log}`.trim(), { code: "UNAVAILABLE", cause });
}

/** A server that this process has started and that outlives it. */
class Started {
  /** How it ended, once it has. */
  how: string | undefined;
  /** What it has logged. */
  log = "";
  #endedAt = 0;
  readonly #processId: number | undefined;
  readonly #folder: string;
  readonly #logFile: string;

  private constructor(
    child: ChildProcess,
    binary: string,
    [folder, logFile]: readonly [string, string],
    socketFolder: string | undefined,
  ) {
    this.#processId = child.pid;
    this.#folder = folder;
    this.#logFile = logFile;
    const end = (how: string) => {
      this.how ??= how;
      this.#endedAt = performance.now();
      this.log = textOf(logFile);
      if (socketFolder !== undefined) {
        void rm(socketFolder, { recursive: true, force: true });
      }
    };
    child.once("error", (error) => {
      end(`${binary} cannot be started: ${error.message}`);
    });
    child.once("exit", (code, signal) => {
      end(`${binary} ended with ${signal ?? `status ${code ?? "unknown"}`}`);
    });
    child.unref();
  }

  static async start(folder: string, options: ConnectOrSpawnOptions): Promise<Started> {
    const binary = findBinary(options.binary);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const usual = join(folder, "contextstore.sock");
    const isLong = Buffer.byteLength(usual) > MAX_SOCKET_BYTES;
    const socketFolder = isLong ? await mkdtemp(join(tmpdir(), "contextstore-")) : undefined;
    const socket = socketFolder === undefined ? usual : join(socketFolder, "s");
    const args = ["serve", "--data-dir", folder, "--listen", `unix:${socket}`, "--stop-when-idle", IDLE];
    // Under a name of its own until it serves: the log of a server that is there already is not touched, and a directory in which
    // nothing else is can still become a data directory.
    const logFile = join(folder, `.server.log.${randomUUID()}`);
    const log = await open(logFile, "ax", 0o600);
    try {
      const child = spawnProcess(binary, [...args, ...(options.args ?? [])], {
        env: serverEnvironment(options.env),
        stdio: ["ignore", log.fd, log.fd],
        detached: true,
      });
      return new Started(child, binary, [folder, logFile], socketFolder);
    } finally {
      await log.close();
    }
  }

  get hasEnded(): boolean {
    return this.how !== undefined;
  }

  /** Whether it ended so long ago that another one may be started. */
  get mayBeFollowed(): boolean {
    return this.hasEnded && performance.now() - this.#endedAt >= IN_USE_MS;
  }

  /** Whether it ended, and not because another server has the directory. */
  get hasFailed(): boolean {
    return this.hasEnded && !this.log.includes("is in use by");
  }

  /** Gives the log its name, if it is that of the server which is there; another one is removed. */
  async nameLog(processId?: number): Promise<void> {
    if (processId !== undefined && processId === this.#processId) {
      await rename(this.#logFile, join(this.#folder, "server.log"));
    } else {
      await rm(this.#logFile, { force: true });
    }
  }
}

function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
