// The connection: gRPC over HTTP/2, on a Unix socket or on TCP with the token, in clear text or by TLS.

import { type ClientHttp2Stream, constants } from "node:http2";
import { connect as connectSocket } from "node:net";
import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { type ConnectOptions, howToStart, isLocal, parseAddress, TokenSource } from "./address.js";
import {
  AccessError,
  ContextStoreError,
  noteTried,
  type Tried,
  toError,
  UnavailableError,
  UnsupportedByServerError,
} from "./errors.js";
import { ServerFacts, sizeOf } from "./facts.js";
import { ContextStore } from "./gen/contextstore/v1/context_store_pb.js";

/** Measured: larger frames make large reads a third faster; the window has room for a few of them. */
const SETTINGS = { maxFrameSize: 256 << 10, initialWindowSize: 1 << 20 };
/**
 * Megabytes that Node lets one connection have in its queues. With its own 10 a large message is never sent whole; and what
 * calls that were cancelled had there, it counts for ever.
 */
const SESSION_MEMORY_MB = 1_000;
/** Errors that say that nothing listens at an address. */
const NOT_THERE = ["ENOENT", "ECONNREFUSED", "ENOTDIR", "ENOTSOCK"];

/** A transport, and the way to end it. */
export interface Connection {
  readonly transport: Transport;
  /** What is known of the server. */
  readonly facts: ServerFacts;
  /** Ends the connection and every call on it. */
  close(): void;
}

/** Prepares a connection; the first call opens it. */
export function openConnection(options: ConnectOptions, maxSessionMemory = SESSION_MEMORY_MB): Connection {
  const address = parseAddress(options.address);
  const token = new TokenSource(options, address);
  const isSecure = address.kind === "tls" || (options.tls !== undefined && options.tls !== false);
  if (isSecure && address.kind === "unix") {
    throw new TypeError(`tls is for TCP; ${options.address} is a socket of this machine`);
  }
  if (token.exists && !isSecure && !isLocal(address)) {
    throw new TypeError(`the token would cross the network in clear text to ${options.address}; use tls`);
  }
  // A path is no authority: over a Unix socket the server is always `localhost`.
  const host = address.kind === "unix" ? "localhost" : `${bracketed(address.host)}:${address.port}`;
  const baseUrl = `${isSecure ? "https" : "http"}://${host}`;
  const session = { settings: SETTINGS, maxSessionMemory };
  const sessionManager = new Http2SessionManager(
    baseUrl,
    {
      // Tells a reader that waits for events that the server is gone without a word.
      pingIntervalMs: 30_000,
      pingTimeoutMs: 10_000,
      // A server that stops when nobody is connected would take an idle client for none.
      idleConnectionTimeoutMs: Number.POSITIVE_INFINITY,
    },
    address.kind === "unix"
      ? { ...session, createConnection: () => connectSocket(address.path) }
      : { ...session, ...secured(options.tls) },
  );
  const state: State = { address: options.address, isReached: false };
  watchOver(sessionManager, state);
  const access = token.exists ? [authorize(token)] : [];
  const plain = createGrpcTransport({ baseUrl, sessionManager, interceptors: access });
  const facts = new ServerFacts(async ({ timeoutMs, signal }) => {
    const { message } = await plain.unary(
      ContextStore.method.getServerInfo,
      signal,
      timeoutMs,
      undefined,
      {},
    );
    return message;
  });
  const interceptors = [naming(state, facts), sized(facts), ...access];
  return {
    transport: createGrpcTransport({ baseUrl, sessionManager, interceptors }),
    facts,
    close: () => {
      sessionManager.abort();
    },
  };
}

/** A connection, as its calls know it. */
interface State {
  readonly address: string;
  /** Whether there ever was a server. */
  isReached: boolean;
}

/** Looks after every stream of a connection. */
function watchOver(manager: Http2SessionManager, state: State): void {
  const request = manager.request.bind(manager);
  const heard = new WeakSet();
  manager.request = async (...args) => {
    const stream = await request(...args);
    state.isReached = true;
    cancelForReal(stream);
    const { session } = stream;
    if (session && !heard.has(session)) {
      heard.add(session);
      // The manager stops listening to a connection that it replaces: what goes wrong there later would end the program.
      session.on("error", () => undefined);
    }
    stream.once("close", () => {
      if (stream.rstCode === constants.NGHTTP2_ENHANCE_YOUR_CALM) {
        // The connection takes no more streams: those it has go on, and the next one opens another connection.
        session?.close();
      }
    });
    return stream;
  };
}

/**
 * Has a call that is cancelled never look like one that was ended. Node closes its side of a stream in order before it resets
 * it: a server then takes the half of an output for the whole. Without its last step, only the reset is sent.
 */
function cancelForReal(stream: ClientHttp2Stream): void {
  const close = stream.close.bind(stream);
  stream.close = (code, onClosed) => {
    if (code !== undefined && code !== constants.NGHTTP2_NO_ERROR && !stream.writableEnded) {
      stream._final = (done) => {
        done();
      };
    }
    close(code, onClosed);
  };
}

function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

function secured(tls: ConnectOptions["tls"]) {
  if (typeof tls !== "object") {
    return {};
  }
  const { ca, cert, key, serverName } = tls;
  return {
    ...(ca !== undefined && { ca: pem(ca) }),
    ...(cert !== undefined && { cert: pem(cert) }),
    ...(key !== undefined && { key: pem(key) }),
    ...(serverName !== undefined && { servername: serverName }),
  };
}

