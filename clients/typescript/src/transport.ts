// The connection: gRPC over HTTP/2, on a Unix socket or on TCP with the token, in clear text or by TLS.

import { constants } from "node:http2";
import { connect as connectSocket } from "node:net";
import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { type ConnectOptions, isLocal, parseAddress, TokenSource } from "./address.js";
import { AccessError, ContextStoreError, noteTried, type Tried, toError } from "./errors.js";

/** Measured: larger frames make large reads a third faster; the window has room for a few of them. */
const SETTINGS = { maxFrameSize: 256 << 10, initialWindowSize: 1 << 20 };

/** A transport, and the way to end it. */
export interface Connection {
  readonly transport: Transport;
  /** Ends the connection and every call on it. */
  close(): void;
}

/** Prepares a connection; the first call opens it. */
export function openConnection(options: ConnectOptions): Connection {
  const address = parseAddress(options.address);
  const token = new TokenSource(options);
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
  const sessionManager = new Http2SessionManager(
    baseUrl,
    // Tells a reader that waits for events that the server is gone without a word.
    { pingIntervalMs: 30_000, pingTimeoutMs: 10_000 },
    address.kind === "unix"
      ? { settings: SETTINGS, createConnection: () => connectSocket(address.path) }
      : { settings: SETTINGS, ...secured(options.tls) },
  );
  cancelForReal(sessionManager);
  const interceptors = [naming(options.address), ...(token.exists ? [authorize(token)] : [])];
  return {
    transport: createGrpcTransport({ baseUrl, sessionManager, interceptors }),
    close: () => {
      sessionManager.abort();
    },
  };
}

/**
 * Has a call that is cancelled never look like one that was ended. Node closes its side of a stream in order before it resets
 * it: a server then takes the half of an output for the whole. Without its last step, only the reset is sent.
 */
function cancelForReal(manager: Http2SessionManager): void {
  const request = manager.request.bind(manager);
  manager.request = async (...args) => {
    const stream = await request(...args);
    const close = stream.close.bind(stream);
    stream.close = (code, onClosed) => {
      if (code !== undefined && code !== constants.NGHTTP2_NO_ERROR && !stream.writableEnded) {
        stream._final = (done) => {
          done();
        };
      }
      close(code, onClosed);
    };
    return stream;
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

/** Has every error know which method was called, and where. */
function naming(address: string): Interceptor {
  return (next) => async (request) => {
    const tried = { method: request.method.name, address };
    try {
      const response = await next(request);
      return response.stream ? { ...response, message: named(response.message, tried) } : response;
    } catch (thrown) {
      throw noteTried(thrown, tried);
    }
  };
}

async function* named<T>(messages: AsyncIterable<T>, tried: Tried): AsyncGenerator<T, void, undefined> {
  try {
    yield* messages;
  } catch (thrown) {
    throw noteTried(thrown, tried);
  }
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
      );
    }
  };
}

function tokenOf(token: TokenSource): string {
  try {
    return token.get() ?? "";
  } catch (thrown) {
    throw thrown instanceof ContextStoreError ? wrapped(thrown) : thrown;
  }
}

/** As one of the transport's, with its code, for those who call `rpc`; `toError` takes it out again. */
function wrapped(error: ContextStoreError): ConnectError {
  const code = error.code === "UNAVAILABLE" ? Code.Unavailable : Code.Unauthenticated;
  return new ConnectError(error.message, code, undefined, undefined, error);
}
