// What a client learns of its server when it needs it: how large a request may be, and which version it is.

import { InvalidRequestError } from "./errors.js";
import type { GetServerInfoResponse } from "./gen/contextstore/v1/context_store_pb.js";

/** No server refuses a request of this size. */
const ALWAYS_TAKEN_BYTES = 1 << 20;
/** What a request may have beside its message. */
const AROUND_BYTES = 1 << 20;
/** How long a question to the server may take: without an answer, it decides itself. */
const QUESTION_MS = 5_000;

/** Asks a server what it is. */
export type AskServer = (options: {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}) => Promise<GetServerInfoResponse>;

/** Knows a server as far as it was asked. */
export class ServerFacts {
  readonly #ask: AskServer;
  #messageBytes = 0;

  constructor(ask: AskServer) {
    this.#ask = ask;
  }

  /** Its version, or undefined if it does not say. */
  async version(): Promise<string | undefined> {
    return (await this.#info())?.version || undefined;
  }

  /** Throws what the server would answer to a request of so many bytes, if that is more than it takes. */
  async checkSize(size: number, method: string, signal?: AbortSignal): Promise<void> {
    if (size <= ALWAYS_TAKEN_BYTES || size <= this.#messageBytes + AROUND_BYTES) {
      return;
    }
    // Asked each time it is larger than what is known: a server may have been started with another limit.
    const limit = Number((await this.#info(signal))?.limits?.messageBytes ?? 0n);
    this.#messageBytes = limit;
    if (limit > 0 && size > limit + AROUND_BYTES) {
      throw new InvalidRequestError(
        `the request has ${size} bytes; at most ${limit} are allowed (limits.message_bytes)`,
        {
          code: "INVALID_ARGUMENT",
          reason: "TOO_LARGE",
          metadata: { size: String(size), limit: String(limit) },
          method,
        },
      );
    }
  }

  async #info(signal?: AbortSignal): Promise<GetServerInfoResponse | undefined> {
    try {
      return await this.#ask({ timeoutMs: QUESTION_MS, ...(signal && { signal }) });
    } catch {
      return undefined;
    }
  }
}

/** About the size of a message on the wire: that of its texts and bytes. */
export function sizeOf(value: unknown): number {
  if (typeof value === "string") {
    // Only of large texts is it worth while to count exactly.
    return value.length > ALWAYS_TAKEN_BYTES / 4 ? Buffer.byteLength(value) : value.length;
  }
  if (value instanceof Uint8Array) {
    return value.length;
  }
  if (typeof value !== "object" || value === null) {
    return 0;
  }
  return Object.values(value).reduce<number>((sum, inner) => sum + sizeOf(inner), 0);
}
