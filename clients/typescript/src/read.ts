// Reading a task as streams, each of which goes on where a broken connection left it.

import type { Client as RpcClient } from "@connectrpc/connect";
import { type Attempt, CALL_FIELDS, type Caller, type CallOptions } from "./calls.js";
import { checkFields, type Fields } from "./check.js";
import type { TaskCore } from "./core.js";
import { RECORD_KINDS, type RecordKindInput } from "./enums.js";
import type {
  ContextStore,
  GetLatestPlanResponse,
  WatchTaskResponse,
} from "./gen/contextstore/v1/context_store_pb.js";
import { historyRecord, type JsonObject, type LogRecord, numberedRecord, parseLine } from "./records.js";
import { View } from "./streams.js";
import { type Count, toCount } from "./values.js";

/** Which view to read. */
export interface ViewOptions extends CallOptions {
  /** The view as it was after this message. Default: as it is now. */
  readonly asOfSeq?: Count;
  /** Bytes of a chunk, 1 to 4 MiB. Default: the server's. */
  readonly chunkBytes?: number;
}

/** Which part of the history to read. */
export interface HistoryOptions extends CallOptions {
  readonly fromSeq?: Count;
  readonly toSeq?: Count;
  /** Most records. */
  readonly limit?: Count;
  /** Whether to go on with what is appended later, until the signal ends it. */
  readonly follow?: boolean;
  /** `message`, or kinds of events. Default: all. */
  readonly kinds?: readonly RecordKindInput[];
}

/** Which records of a log with numbers of its own to read. */
export interface RangeOptions extends CallOptions {
  readonly from?: Count;
  readonly to?: Count;
  /** Most records. */
  readonly limit?: Count;
}

const VIEW_FIELDS = {
  ...CALL_FIELDS,
  asOfSeq: "any",
  chunkBytes: "number",
} as const satisfies Fields<ViewOptions>;
const HISTORY_FIELDS = {
  ...CALL_FIELDS,
  fromSeq: "any",
  toSeq: "any",
  limit: "any",
  follow: "flag",
  kinds: "any",
} as const satisfies Fields<HistoryOptions>;
const RANGE_FIELDS = {
  ...CALL_FIELDS,
  from: "any",
  to: "any",
  limit: "any",
} as const satisfies Fields<RangeOptions>;

/** A plan. */
export interface Plan {
  readonly id: bigint;
  readonly planType: string;
  /** What was appended. */
  readonly content: unknown;
}

/** As callers get it. */
export function planOf(response: GetLatestPlanResponse | undefined): Plan | undefined {
  return (
    response && {
      id: response.id,
      planType: response.planType,
      content: JSON.parse(response.planContentJson) as unknown,
    }
  );
}

const toolCallRecord = numberedRecord("tool_call", "seq");
const planRecord = numberedRecord("plan", "id");

/** A stream that waits for what happens later may be silent for any time. */
const FOREVER = { silenceMs: Number.POSITIVE_INFINITY };

/** Reads one task, always behind what was appended without waiting. */
export class Reader {
  readonly #core: TaskCore;
  readonly #taskUuid: string;
  readonly #rpc: RpcClient<typeof ContextStore>;
  readonly #caller: Caller;

  constructor(core: TaskCore) {
    this.#core = core;
    this.#taskUuid = core.uuid;
    this.#rpc = core.wire.rpc;
    this.#caller = core.wire.caller;
  }

