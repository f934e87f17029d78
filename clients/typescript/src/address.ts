// Where the server is and how a caller shows who it is: addresses, tokens, the environment. Opens no connection.

import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { checkFields, checkKind, checkNames } from "./check.js";
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
  /**
   * `unix:/path/of/contextstore.sock`, `tcp:127.0.0.1:PORT`, or `tls:HOST:PORT`, which is TCP with `tls`. The path of a socket is taken
   * as it stands; a relative one is relative to the working directory.
   */
  readonly address: string;
  /** Encrypts the connection: only over TCP. `true`, as with `tls:HOST:PORT`: with a certificate that Node trusts. */
  readonly tls?: boolean | TlsOptions;
  /** The token for TCP. The Unix socket needs none. */
  readonly token?: string;
  /** A file with the token: read for every call, as every start of the server makes a new token. */
  readonly tokenFile?: string;
  /**
   * The data directory of a server on this machine: the token is its own, and is sent only while a server holds the directory
   * and has written down that it listens at the address. A server in another container cannot be seen to hold it: name `tokenFile`.
   */
  readonly dataDir?: string;
  /** How long a call may take, or a stream may be silent. Default: 30 s. */
  readonly timeoutMs?: number;
  /** How long a call that failed in passing is tried again, within its time. 0: not at all. Default: 10 s. */
  readonly retryForMs?: number;
  /** How long `close` waits for messages that are on their way. Default: 10 s. */
  readonly closeTimeoutMs?: number;
  /** Who holds the tasks this client starts. Default: random. Give one to take them up after a restart at once. */
  readonly instanceId?: string;
}

/** Throws a TypeError, which names the field, if the options are not those there are. */
export function checkConnectOptions(options: ConnectOptions): void {
  checkFields("options", options, {
    address: "text",
    tls: "any",
    token: "text",
    tokenFile: "text",
    dataDir: "text",
    timeoutMs: "any",
    retryForMs: "any",
    closeTimeoutMs: "any",
    instanceId: "text",
  });
  checkKind("options.address", options.address, "text");
  if (typeof options.tls === "object") {
    checkNames("options.tls", options.tls, ["ca", "cert", "key", "serverName"]);
  } else if (options.tls !== undefined) {
    checkKind("options.tls", options.tls, "flag");
  }
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
  readonly #address: Address;

  constructor(
    { token, tokenFile, dataDir }: Pick<ConnectOptions, "token" | "tokenFile" | "dataDir">,
    address: Address,
  ) {
    if ([token, tokenFile, dataDir].filter((option) => option !== undefined).length > 1) {
      throw new TypeError("only one of token, tokenFile and dataDir can be given");
    }
    if (dataDir !== undefined && address.kind === "tls") {
      throw new TypeError(
        "dataDir is for a server that is reached directly; over TLS, name its token with tokenFile",
      );
    }
    const text = token === undefined ? undefined : withoutNewline(token);
    if (text !== undefined && !isToken(text)) {
      throw new TypeError(`token is not one: ${WORDS}`);
    }
    this.#address = address;
    this.#token = text;
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
   * UnavailableError if no server holds the data directory and listens at the address.
   */
  get(): string | undefined {
    if (this.#dataDir !== undefined) {
      checkHolder(this.#dataDir, this.#address);
    }
    return this.#file === undefined ? this.#token : tokenIn(this.#file);
  }
}

/** When a server is dead, somebody else may listen on its port: such a one gets no token. */
function checkHolder(dataDir: string, address: Address): void {
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
  if (address.kind === "tcp" && !listed(dataDir).some((line) => isAt(line, address))) {
    throw refuse(
      `its server does not listen at ${address.host}:${address.port}; ${join(dataDir, "addresses")} says where it does`,
    );
  }
}

/** Whether a line of `addresses` is of a server that answers at an address of TCP. */
function isAt(line: string, { host, port }: Extract<Address, { host: string }>): boolean {
  const [, listedHost, listedPort] = /^tcp:\[?(.*?)\]?:(\d+)$/.exec(line) ?? [];
  if (listedHost === undefined || Number(listedPort) !== port) {
    return false;
  }
  const isLocalhost = host.toLowerCase() === "localhost";
  const isAny = listedHost === "0.0.0.0" || listedHost === "::";
  return (
    listedHost === host || isAny || (isLocalhost && (listedHost === "::1" || listedHost.startsWith("127.")))
  );
}

const WORDS = "it must be visible ASCII without spaces; only a newline at its end is removed";

function withoutNewline(text: string): string {
  return text.replace(/\r?\n$/, "");
}

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
    text = withoutNewline(readFileSync(file, "utf8"));
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
/** The socket of a server in its data directory. */
const SOCKET = "contextstore.sock";

/**
 * The options that the environment gives: CONTEXTSTORE_ADDRESS, CONTEXTSTORE_TOKEN, CONTEXTSTORE_TOKEN_FILE, and
 * CONTEXTSTORE_DATA_DIR for what the others leave open: its `contextstore.sock`, or else where its `addresses` say, and its
 * `token`, which is sent only to its own server. If there is an address and no data directory is named, no token is looked for; nor is
 * it for an address `tls:HOST:PORT`, whose `tls` has the files CONTEXTSTORE_CA_FILE, CONTEXTSTORE_CERT_FILE and CONTEXTSTORE_KEY_FILE.
 */
export function optionsFromEnv(env: NodeJS.ProcessEnv): ConnectOptions {
  const named = env.CONTEXTSTORE_DATA_DIR || undefined;
  const dataDir = named ?? DATA_DIR;
  const address = env.CONTEXTSTORE_ADDRESS || addressIn(dataDir);
  const { kind } = parseAddress(address);
  const where = kind === "tls" ? { address, tls: tlsFromEnv(env) } : { address };
  if (env.CONTEXTSTORE_TOKEN) {
    return { ...where, token: env.CONTEXTSTORE_TOKEN };
  }
  if (env.CONTEXTSTORE_TOKEN_FILE) {
    return { ...where, tokenFile: env.CONTEXTSTORE_TOKEN_FILE };
  }
  const isOfDirectory = named !== undefined || !env.CONTEXTSTORE_ADDRESS;
  return kind === "tcp" && isOfDirectory ? { ...where, dataDir } : where;
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
export function addressIn(dataDir: string): string {
  const usual = join(dataDir, SOCKET);
  const lines = existsSync(usual) ? [] : listed(dataDir);
  const first = (kind: string) => lines.find((line) => line.startsWith(kind));
  return first("unix:") ?? first("tcp:") ?? `unix:${usual}`;
}

/** Where the server of a data directory has written down that it listens. */
function listed(dataDir: string): string[] {
  try {
    return readFileSync(join(dataDir, "addresses"), "utf8").split("\n");
  } catch {
    return [];
  }
}

/** What to do when no server listens at an address. */
export function howToStart(address: string): string {
  const parsed = parseAddress(address);
  const isUsual = parsed.kind === "unix" && basename(parsed.path) === SOCKET;
  const dataDir = isUsual ? dirname(parsed.path) : "DATA_DIR";
  const where = isUsual ? "" : ` --listen ${parsed.kind === "tls" ? "tcp:HOST:PORT" : shown(address)}`;
  return (
    `Start one with \`contextstore serve --data-dir ${shown(dataDir)}${where}\`, let connectOrSpawn(dataDir) or spawn() start it, ` +
    "or say where one is: CONTEXTSTORE_ADDRESS or CONTEXTSTORE_DATA_DIR for fromEnv(), `address` for connect()"
  );
}

/** As a shell takes it. */
function shown(text: string): string {
  return /^[\w@%+=:,./[\]-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
