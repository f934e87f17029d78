// Making the context of one task smaller, by the server and by the agent itself.

import { timestampDate } from "@bufbuild/protobuf/wkt";
import {
  type Attempt,
  CALL_FIELDS,
  type CallOptions,
  MUTATION_FIELDS,
  type MutationOptions,
} from "./calls.js";
import { checkFields, type Fields } from "./check.js";
import type { TaskCore, TaskTarget, Wire } from "./core.js";
import { STRATEGIES, type StrategyInput } from "./enums.js";
import { ContextStoreError } from "./errors.js";
import type {
  BeginCompactionResponse,
  BeginCompactionResponse_Begun,
  CompressDone,
  CompressResponse_Progress,
} from "./gen/contextstore/v1/context_store_pb.js";
import { newRequestId } from "./ids.js";
import { type JsonObject, lines, parseLine } from "./records.js";
import {
  type CompressionInput,
  type Count,
  compressionInit,
  type PruneInput,
  pruneInit,
  toCount,
  type WindowInput,
  windowInit,
} from "./values.js";

/** What is to be summarised, and how small the context is to be. */
export interface CompactionOptions {
  /** Default: the task's own. */
  readonly strategy?: StrategyInput;
  /** Tokens that the view is to have afterwards, at most. */
  readonly targetTokens?: Count;
  /** What is to be otherwise than configured, this time. */
  readonly overrides?: CompressionInput;
}

/** How a context is compressed. */
export interface CompressOptions extends CompactionOptions, MutationOptions {
  /** The same for `prune`. */
  readonly prune?: PruneInput;
  /** The same for `window`. */
  readonly window?: WindowInput;
  /** Called with each step. */
  readonly onProgress?: (progress: CompressResponse_Progress) => void;
}

/** What goes with a summary of the agent's own. */
export interface CommitOptions extends MutationOptions {
  /** What is to be kept word for word beside it, with `compact`. */
  readonly retain?: string;
  /** Messages that are to stay as they are. */
  readonly keepSeqs?: readonly Count[];
  /** The model that wrote it, for the record. */
  readonly model?: string;
}

const COMPACTION_FIELDS = {
  ...CALL_FIELDS,
  strategy: "any",
  targetTokens: "any",
  overrides: "any",
} as const satisfies Fields<CompactionOptions & CallOptions>;
const COMPRESS_FIELDS = {
  ...COMPACTION_FIELDS,
  ...MUTATION_FIELDS,
  prune: "any",
  window: "any",
  onProgress: "function",
} as const satisfies Fields<CompressOptions>;
const COMMIT_FIELDS = {
  ...MUTATION_FIELDS,
  retain: "text",
  keepSeqs: "any",
  model: "text",
} as const satisfies Fields<CommitOptions>;

/** The server watches over its summariser; it may be asked again, as it knows the call by its request id. */
const WATCH = { silenceMs: Number.POSITIVE_INFINITY, repeats: true };

/** Compresses now; see `Task.compress`. */
export async function compress(core: TaskCore, options: CompressOptions): Promise<CompressDone> {
  checkFields("options", options, COMPRESS_FIELDS);
  await core.settle(options);
  const { wire } = core;
  const request = {
    ...core.target,
    ...fields(options),
    ...(options.prune && { prune: pruneInit(options.prune, "options.prune") }),
    ...(options.window && { window: windowInit(options.window, "options.window") }),
    requestId: options.requestId || newRequestId(),
  };
  const open = (attempt: Attempt) => wire.rpc.compress(request, attempt);
  let done: CompressDone | undefined;
  for await (const { event } of wire.caller.unlessBegun(options, open, WATCH)) {
    if (event.case === "progress") {
      options.onProgress?.(event.value);
    } else if (event.case === "done") {
      done = event.value;
    }
  }
  if (done === undefined) {
    throw cutOff("before it told what the compression did");
  }
  core.lease.used();
  return done;
}

/** Asks for what to summarise; see `Task.beginCompaction`. */
export async function beginCompaction(
  core: TaskCore,
  options: CompactionOptions & CallOptions,
): Promise<Compaction> {
  checkFields("options", options, COMPACTION_FIELDS);
  await core.settle(options);
  const { wire, target } = core;
  const request = { ...target, ...fields(options) };
  const open = (attempt: Attempt) => wire.rpc.beginCompaction(request, attempt);
  const stream = wire.caller.unlessBegun(options, open);
  const first = await stream.next();
  if (first.done || first.value.event.case !== "begun") {
    await stream.return();
    throw cutOff("before it told what to summarise");
  }
  return new Compaction(wire, target, first.value.event.value, stream);
}

