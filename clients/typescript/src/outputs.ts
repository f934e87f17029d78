// The outputs of one task's tools: kept whole on disk, shown to the model in part, read and searched by their refs.

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { CALL_FIELDS, type CallOptions, MUTATION_FIELDS, type MutationOptions } from "./calls.js";
import { checkFields, checkKind, type Fields } from "./check.js";
import type { TaskCore } from "./core.js";
import { ContextStoreError, DeadlineError, toError, UnavailableError } from "./errors.js";
import type { MaskedSecrets, Pressure } from "./gen/contextstore/v1/message_pb.js";
import {
  type PutToolOutputHeaderSchema,
  type PutToolOutputRequest,
  PutToolOutputRequestSchema,
  type PutToolOutputResponse,
  type ToolOutput,
  type ToolOutputRef,
} from "./gen/contextstore/v1/tool_outputs_pb.js";
import { type GrepOptions, Matches } from "./grep.js";
import { toJson } from "./json.js";
import { ByteStream } from "./streams.js";
import { type OutputContent, Upload } from "./upload.js";
import { type Count, outcomeInit, toCount } from "./values.js";

/** The tool call that an output is recorded with. */
export interface OutputRecordInput {
  /** What the tool was called with: anything JSON has. */
  readonly arguments?: unknown;
  /** Why it failed. With it the status is `error`. */
  readonly error?: string;
  readonly durationMs?: Count;
}

/** What an output is, and what is to be done with it. */
export interface PutOptions extends MutationOptions {
  /** The tool that it comes from. Required with `append` and `record`. */
  readonly toolName?: string;
  /** The call that it answers. Required with `append`. */
  readonly toolCallId?: string;
  /** Default: `text/plain` if it is text, else `application/octet-stream`. */
  readonly mediaType?: string;
  /** Appends the tool message with the view and the ref. */
  readonly append?: boolean;
  /** Records the tool call. */
  readonly record?: boolean | OutputRecordInput;
  /** Longest line of the view, in characters. Default: as configured. */
  readonly maxLineLength?: number;
  /** Largest view, in bytes. Default: as configured. */
  readonly maxMessageBytes?: Count;
  /** Bytes of the view that show the end of the output; at most half of it. Default: as configured. */
  readonly tailBytes?: Count;
  /** Shows a small image or document as a content part instead of a placeholder. */
  readonly asParts?: boolean;
}

const RECORD_FIELDS = {
  arguments: "any",
  error: "text",
  durationMs: "any",
} as const satisfies Fields<OutputRecordInput>;
const PUT_FIELDS = {
  ...MUTATION_FIELDS,
  toolName: "text",
  toolCallId: "text",
  mediaType: "text",
  append: "flag",
  record: "any",
  maxLineLength: "number",
  maxMessageBytes: "any",
  tailBytes: "any",
  asParts: "flag",
} as const satisfies Fields<PutOptions>;

/** An output that is on disk. */
export interface StoredOutput {
  /** Names it within its task: `out-…`. */
  readonly refId: string;
  /** Its size, its lines, its type and its hash. */
  readonly ref: ToolOutputRef;
  /** What the model is to be shown: the content of the tool message; text, or content parts with `asParts`. */
  readonly view: string | readonly unknown[];
  /** Whether the view leaves something out. */
  readonly truncated: boolean;
  /** With `append`: the number of the message. */
  readonly seq: bigint | undefined;
  /** With `record`: the number of the record. */
  readonly toolSeq: bigint | undefined;
  /** Tokens of the message, or of the view. */
  readonly tokens: bigint;
  /** Whether a call with the same request id had done it before. */
  readonly duplicate: boolean;
  /** With `append`: how full the context is. */
  readonly pressure: Pressure | undefined;
  /** What was masked in it before it was written. */
  readonly masked: readonly MaskedSecrets[];
}

/** Which part of an output to read. */
export interface ReadOptions extends CallOptions {
  /** Lines to skip, or bytes with `raw`. */
  readonly offset?: Count;
  /** Most lines, or bytes with `raw`. Default: all that follow. */
  readonly limit?: Count;
  /** The bytes as they are, instead of numbered lines. */
  readonly raw?: boolean;
  /** Longest line, in characters. Default: as it is. */
  readonly maxLineLength?: number;
}

const READ_FIELDS = {
  ...CALL_FIELDS,
  offset: "any",
  limit: "any",
  raw: "flag",
  maxLineLength: "number",
} as const satisfies Fields<ReadOptions>;

/**
 * The outputs of a task's tools, as `task.output`.
 *
 * @example
 * ```ts
 * const { refId, view } = await task.output.put(hugeLog, { toolName: "test", toolCallId: call.id, append: true });
 * console.log(await task.output.read(refId, { offset: 1000, limit: 20 }).text());
 * for await (const line of task.output.grep("FAILED", { refId, after: 3 })) console.log(line.lineNumber, line.text);
 * ```
 */
export class Outputs {
  readonly #core: TaskCore;

  /** @internal */
  constructor(core: TaskCore) {
    this.#core = core;
  }

