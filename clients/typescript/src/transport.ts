// The connection: gRPC over HTTP/2, on a Unix socket or on TCP with the token.

import { connect as connectSocket } from "node:net";
import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { type ConnectOptions, isLocal, parseAddress, TokenSource } from "./address.js";

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
  if (token.exists && !isLocal(address)) {
    throw new TypeError(`the token would cross the network in clear text to ${options.address}`);
  }
  // A path is no authority: over a Unix socket the server is always `localhost`.
  const host = address.kind === "unix" ? "localhost" : `${bracketed(address.host)}:${address.port}`;
  const baseUrl = `http://${host}`;
  const sessionManager = new Http2SessionManager(
    baseUrl,
    // Tells a reader that waits for events that the server is gone without a word.
    { pingIntervalMs: 30_000, pingTimeoutMs: 10_000 },
    address.kind === "unix"
      ? { settings: SETTINGS, createConnection: () => connectSocket(address.path) }
      : { settings: SETTINGS },
  );
  const interceptors = token.exists ? [authorize(token)] : [];
  return {
    transport: createGrpcTransport({ baseUrl, sessionManager, interceptors }),
    close: () => sessionManager.abort(),
  };
}

function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

/** Health is open to everybody, so it is asked for without a token: the file may not be there yet. */
function authorize(token: TokenSource): Interceptor {
  return (next) => async (request) => {
    if (request.service.typeName !== "grpc.health.v1.Health") {
      request.header.set("authorization", `Bearer ${token.get()}`);
    }
    try {
      return await next(request);
    } catch (thrown) {
      if (ConnectError.from(thrown).code === Code.Unauthenticated) {
        token.refused();
      }
      throw thrown;
    }
  };
}