/**
 * What an agent is to summarise. It ends with `commit` or `abort`, or by itself when its time is over:
 * `await using compaction = await task.beginCompaction()` gives it up at the end of the block if it was not committed.
 *
 * @example
 * ```ts
 * await using compaction = await task.beginCompaction({ targetTokens: 20_000 });
 * const summary = await mySummary(compaction.prompt, compaction.messages(), compaction.budget);
 * await compaction.commit(summary, { model: "mine" });
 * ```
 */
export class Compaction {
  /** Names it. */
  readonly token: string;
  /** Until when it can be committed. */
  readonly expireTime: Date | undefined;
  /** The first message that is to be summarised. */
  readonly startSeq: bigint;
  /** The last one. */
  readonly endSeq: bigint;
  /** How many they are. */
  readonly messageCount: bigint;
  /** How many tokens they have. */
  readonly tokens: bigint;
  /** Most tokens of the summary. */
  readonly budget: bigint;
  /** What a model would be asked. */
  readonly prompt: string;
  /** The summary so far, which the new one has to take in; empty if there is none. */
  readonly previousSummary: string;
  /** What was kept word for word so far: it stays, unless the `retain` of the commit takes its place. */
  readonly retained: string;
  /** Refs that the summary has to name. */
  readonly outputRefs: readonly string[];
  readonly #wire: Wire;
  readonly #target: TaskTarget;
  readonly #stream: AsyncGenerator<BeginCompactionResponse, void, undefined>;
  #open = true;

  /** @internal */
  constructor(
    wire: Wire,
    target: TaskTarget,
    begun: BeginCompactionResponse_Begun,
    stream: AsyncGenerator<BeginCompactionResponse, void, undefined>,
  ) {
    this.token = begun.token;
    this.expireTime = begun.expireTime && timestampDate(begun.expireTime);
    this.startSeq = begun.startSeq;
    this.endSeq = begun.endSeq;
    this.messageCount = begun.messages;
    this.tokens = begun.tokens;
    this.budget = begun.summaryTokens;
    this.prompt = begun.prompt;
    this.previousSummary = begun.previousSummary;
    this.retained = begun.retained;
    this.outputRefs = begun.outputRefs;
    this.#wire = wire;
    this.#target = target;
    this.#stream = stream;
  }

  /** The messages that are to be summarised, one by one as they arrive; once. */
  async *messages(): AsyncGenerator<JsonObject, void, undefined> {
    for await (const line of lines(dataOf(this.#stream))) {
      yield parseLine(line);
    }
  }

  /**
   * Puts the summary in the place of the messages. One that is empty, not smaller than they are, or without an output
   * ref that it has to name is refused with the reason `SUMMARY_REFUSED`: another one may be committed.
   */
  async commit(summary: string, options: CommitOptions = {}): Promise<CompressDone> {
    checkFields("options", options, COMMIT_FIELDS);
    const request = {
      ...this.#target,
      token: this.token,
      summary,
      retain: options.retain ?? "",
      keepSeqs: (options.keepSeqs ?? []).map((seq) => toCount("keepSeqs", seq)),
      model: options.model ?? "",
      requestId: options.requestId || newRequestId(),
    };
    const { done } = await this.#wire.caller.unary(options, (attempt) =>
      this.#wire.rpc.commitCompaction(request, attempt),
    );
    this.#open = false;
    await this.#stream.return();
    if (done === undefined) {
      throw cutOff("without what the compaction did");
    }
    return done;
  }

  /** Gives it up, if it was not committed: nothing is changed, and other compressions may begin. */
  async abort(options: CallOptions = {}): Promise<void> {
    if (!this.#open) {
      return;
    }
    this.#open = false;
    await this.#stream.return();
    const request = { ...this.#target, token: this.token };
    try {
      await this.#wire.caller.unary(options, (attempt) => this.#wire.rpc.abortCompaction(request, attempt));
    } catch (thrown) {
      // One that is gone is given back already.
      if (!(thrown instanceof ContextStoreError && thrown.reason === "COMPACTION_NOT_FOUND")) {
        throw thrown;
      }
    }
  }

  /** As `abort`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.abort();
  }
}

async function* dataOf(
  stream: AsyncIterable<BeginCompactionResponse>,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const { event } of stream) {
    if (event.case === "data") {
      yield event.value;
    }
  }
}

function fields({ strategy, targetTokens, overrides }: CompactionOptions) {
  return {
    strategy: STRATEGIES.value("options.strategy", strategy),
    ...(targetTokens !== undefined && { targetTokens: toCount("targetTokens", targetTokens) }),
    ...(overrides && { overrides: compressionInit(overrides, "options.overrides") }),
  };
}

function cutOff(when: string): ContextStoreError {
  return new ContextStoreError(`the server closed the stream ${when}`, { code: "INTERNAL" });
}