  /**
   * Stores an output of any size, text or binary: it is on disk when this returns. With `append` the tool message with a cut
   * view of it is appended, with `record` the tool call is recorded. The same content twice is stored once. A broken
   * connection is taken up again if the content can be sent again; see `OutputContent`.
   */
  async put(content: OutputContent, options: PutOptions = {}): Promise<StoredOutput> {
    checkFields("options", options, PUT_FIELDS);
    const core = this.#core;
    const upload = new Upload(content);
    const fields = headerFields(options);
    const silenceMs = options.timeoutMs ?? core.wire.caller.timeoutMs;
    const source = new Source(upload, silenceMs);
    // A stream takes as long as what it comes from; only the server may not be silent.
    const call = upload.whole ? options : { ...options, timeoutMs: Number.POSITIVE_INFINITY };
    const put = core.change(
      call,
      async (target, { signal, ...attempt }) => {
        const watched = { ...attempt, signal: AbortSignal.any([signal, source.ended]) };
        try {
          return await core.wire.outputs.putToolOutput(source.requests({ ...target, ...fields }), watched);
        } catch (thrown) {
          if (source.late) {
            throw source.late;
          }
          // What broke behind the point of no return is not tried again.
          throw upload.isRepeatable && !source.failure ? thrown : cannotRepeat(thrown);
        } finally {
          source.close();
        }
      },
      { more: Object.keys(PUT_FIELDS) },
    );
    const answer = await put.catch((thrown: unknown): never => {
      // What the content threw is the caller's own error.
      throw source.failure ? source.failure.thrown : thrown;
    });
    return storedOf(answer, options);
  }

  /**
   * Lines of an output, numbered as tools that read files print them, or its bytes with `raw`. Nothing is asked for
   * before it is read: `await task.output.read(ref, { limit: 100 }).text()`. A broken connection is taken up again.
   */
  read(refId: string, options: ReadOptions = {}): ByteStream {
    checkFields("options", options, READ_FIELDS);
    const request = {
      taskUuid: this.#core.uuid,
      refId,
      offset: toCount("offset", options.offset),
      limit: toCount("limit", options.limit),
      raw: options.raw ?? false,
      maxLineLength: options.maxLineLength ?? 0,
    };
    return new ByteStream(() => this.#core.reading(options, () => this.#read(request, options)));
  }

  async *#read(request: ReadRequest, options: ReadOptions): AsyncGenerator<Uint8Array, void, undefined> {
    const { caller, outputs } = this.#core.wire;
    // How far it was read: whole lines, and bytes behind them; with `raw` only bytes count.
    let lines = 0n;
    let bytes = 0;
    yield* caller.resuming(options, async function* rest() {
      const done = request.raw ? BigInt(bytes) : lines;
      if (request.limit > 0n && done >= request.limit) {
        return;
      }
      const more = {
        ...request,
        offset: request.offset + done,
        limit: request.limit && request.limit - done,
      };
      let skip = request.raw ? 0 : bytes;
      for await (const { data } of caller.stream(options, (at) => outputs.readToolOutput(more, at))) {
        const fresh = data.subarray(Math.min(skip, data.length));
        skip -= data.length - fresh.length;
        if (fresh.length === 0) {
          continue;
        }
        if (request.raw) {
          bytes += fresh.length;
        } else {
          const ends = newlines(fresh);
          lines += BigInt(ends.count);
          bytes = ends.count > 0 ? fresh.length - ends.last - 1 : bytes + fresh.length;
        }
        yield fresh;
      }
    });
  }

  /**
   * Lines that match a regular expression, as ripgrep takes it, with lines around them: of one output (`refId`) or of all.
   * A `RegExp` lends its source and its flag `i`.
   */
  grep(pattern: string | RegExp, options: GrepOptions = {}): Matches {
    return new Matches(this.#core, pattern, options);
  }

  /** What is known of an output. */
  async stat(refId: string, options: CallOptions = {}): Promise<ToolOutput> {
    const { uuid: taskUuid, wire } = this.#core;
    const { output } = await this.#core.read(options, (attempt) =>
      wire.outputs.statToolOutput({ taskUuid, refId }, attempt),
    );
    if (!output) {
      throw new ContextStoreError(`the server answered nothing about ${refId}`, { code: "INTERNAL" });
    }
    return output;
  }

  /** The outputs of the task, by their refs, page by page. */
  async *list(
    options: CallOptions & { pageSize?: number } = {},
  ): AsyncGenerator<ToolOutput, void, undefined> {
    const { uuid: taskUuid, wire } = this.#core;
    let pageToken = "";
    do {
      const request = { taskUuid, pageSize: options.pageSize ?? 0, pageToken };
      const page = await this.#core.read(
        options,
        (attempt) => wire.outputs.listToolOutputs(request, attempt),
        ["pageSize"],
      );
      yield* page.outputs;
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
  }
}

interface ReadRequest {
  readonly taskUuid: string;
  readonly refId: string;
  readonly offset: bigint;
  readonly limit: bigint;
  readonly raw: boolean;
  readonly maxLineLength: number;
}