  current(options: ViewOptions): View {
    checkFields("options", options, VIEW_FIELDS);
    // At once, where the caller is, and not when it is read.
    const asOfSeq = toCount("asOfSeq", options.asOfSeq);
    return new View(() => this.#core.reading(options, () => this.#chunks(options, asOfSeq)));
  }

  async *#chunks(options: ViewOptions, asOfSeq: bigint): AsyncGenerator<Uint8Array, void, undefined> {
    const [rpc, caller] = [this.#rpc, this.#caller];
    const fixed = { taskUuid: this.#taskUuid, chunkBytes: options.chunkBytes ?? 0, asOfSeq };
    let offset = 0n;
    let snapshot: { readonly generation: bigint; readonly totalBytes: bigint } | undefined;
    yield* caller.resuming(options, async function* rest() {
      const request = { ...fixed, offset, ...(snapshot && { generation: snapshot.generation }) };
      for await (const chunk of caller.stream(options, (attempt) => rpc.streamCurrent(request, attempt))) {
        snapshot ??= chunk;
        // What was appended between two attempts lies behind the end of the snapshot.
        const left = Number(snapshot.totalBytes - offset);
        const data = chunk.data.length > left ? chunk.data.subarray(0, left) : chunk.data;
        offset += BigInt(data.length);
        if (data.length > 0) {
          yield data;
        }
        if (offset === snapshot.totalBytes) {
          return;
        }
      }
    });
  }

  async *messages(options: HistoryOptions): AsyncGenerator<LogRecord, void, undefined> {
    const [rpc, caller] = [this.#rpc, this.#caller];
    checkFields("options", options, HISTORY_FIELDS);
    const { follow = false, kinds = [] } = options;
    const fixed = {
      taskUuid: this.#taskUuid,
      toSeq: toCount("toSeq", options.toSeq),
      follow,
      kinds: RECORD_KINDS.list("options.kinds", kinds),
    };
    const limit = toCount("limit", options.limit);
    // Events have no number of their own, so a place is a message and how many records from it on were read.
    let place = { seq: toCount("fromSeq", options.fromSeq), read: 0n };
    let total = 0n;
    await this.#core.settle(options);
    yield* caller.resuming(options, async function* rest() {
      let skip = place.read;
      const request = { ...fixed, fromSeq: place.seq, limit: limit && limit - total + skip };
      const open = (attempt: Attempt) => rpc.streamMessages(request, attempt);
      for await (const batch of caller.stream(options, open, follow ? FOREVER : {})) {
        for (const bytes of batch.records) {
          if (skip > 0n) {
            skip -= 1n;
            continue;
          }
          const record = historyRecord(bytes);
          const isSamePlace = record.seq <= place.seq;
          place = isSamePlace ? { ...place, read: place.read + 1n } : { seq: record.seq, read: 1n };
          total += 1n;
          yield record;
        }
      }
    });
  }

  async *watch(
    options: CallOptions & { resumeToken?: string },
  ): AsyncGenerator<WatchTaskResponse, void, undefined> {
    const [rpc, caller] = [this.#rpc, this.#caller];
    checkFields("options", options, { ...CALL_FIELDS, resumeToken: "text" });
    const request = { taskUuid: this.#taskUuid, resumeToken: options.resumeToken ?? "" };
    // Where the watch begins: else "from now on" would be a later now once the connection breaks.
    const onHeader = (header: Headers) => {
      request.resumeToken = header.get("resume-token") ?? request.resumeToken;
    };
    await this.#core.settle(options);
    yield* caller.resuming(options, async function* rest() {
      const open = (attempt: Attempt) => rpc.watchTask(request, { ...attempt, onHeader });
      for await (const event of caller.stream(options, open, FOREVER)) {
        request.resumeToken = event.resumeToken;
        yield event;
      }
    });
  }

  toolCalls(options: RangeOptions): AsyncGenerator<LogRecord, void, undefined> {
    const open: OpenRange = ({ from, to, limit }, attempt) =>
      this.#rpc.streamToolCalls({ taskUuid: this.#taskUuid, fromSeq: from, toSeq: to, limit }, attempt);
    return this.#range(options, toolCallRecord, open);
  }

  plans(options: RangeOptions): AsyncGenerator<LogRecord, void, undefined> {
    const open: OpenRange = ({ from, to, limit }, attempt) =>
      this.#rpc.streamPlans({ taskUuid: this.#taskUuid, fromId: from, toId: to, limit }, attempt);
    return this.#range(options, planRecord, open);
  }

  /** Summaries are few: after a broken connection they are asked for from the first, and those that were read are left out. */
  async *summaries(options: CallOptions & { limit?: Count }): AsyncGenerator<JsonObject, void, undefined> {
    const [rpc, caller] = [this.#rpc, this.#caller];
    const request = { taskUuid: this.#taskUuid, limit: toCount("limit", options.limit) };
    let read = 0;
    await this.#core.settle(options);
    yield* caller.resuming(options, async function* rest() {
      let skip = read;
      const open = (attempt: Attempt) => rpc.streamSummaries(request, attempt);
      for await (const batch of caller.stream(options, open)) {
        for (const bytes of batch.records) {
          if (skip > 0) {
            skip -= 1;
            continue;
          }
          read += 1;
          yield parseLine(bytes);
        }
      }
    });
  }

  async *#range(
    options: RangeOptions,
    parse: (bytes: Uint8Array) => LogRecord,
    open: OpenRange,
  ): AsyncGenerator<LogRecord, void, undefined> {
    checkFields("options", options, RANGE_FIELDS);
    const caller = this.#caller;
    const to = toCount("to", options.to);
    const limit = toCount("limit", options.limit);
    let from = toCount("from", options.from);
    let total = 0n;
    await this.#core.settle(options);
    yield* caller.resuming(options, async function* rest() {
      const range = { from, to, limit: limit && limit - total };
      for await (const batch of caller.stream(options, (attempt) => open(range, attempt))) {
        for (const record of batch.records.map(parse)) {
          from = record.seq + 1n;
          total += 1n;
          yield record;
          if (total === limit) {
            return;
          }
        }
      }
    });
  }
}

type OpenRange = (
  range: { readonly from: bigint; readonly to: bigint; readonly limit: bigint },
  attempt: Attempt,
) => AsyncIterable<{ readonly records: Uint8Array[] }>;
