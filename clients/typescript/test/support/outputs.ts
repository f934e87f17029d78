// A service of tool outputs in this process, that keeps them in memory and can be told to fail: for what clients do then.

import { createHash } from "node:crypto";
import { once } from "node:events";
import { createSecureServer, createServer, type Http2SecureServer, type Http2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type HandlerContext } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import {
  ContextStore,
  GrepLineSchema,
  type GrepToolOutputRequest,
  GrepToolOutputResponseSchema,
  type PutToolOutputHeader,
  type PutToolOutputRequest,
  type ReadToolOutputRequest,
  ToolOutputRefSchema,
  ToolOutputs,
} from "../../src/proto.js";

/** A put that came to its end. */
interface Put {
  readonly header: PutToolOutputHeader;
  readonly data: Buffer;
}

const gone = () => new ConnectError("told to fail", Code.Unavailable);

/** The fake. */
export class FakeOutputs {
  readonly puts: Put[] = [];
  readonly messages: string[] = [];
  /** What every call carried as its token. */
  readonly tokens: (string | null)[] = [];
  /** How often the next calls fail: puts after so many bytes, reads and searches after so many answers. */
  failures: number[] = [];
  /** Takes puts and never answers. */
  isSilent = false;
  readonly #server: Http2Server | Http2SecureServer;

  private constructor(tls?: { key: string; cert: string }) {
    const handler = connectNodeAdapter({
      routes: (router) => {
        router.service(ToolOutputs, {
          putToolOutput: (requests, context) => this.#put(requests, context),
          readToolOutput: (request) => this.#read(request),
          grepToolOutput: (request) => this.#grep(request),
          statToolOutput: ({ refId }) => ({ output: { ref: this.#ref(refId), toolName: "test" } }),
          listToolOutputs: ({ pageToken, pageSize }) => this.#list(Number(pageToken || 0), pageSize || 100),
          trimToolOutputs: ({ budgetTokens }) => ({ trimmed: 1n, tokensAfter: budgetTokens ?? 7n }),
          collectGarbage: ({ minAge, dryRun }) => ({
            removed: minAge?.seconds ?? 0n,
            kept: dryRun ? 1n : 0n,
          }),
        });
        router.service(ContextStore, {
          recordToolCall: () => ({ seq: 1n }),
          appendMessage: ({ message }) => {
            this.messages.push(String(message?.body.value));
            return { seq: BigInt(this.messages.length) };
          },
        });
      },
    });
    this.#server = tls ? createSecureServer(tls, handler) : createServer(handler);
  }

  static async start(tls?: { key: string; cert: string }): Promise<FakeOutputs> {
    const fake = new FakeOutputs(tls);
    fake.#server.listen(0, "127.0.0.1");
    await once(fake.#server, "listening");
    return fake;
  }

  get address(): string {
    return `tcp:127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.close();
  }

  async #put(requests: AsyncIterable<PutToolOutputRequest>, context: HandlerContext) {
    this.tokens.push(context.requestHeader.get("authorization"));
    const failAfter = this.failures.shift() ?? Number.POSITIVE_INFINITY;
    let header: PutToolOutputHeader | undefined;
    const pieces: Uint8Array[] = [];
    let bytes = 0;
    for await (const { part } of requests) {
      if (part.case === "header") {
        header = part.value;
        pieces.push(...(part.value.content ? [part.value.content] : []));
      } else if (part.case === "data") {
        pieces.push(part.value);
      }
      bytes += part.case === "data" ? part.value.length : 0;
      if (bytes >= failAfter) {
        throw gone();
      }
    }
    if (this.isSilent) {
      await once(context.signal, "abort");
    }
    if (!header) {
      throw new ConnectError("no header", Code.InvalidArgument);
    }
    const data = Buffer.concat(pieces);
    const put = { header, data };
    this.puts.push(put);
    const view = data.subarray(0, 20).toString();
    const answer = { view, truncated: data.length > 20, seq: 7n, toolSeq: 3n, tokens: 5n };
    return { ...answer, ref: refOf(put), masked: [{ rule: "openai_key", count: 2n }] };
  }

  #found(refId: string): Put {
    const found = this.puts.find((put) => refOf(put).id === refId);
    if (!found) {
      throw new ConnectError("no such output", Code.NotFound);
    }
    return found;
  }

  #ref(refId: string) {
    return refOf(this.#found(refId));
  }

  async *#read({ refId, offset, limit, raw }: ReadToolOutputRequest) {
    const failAfter = this.failures.shift() ?? Number.POSITIVE_INFINITY;
    const { data } = this.#found(refId);
    const [from, to] = [Number(offset), limit ? Number(offset + limit) : undefined];
    const lines = linesOf(data).map((line, at) => `${String(at + 1).padStart(6)}\t${line}\n`);
    const text = raw ? data.subarray(from, to) : Buffer.from(lines.slice(from, to).join(""));
    // Chunks end anywhere.
    for (let at = 0, sent = 0; at < text.length; at += 7, sent += 1) {
      if (sent >= failAfter) {
        throw gone();
      }
      yield { data: new Uint8Array(text.subarray(at, at + 7)), position: 0n };
    }
  }

  async *#grep({ refId, pattern, ignoreCase, maxMatches }: GrepToolOutputRequest) {
    const failAfter = this.failures.shift() ?? Number.POSITIVE_INFINITY;
    if (pattern === "(") {
      throw new ConnectError("the pattern cannot be compiled", Code.InvalidArgument);
    }
    const searched = refId === "" ? this.puts.map((put) => refOf(put).id) : [refId];
    const regex = new RegExp(pattern, ignoreCase ? "i" : "");
    const all = searched.flatMap((id) =>
      linesOf(this.#found(id).data).flatMap((text, at) =>
        regex.test(text)
          ? [{ refId: id, lineNumber: BigInt(at + 1), text, isMatch: true, gapBefore: at > 0 }]
          : [],
      ),
    );
    const found = maxMatches ? all.slice(0, Number(maxMatches)) : all;
    for (const [sent, line] of found.entries()) {
      if (sent >= failAfter) {
        throw gone();
      }
      yield create(GrepToolOutputResponseSchema, { lines: [create(GrepLineSchema, line)] });
    }
    const matches = BigInt(found.length);
    yield create(GrepToolOutputResponseSchema, { matches, limited: found.length < all.length });
  }

  #list(from: number, size: number) {
    const outputs = this.puts.slice(from, from + size).map((put) => ({ ref: refOf(put) }));
    return { outputs, nextPageToken: from + size < this.puts.length ? String(from + size) : "" };
  }
}

function linesOf(data: Buffer): string[] {
  const lines = data.toString().split("\n");
  return lines.at(-1) === "" ? lines.slice(0, -1) : lines;
}

function refOf({ data }: Put) {
  const id = `out-${createHash("sha256").update(data).digest("hex").slice(0, 32)}`;
  return create(ToolOutputRefSchema, {
    id,
    byteSize: BigInt(data.length),
    lineCount: BigInt(linesOf(data).length),
  });
}