function pem(text: string | Uint8Array): string {
  return typeof text === "string" ? text : Buffer.from(text).toString();
}

/** Has every error know which method was called, and where; and what to do if there is no server, or an old one. */
function naming(state: State, facts: ServerFacts): Interceptor {
  return (next) => async (request) => {
    const tried = { method: request.method.name, address: state.address };
    try {
      const response = await next(request);
      return response.stream ? { ...response, message: named(response.message, tried, facts) } : response;
    } catch (thrown) {
      throw state.isReached ? await explained(thrown, tried, facts) : withAdvice(thrown, tried);
    }
  };
}

async function* named<T>(
  messages: AsyncIterable<T>,
  tried: Tried,
  facts: ServerFacts,
): AsyncGenerator<T, void, undefined> {
  try {
    yield* messages;
  } catch (thrown) {
    throw await explained(thrown, tried, facts);
  }
}

/** The error, with what was tried; of a method that the server does not have, with its version. */
async function explained(thrown: unknown, tried: Tried, facts: ServerFacts): Promise<unknown> {
  const error = ConnectError.from(thrown, Code.Internal);
  if (error.code !== Code.Unimplemented || error.cause instanceof ContextStoreError) {
    return noteTried(thrown, tried);
  }
  const serverVersion = tried.method === "GetServerInfo" ? undefined : await facts.version();
  const version = serverVersion === undefined ? "of an unknown version" : `of version ${serverVersion}`;
  const message = `${tried.method}: the server at ${tried.address}, ${version}, has no such method: upgrade the server`;
  const details = { code: "UNIMPLEMENTED", cause: thrown, serverVersion, ...tried } as const;
  return wrapped(new UnsupportedByServerError(message, details), Code.Unimplemented);
}

/** The error; if nothing listens where nothing was reached before, with advice, and not to be tried again. */
function withAdvice(thrown: unknown, tried: Tried): unknown {
  const code = connectCodeOf(thrown);
  if (code === undefined || !NOT_THERE.includes(code)) {
    return noteTried(thrown, tried);
  }
  const message = `${tried.method}: no server listens at ${tried.address} (${code}). ${howToStart(tried.address)}`;
  const details = { code: "UNAVAILABLE", reason: "NO_SERVER", cause: thrown, ...tried } as const;
  return wrapped(new UnavailableError(message, details), Code.Unavailable);
}

/** Why a socket could not be connected, as the code of the system, if that is what is behind an error. */
function connectCodeOf(thrown: unknown): string | undefined {
  for (let error = thrown; error instanceof Error; error = error.cause) {
    // The first of several addresses stands for all.
    const inner: unknown = error instanceof AggregateError ? error.errors[0] : error;
    if (inner instanceof Error && "syscall" in inner && inner.syscall === "connect" && "code" in inner) {
      return String(inner.code);
    }
  }
  return undefined;
}

/** Refuses what the server would refuse for its size, before it is sent. */
function sized(facts: ServerFacts): Interceptor {
  return (next) => async (request) => {
    const { signal } = request;
    const check = async (message: unknown) => {
      try {
        await facts.checkSize(sizeOf(message), request.method.name, signal);
      } catch (thrown) {
        throw thrown instanceof ContextStoreError ? wrapped(thrown, Code.InvalidArgument) : thrown;
      }
    };
    if (!request.stream) {
      await check(request.message);
      return await next(request);
    }
    async function* checked<T>(messages: AsyncIterable<T>): AsyncGenerator<T, void, undefined> {
      for await (const message of messages) {
        await check(message);
        yield message;
      }
    }
    return await next({ ...request, message: checked(request.message) });
  };
}

/** Health is open to everybody, so it is asked for without a token: the file may not be there yet. */
function authorize(token: TokenSource): Interceptor {
  return (next) => async (request) => {
    if (request.service.typeName === "grpc.health.v1.Health") {
      return await next(request);
    }
    request.header.set("authorization", `Bearer ${tokenOf(token)}`);
    try {
      return await next(request);
    } catch (thrown) {
      if (ConnectError.from(thrown).code !== Code.Unauthenticated) {
        throw thrown;
      }
      const { message, metadata, reason, retryAfterMs } = toError(thrown);
      const details = { code: "UNAUTHENTICATED", cause: thrown, metadata } as const;
      throw wrapped(
        new AccessError(`${message} (the token is that of ${token.origin})`, {
          ...details,
          ...(reason !== undefined && { reason }),
          ...(retryAfterMs !== undefined && { retryAfterMs }),
        }),
        Code.Unauthenticated,
      );
    }
  };
}

function tokenOf(token: TokenSource): string {
  try {
    return token.get() ?? "";
  } catch (thrown) {
    const code = thrown instanceof UnavailableError ? Code.Unavailable : Code.Unauthenticated;
    throw thrown instanceof ContextStoreError ? wrapped(thrown, code) : thrown;
  }
}

/** As one of the transport's, with its code, for those who call `rpc`; `toError` takes it out again. */
function wrapped(error: ContextStoreError, code: Code): ConnectError {
  return new ConnectError(error.message, code, undefined, undefined, error);
}