/** The requests of each attempt to put one output. Knows what the content itself threw, and when the server is silent. */
class Source {
  failure: { readonly thrown: unknown } | undefined;
  readonly #upload: Upload;
  readonly #silenceMs: number;
  readonly #ended = new AbortController();
  #late: DeadlineError | undefined;
  #data: AsyncIterator<Uint8Array> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(upload: Upload, silenceMs: number) {
    this.#upload = upload;
    this.#silenceMs = silenceMs;
  }

  /** Fires when there is no more to be sent although it is not the end. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** The server has taken nothing, or has not answered, for too long. */
  get late(): DeadlineError | undefined {
    return this.#late;
  }

  async *requests(
    header: MessageInitShape<typeof PutToolOutputHeaderSchema>,
  ): AsyncGenerator<PutToolOutputRequest, void, undefined> {
    const { whole } = this.#upload;
    const value = { ...header, ...(whole && { content: whole }) };
    this.#watch();
    yield create(PutToolOutputRequestSchema, { part: { case: "header", value } });
    const data = whole ? undefined : this.#upload.data()[Symbol.asyncIterator]();
    this.#data = data;
    while (data) {
      this.stop();
      const next = await this.#pull(data);
      this.#watch();
      if (next.done) {
        break;
      }
      yield create(PutToolOutputRequestSchema, { part: { case: "data", value: next.value } });
    }
  }

  /** The server's turn is over. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  /** An attempt is over: what it has opened is closed, without waiting for it. */
  close(): void {
    this.stop();
    this.#data?.return?.().catch(() => undefined);
  }

  async #pull(data: AsyncIterator<Uint8Array>): Promise<IteratorResult<Uint8Array>> {
    try {
      return await data.next();
    } catch (thrown) {
      this.failure = { thrown };
      // Cancelled before the transport sees an end: to the server, that would be the end of a whole output.
      this.#ended.abort(thrown);
      throw thrown;
    }
  }

  /** From here on it is the server's turn: to take more, or to answer. */
  #watch(): void {
    this.stop();
    if (Number.isFinite(this.#silenceMs) && !this.#upload.whole) {
      const message = `PutToolOutput: the server took nothing for ${this.#silenceMs} ms`;
      const late = new DeadlineError(message, { code: "DEADLINE_EXCEEDED", method: "PutToolOutput" });
      this.#timer = setTimeout(() => {
        this.#late = late;
        this.#ended.abort(late);
      }, this.#silenceMs);
    }
  }
}

function headerFields(options: PutOptions) {
  const { record, maxMessageBytes, tailBytes } = options;
  if (typeof record === "object") {
    checkFields("options.record", record, RECORD_FIELDS);
  } else if (record !== undefined) {
    checkKind("options.record", record, "flag");
  }
  const { arguments: given, ...outcome }: OutputRecordInput = typeof record === "object" ? record : {};
  return {
    toolName: options.toolName ?? "",
    toolCallId: options.toolCallId ?? "",
    mediaType: options.mediaType ?? "",
    append: options.append ?? false,
    maxLineLength: options.maxLineLength ?? 0,
    maxMessageBytes: toCount("maxMessageBytes", maxMessageBytes),
    ...(tailBytes !== undefined && { tailBytes: toCount("tailBytes", tailBytes) }),
    asParts: options.asParts ?? false,
    ...(record !== undefined &&
      record !== false && {
        record: {
          argumentsJson: given === undefined ? "" : toJson("record.arguments", given),
          ...outcomeInit(outcome),
        },
      }),
  };
}

function storedOf(answer: PutToolOutputResponse, { append, record }: PutOptions): StoredOutput {
  const { ref, view, viewJson, truncated, seq, toolSeq, tokens, duplicate, pressure, masked } = answer;
  if (!ref) {
    throw new ContextStoreError("the server stored an output and told no ref of it", { code: "INTERNAL" });
  }
  return {
    refId: ref.id,
    ref,
    view: viewJson === "" ? view : (JSON.parse(viewJson) as unknown[]),
    truncated,
    seq: append ? seq : undefined,
    toolSeq: record ? toolSeq : undefined,
    tokens,
    duplicate,
    pressure,
    masked,
  };
}

/** An error that is not tried again, as the content cannot be had once more. */
function cannotRepeat(thrown: unknown): ContextStoreError {
  const error = toError(thrown);
  if (error.code !== "UNAVAILABLE") {
    return error;
  }
  const message = `${error.message}; the content is a stream that cannot be read again (hand in a function that opens it)`;
  return new UnavailableError(message, { code: "UNAVAILABLE", reason: "NOT_REPEATABLE", cause: thrown });
}

function newlines(data: Uint8Array): { count: number; last: number } {
  let count = 0;
  let last = -1;
  for (let at = data.indexOf(0x0a); at >= 0; at = data.indexOf(0x0a, at + 1)) {
    count += 1;
    last = at;
  }
  return { count, last };
}
