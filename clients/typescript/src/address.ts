// Where the server is and how a caller shows who it is: addresses, tokens, the environment. Opens no connection.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { AccessError, UnavailableError } from "./errors.js";
import { isLocked } from "./lock.js";

/** How a connection over TCP is encrypted: certificates and keys in PEM, as text or bytes. */
export interface TlsOptions {
  /** Who may sign the server's certificate. Default: whom Node trusts. */
  readonly ca?: string | Uint8Array;
  /** The client's own certificate, for a server that asks for one (mTLS). */
  readonly cert?: string | Uint8Array;
  /** The key of it. */
  readonly key?: string | Uint8Array;
  /** The name that the server's certificate has to be for. Default: the host of the address. */
  readonly serverName?: string;
}

/** How to reach the server. */
export interface ConnectOptions {
  /** `unix:/path/of/contextstore.sock`, `tcp:127.0.0.1:PORT`, or `tls:HOST:PORT`, which is TCP with `tls`. */
  readonly address: string;
  /** Encrypts the connection: only over TCP. `true`, as with `tls:HOST:PORT`: with a certificate that Node trusts. */
  readonly tls?: boolean | TlsOptions;
  /** The token for TCP. The Unix socket needs none. */
  readonly token?: string;
  /** A file with the token: read for every call, as every start of the server makes a new token. */
  readonly tokenFile?: string;
  /** The data directory of a server on this machine: the token is its own, and is sent only while a server runs on it. */
  readonly dataDir?: string;
  /** How long a call may take, or a stream may be silent. Default: 30 s. */
  readonly timeoutMs?: number;
  /** How long a call that failed in passing is tried again, within its time. 0: not at all. Default: 10 s. */
  readonly retryForMs?: number;
  /** Who holds the tasks this client starts. Default: random. Give one to take them up after a restart at once. */
  readonly instanceId?: string;
}

/** An address, taken apart. */
export type Address =
  | { readonly kind: "unix"; readonly path: string }
  | { readonly kind: "tcp" | "tls"; readonly host: string; readonly port: number };

const FORMS = "unix:/path/of/contextstore.sock or tcp:127.0.0.1:PORT or tls:HOST:PORT";

/** Takes an address apart, or throws a TypeError that says what it should look like. */
export function parseAddress(text: string): Address {
  const unix = /^unix:(?:\/\/(?=\/))?(.+)$/s.exec(text);
  if (unix?.[1] !== undefined) {
    return { kind: "unix", path: unix[1] };
  }
  const tcp = /^(tcp|tls):(?:\[([0-9A-Fa-f:.]+)\]|([^:/[\]\s]+)):(\d{1,5})$/.exec(text);
  const host = tcp?.[2] ?? tcp?.[3];
  const port = Number(tcp?.[4]);
  if (host === undefined || port < 1 || port > 65535) {
    throw new TypeError(`address ${JSON.stringify(text)} is not of the form ${FORMS}`);
  }
  return { kind: tcp?.[1] === "tls" ? "tls" : "tcp", host, port };
}

/** Whether what is sent there stays on this machine. */
export function isLocal(address: Address): boolean {
  return address.kind === "unix" || /^(localhost|127(\.\d{1,3}){3}|::1)$/i.test(address.host);
}

/** Hands out the token of the options. One in a file is read for every call: a server that starts makes a new one. */
export class TokenSource {
  readonly #token: string | undefined;
  readonly #file: string | undefined;
  readonly #dataDir: string | undefined;

  constructor({ token, tokenFile, dataDir }: Pick<ConnectOptions, "token" | "tokenFile" | "dataDir">) {
    if ([token, tokenFile, dataDir].filter((option) => option !== undefined).length > 1) {
      throw new TypeError("only one of token, tokenFile and dataDir can be given");
    }
    if (token !== undefined && !isToken(token)) {
      throw new TypeError(`token is not one: ${WORDS}`);
    }
    this.#token = token;
    this.#file = dataDir === undefined ? tokenFile : join(dataDir, "token");
    this.#dataDir = dataDir;
  }

  /** Whether there is a token to send. */
  get exists(): boolean {
    return this.#file !== undefined || this.#token !== undefined;
  }

  /** Where the token comes from, for people. */
  get origin(): string {
    return this.#file === undefined ? "the option `token`" : `the file ${this.#file}`;
  }

  /**
   * The token to send now. If it cannot be had, no call is made: throws an AccessError that names the file, or an
   * UnavailableError if no server runs on the data directory.
   */
  get(): string | undefined {
    if (this.#dataDir !== undefined) {
      checkRunning(this.#dataDir);
    }
    return this.#file === undefined ? this.#token : tokenIn(this.#file);
  }
}

/** When a server is dead, somebody else may listen on its port. */
function checkRunning(dataDir: string): void {
  const refuse = (why: string, cause?: unknown) =>
    new UnavailableError(`the token of ${dataDir} is not sent: ${why}`, { code: "UNAVAILABLE", cause });
  let runs: boolean;
  try {
    runs = isLocked(join(dataDir, "LOCK"));
  } catch (cause) {
    throw refuse("whether its server runs cannot be found out; name its token with tokenFile", cause);
  }
  if (!runs) {
    throw refuse(
      "it has no running server; one in another container cannot be seen, so name its token with tokenFile",
    );
  }
}

const WORDS = "it must be visible ASCII without spaces";

function isToken(text: string): boolean {
  return /^[\x21-\x7e]+$/.test(text);
}

function tokenIn(file: string): string {
  const refuse = (why: string, cause?: unknown) =>
    new AccessError(`the token file ${file} ${why}; the server was not asked`, {
      code: "UNAUTHENTICATED",
      cause,
    });
  let text: string;
  try {
    text = readFileSync(file, "utf8").trim();
  } catch (cause) {
    throw refuse(`cannot be read (${cause instanceof Error ? cause.message : String(cause)})`, cause);
  }
  if (!isToken(text)) {
    throw refuse(text === "" ? "is empty" : `does not hold a token: ${WORDS}`);
  }
  return text;
}

/** The server's data directory if nothing says otherwise. */
const DATA_DIR = "contexts";

/**
 * The options that the environment gives: CONTEXTSTORE_ADDRESS, CONTEXTSTORE_TOKEN, CONTEXTSTORE_TOKEN_FILE, and
 * CONTEXTSTORE_DATA_DIR for what the others leave open: its `contextstore.sock`, or else where its `addresses` say,
 * and its `token`, which is sent only while a server runs there. With an address `tls:HOST:PORT`, the files CONTEXTSTORE_CA_FILE, CONTEXTSTORE_CERT_FILE and
 * CONTEXTSTORE_KEY_FILE are those of `tls`.
 */
export function optionsFromEnv(env: NodeJS.ProcessEnv): ConnectOptions {
  const dataDir = env.CONTEXTSTORE_DATA_DIR || DATA_DIR;
  const address = env.CONTEXTSTORE_ADDRESS || addressIn(dataDir);
  const { kind } = parseAddress(address);
  const where = kind === "tls" ? { address, tls: tlsFromEnv(env) } : { address };
  if (env.CONTEXTSTORE_TOKEN) {
    return { ...where, token: env.CONTEXTSTORE_TOKEN };
  }
  if (env.CONTEXTSTORE_TOKEN_FILE) {
    return { ...where, tokenFile: env.CONTEXTSTORE_TOKEN_FILE };
  }
  return kind === "unix" ? where : { ...where, dataDir };
}

function tlsFromEnv(env: NodeJS.ProcessEnv): TlsOptions {
  const [ca, cert, key] = ["CA", "CERT", "KEY"].map((name) => {
    const file = env[`CONTEXTSTORE_${name}_FILE`];
    return file ? readFileSync(file) : undefined;
  });
  return { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) };
}

/**
 * Where the server of a data directory is: at its usual socket, also if it is not there yet, unless a server that
 * does not listen there has written down where it does.
 */
function addressIn(dataDir: string): string {
  const usual = join(dataDir, "contextstore.sock");
  const listed = existsSync(usual) ? [] : linesOf(join(dataDir, "addresses"));
  const first = (kind: string) => listed.find((line) => line.startsWith(kind));
  return first("unix:") ?? first("tcp:") ?? `unix:${usual}`;
}

function linesOf(file: string): string[] {
  try {
    return readFileSync(file, "utf8").split("\n");
  } catch {
    return [];
  }
}
