// One task: everything that is done to it and read from it.

import { durationMs } from "@bufbuild/protobuf/wkt";
import type { Client as RpcClient } from "@connectrpc/connect";
import { type AppendInput, Pipeline } from "./append.js";
import type { Attempt, Caller, CallOptions, MutationOptions } from "./calls.js";
import { type ChatEvent, type ChatOptions, Models, type RequestOptions, toolsJson } from "./chat.js";
import { NotFoundError } from "./errors.js";
import type {
  AppendMessageResponse,
  AppendMessagesResponse,
  AppendPlanResponse,
  ContextStore,
  GetContextUsageResponse,
  GetTaskResponse,
  RecordToolCallResponse,
  RecordUsageResponse,
  RewindTaskResponse,
  UpdateStatisticsResponse,
  WatchTaskResponse,
} from "./gen/contextstore/v1/context_store_pb.js";
import type { Summary } from "./gen/contextstore/v1/message_pb.js";
import type { Holder, Task as TaskMessage } from "./gen/contextstore/v1/task_pb.js";
import { newRequestId } from "./ids.js";
import { Lease } from "./lease.js";
import {
  type HistoryOptions,
  type Plan,
  planOf,
  type RangeOptions,
  Reader,
  type ViewOptions,
} from "./read.js";
import { historyRecord, type JsonObject, type LogRecord } from "./records.js";
import {
  type ConfigInput,
  type Count,
  configInit,
  type MessageInput,
  messageJson,
  toCount,
} from "./values.js";

/** What a task needs of its client. */
export interface Wire {
  readonly rpc: RpcClient<typeof ContextStore>;
  readonly caller: Caller;
  readonly holder: Holder;
}

/** What goes with a message. */
export interface AppendOptions extends MutationOptions {
  /** Whether no compaction may take it out of the view. */
  readonly pinned?: boolean;
  /** The full output of a tool, if the message holds a cut view of it. */
  readonly outputRef?: string;
}

/** A tool that was executed. */
export interface ToolCallInput {
  readonly toolName: string;
  /** What it was called with: anything JSON has. */
  readonly arguments?: unknown;
  /** What it answered: anything JSON has. */
  readonly result?: unknown;
  /** Where its answer is, if that is large. */
  readonly outputRef?: string;
  /** Why it failed. With it the status is `error`. */
  readonly error?: string;
  readonly durationMs?: Count;
  /** The message that carries its answer. */
  readonly messageSeq?: Count;
}

/** Tokens of one call of the LLM, as disjoint parts: take cached tokens out of OpenAI's input. */
export interface Usage {
  readonly inputTokens?: Count;
  readonly outputTokens?: Count;
  readonly cacheCreationTokens?: Count;
  readonly cacheReadTokens?: Count;
}

/** Numbers to add to a task's counters. */
export interface StatisticsInput {
  readonly llmCalls?: Count;
  readonly toolCalls?: Count;
  readonly tokens?: Count;
  readonly compressions?: Count;
}

/** What a change carries beside what it is about. */
interface Target {
  readonly taskUuid: string;
  readonly leaseGeneration: bigint;
  readonly requestId: string;
}

/** A task. What changes it is acknowledged when it is on disk, and may be repeated with the same request id. */
export class Task {
  /** Its id. */
  readonly uuid: string;
  /** The lease that changes are made under. */
  readonly lease: Lease;
  /** Whether it was made, rather than taken up or looked at. */
  readonly isNew: boolean;
  readonly #wire: Wire;
  readonly #reader: Reader;
  readonly #models: Models;

  constructor(uuid: string, wire: Wire, isNew = false) {
    this.uuid = uuid;
    this.isNew = isNew;
    this.#wire = wire;
    this.#reader = new Reader(uuid, wire);
    this.#models = new Models(wire);
    this.lease = new Lease(() => this.renewLease());
  }

  /** The task as it is now, and how full its context is. */
  async get(options: CallOptions = {}): Promise<GetTaskResponse> {
    return await this.#read(options, (attempt) => this.#wire.rpc.getTask({ taskUuid: this.uuid }, attempt));
  }

  /**
   * How full the context is, as every append answers it, and how that is counted; with tools that are to be sent. It
   * takes the same time however long the context is.
   */
  async contextUsage(
    options: CallOptions & Pick<ChatOptions, "tools"> = {},
  ): Promise<GetContextUsageResponse> {
    const request = { taskUuid: this.uuid, toolsJson: toolsJson(options.tools) };
    return await this.#read(options, (attempt) => this.#wire.rpc.getContextUsage(request, attempt));
  }

  // Its life

  /** Puts it aside and ends the lease. */
  async pause(options: MutationOptions = {}): Promise<TaskMessage | undefined> {
    const { task } = await this.#change(options, (target, attempt) =>
      this.#wire.rpc.pauseTask(target, attempt),
    );
    this.lease.end();
    return task;
  }

  /** Goes on with it after a pause, under a new lease. */
  async resume(
    options: MutationOptions & { leaseGeneration?: Count } = {},
  ): Promise<TaskMessage | undefined> {
    const request = {
      taskUuid: this.uuid,
      holder: this.#wire.holder,
      requestId: options.requestId || newRequestId(),
      leaseGeneration: toCount("leaseGeneration", options.leaseGeneration ?? this.lease.lastGeneration),
    };
    const resumed = await this.#read(options, (attempt) => this.#wire.rpc.resumeTask(request, attempt));
    this.lease.take(resumed.leaseGeneration, resumed.leaseTtl ? durationMs(resumed.leaseTtl) : 0);
    return resumed.task;
  }

  /** Ends it well. */
  async complete(finalSummary = "", options: MutationOptions = {}): Promise<TaskMessage | undefined> {
    const { task } = await this.#change(options, (target, attempt) =>
      this.#wire.rpc.completeTask({ ...target, finalSummary }, attempt),
    );
    this.lease.end();
    return task;
  }

  /** Ends it badly. */
  async fail(
    errorMessage: string,
    options: MutationOptions & { finalSummary?: string } = {},
  ): Promise<TaskMessage | undefined> {
    const finalSummary = options.finalSummary ?? "";
    const { task } = await this.#change(options, (target, attempt) =>
      this.#wire.rpc.failTask({ ...target, errorMessage, finalSummary }, attempt),
    );
    this.lease.end();
    return task;
  }

  /** Replaces its configuration as a whole. */
  async update(config: ConfigInput, options: MutationOptions = {}): Promise<TaskMessage | undefined> {
    const init = configInit(config);
    const { task } = await this.#change(options, (target, attempt) =>
      this.#wire.rpc.updateTask({ ...target, config: init }, attempt),
    );
    return task;
  }

  /** Keeps the lease alive, as the client does by itself while the task runs. Answers for how many milliseconds. */
  async renewLease(options: CallOptions = {}): Promise<number> {
    const request = { taskUuid: this.uuid, leaseGeneration: this.lease.generation };
    const { leaseTtl } = await this.#read(options, (attempt) => this.#wire.rpc.renewLease(request, attempt));
    this.lease.used();
    return leaseTtl ? durationMs(leaseTtl) : 0;
  }

  /** Removes it with everything in it. Cannot be undone. */
  async delete(options: MutationOptions = {}): Promise<void> {
    let attempts = 0;
    try {
      await this.#change(options, (target, attempt) => {
        attempts += 1;
        return this.#wire.rpc.deleteTask(target, attempt);
      });
    } catch (thrown) {
      // A removed task remembers nothing: if the answer to the first attempt was lost, this is it.
      if (!(attempts > 1 && thrown instanceof NotFoundError)) {
        throw thrown;
      }
    }
    this.lease.end();
  }

  // Messages

  /** Appends a message: an OpenAI chat message, or its JSON as text. */
  async append(message: MessageInput, options: AppendOptions = {}): Promise<AppendMessageResponse> {
    const { pinned = false, outputRef = "" } = options;
    const body = { case: "messageJson", value: messageJson(message) } as const;
    return await this.#change(options, (target, attempt) =>
      this.#wire.rpc.appendMessage({ ...target, body, pinned, outputRef }, attempt),
    );
  }

  /**
   * Appends messages without waiting for each, and yields an acknowledgement for each, in order. Nothing is
   * sent before the first is asked for, and at most 512 messages wait for theirs. A broken connection is taken up
   * again. The first message that is refused ends it: what came before is appended, nothing behind it is.
   */
  async *appendMany(
    messages: AsyncIterable<MessageInput | AppendInput> | Iterable<MessageInput | AppendInput>,
    options: CallOptions = {},
  ): AsyncGenerator<AppendMessagesResponse, void, undefined> {
    const target = { taskUuid: this.uuid, leaseGeneration: this.lease.generation };
    const pipeline = new Pipeline(messages, target);
    const open = this.#wire.rpc.appendMessages.bind(this.#wire.rpc);
    for await (const acknowledged of pipeline.run(this.#wire.caller, options, open)) {
      this.lease.used();
      yield acknowledged;
    }
  }

  /** One message as it stands in the log. */
  async message(seq: Count, options: CallOptions = {}): Promise<LogRecord & { readonly pinned: boolean }> {
    const request = { taskUuid: this.uuid, seq: toCount("seq", seq) };
    const { record, pinned } = await this.#read(options, (attempt) =>
      this.#wire.rpc.getMessage(request, attempt),
    );
    return { ...historyRecord(record), pinned };
  }

  /** Pins a message: no compaction takes it out of the view. */
  async pin(seq: Count, options: MutationOptions = {}): Promise<void> {
    const at = toCount("seq", seq);
    await this.#change(options, (target, attempt) =>
      this.#wire.rpc.pinMessage({ ...target, seq: at }, attempt),
    );
  }

  /** Releases a pinned message. */
  async unpin(seq: Count, options: MutationOptions = {}): Promise<void> {
    const at = toCount("seq", seq);
    await this.#change(options, (target, attempt) =>
      this.#wire.rpc.unpinMessage({ ...target, seq: at }, attempt),
    );
  }

  /** Takes the view back to what it was after a message. The log keeps everything. */
  async rewind(seq: Count, options: MutationOptions = {}): Promise<RewindTaskResponse> {
    const to = toCount("seq", seq);
    return await this.#change(options, (target, attempt) =>
      this.#wire.rpc.rewindTask({ ...target, seq: to }, attempt),
    );
  }

  // Models

  /**
   * A turn of a model: appends the messages, sends the context, yields the answer as it arrives, appends it. Nothing
   * happens before the first event is asked for; `started` comes first, `done` last. Leaving the loop before that, or
   * the signal, cancels the call, and what arrived stays in the log as interrupted.
   *
   * It is repeated, under the same request id, while the server cannot be reached and nothing has come; never after
   * that. With a `requestId` of one's own the same turn can be asked for again: what was answered is told again.
   * `timeoutMs` is how long the answer may be silent; without it, the server watches over the provider.
   */
  async *chat(
    messages: Iterable<MessageInput | AppendInput>,
    options: ChatOptions = {},
  ): AsyncGenerator<ChatEvent, void, undefined> {
    const target = { taskUuid: this.uuid, leaseGeneration: this.lease.generation };
    for await (const event of this.#models.chat(target, messages, options)) {
      this.lease.used();
      yield event;
    }
  }

  /**
   * What the model sees as the body of a request to a provider (`openai`, `openai_responses`, `anthropic`, `ollama`,
   * `lmstudio`), for an HTTP client of one's own: `fetch(url, { method: "POST", body: ReadableStream.from(…), duplex: "half" })`. It
   * is valid whatever happened to the task. A connection that breaks after the first byte ends it: ask again.
   */
  request(provider: string, options: RequestOptions = {}): AsyncGenerator<Uint8Array, void, undefined> {
    return this.#models.request(this.uuid, provider, options);
  }

  // Reading

  /** What the model sees, in chunks of current.jsonl: one snapshot, also across broken connections. */
  current(options: ViewOptions = {}): AsyncGenerator<Uint8Array, void, undefined> {
    return this.#reader.current(options);
  }

  /** What the model sees, message by message. */
  currentMessages(options: ViewOptions = {}): AsyncGenerator<JsonObject, void, undefined> {
    return this.#reader.currentMessages(options);
  }

  /** The history: messages and events. With `follow` it goes on with what is appended later. */
  messages(options: HistoryOptions = {}): AsyncGenerator<LogRecord, void, undefined> {
    return this.#reader.messages(options);
  }

  /**
   * What happens to the task from the first `next` on, or from behind an earlier event. Nothing is missed when the
   * connection breaks or the server is restarted.
   */
  watch(
    options: CallOptions & { resumeToken?: string } = {},
  ): AsyncGenerator<WatchTaskResponse, void, undefined> {
    return this.#reader.watch(options);
  }

  // Tools, plans, summaries, numbers

  /** Records the execution of a tool. */
  async recordToolCall(call: ToolCallInput, options: MutationOptions = {}): Promise<RecordToolCallResponse> {
    const { durationMs, messageSeq } = call;
    const fields = {
      toolName: call.toolName,
      argumentsJson: call.arguments === undefined ? "" : JSON.stringify(call.arguments),
      resultJson: call.result === undefined ? "" : JSON.stringify(call.result),
      outputRef: call.outputRef ?? "",
      status: call.error === undefined ? "success" : "error",
      error: call.error ?? "",
      ...(durationMs !== undefined && { durationMs: toCount("durationMs", durationMs) }),
      ...(messageSeq !== undefined && { messageSeq: toCount("messageSeq", messageSeq) }),
    };
    return await this.#change(options, (target, attempt) =>
      this.#wire.rpc.recordToolCall({ ...target, ...fields }, attempt),
    );
  }

  /** The tool calls that were recorded. */
  toolCalls(options: RangeOptions = {}): AsyncGenerator<LogRecord, void, undefined> {
    return this.#reader.toolCalls(options);
  }

  /** Appends a plan: anything JSON has. */
  async appendPlan(
    content: unknown,
    options: MutationOptions & { planType?: string } = {},
  ): Promise<AppendPlanResponse> {
    const fields = { planType: options.planType ?? "", planContentJson: JSON.stringify(content) };
    return await this.#change(options, (target, attempt) =>
      this.#wire.rpc.appendPlan({ ...target, ...fields }, attempt),
    );
  }

  /** The newest plan, or undefined if there is none. */
  async latestPlan(options: CallOptions = {}): Promise<Plan | undefined> {
    const latest = this.#read(options, (attempt) =>
      this.#wire.rpc.getLatestPlan({ taskUuid: this.uuid }, attempt),
    );
    return planOf(await orUndefined(latest, "PLAN_NOT_FOUND"));
  }

  /** The plans, oldest first. */
  plans(options: RangeOptions = {}): AsyncGenerator<LogRecord, void, undefined> {
    return this.#reader.plans(options);
  }

  /** The newest summary, or undefined if there is none. */
  async latestSummary(options: CallOptions = {}): Promise<Summary | undefined> {
    const latest = this.#read(options, (attempt) =>
      this.#wire.rpc.getLatestSummary({ taskUuid: this.uuid }, attempt),
    );
    return (await orUndefined(latest, "SUMMARY_NOT_FOUND"))?.summary;
  }

  /** The summaries, oldest first. */
  summaries(options: CallOptions & { limit?: Count } = {}): AsyncGenerator<JsonObject, void, undefined> {
    return this.#reader.summaries(options);
  }

  /** Reports the tokens of one call of the LLM. */
  async recordUsage(usage: Usage, options: MutationOptions = {}): Promise<RecordUsageResponse> {
    const tokens = {
      inputTokens: toCount("inputTokens", usage.inputTokens),
      outputTokens: toCount("outputTokens", usage.outputTokens),
      cacheCreationTokens: toCount("cacheCreationTokens", usage.cacheCreationTokens),
      cacheReadTokens: toCount("cacheReadTokens", usage.cacheReadTokens),
    };
    return await this.#change(options, (target, attempt) =>
      this.#wire.rpc.recordUsage({ ...target, ...tokens }, attempt),
    );
  }

  /** Adds to the counters. */
  async updateStatistics(
    add: StatisticsInput,
    options: MutationOptions = {},
  ): Promise<UpdateStatisticsResponse> {
    const numbers = {
      llmCalls: toCount("llmCalls", add.llmCalls),
      toolCalls: toCount("toolCalls", add.toolCalls),
      tokens: toCount("tokens", add.tokens),
      compressions: toCount("compressions", add.compressions),
    };
    return await this.#change(options, (target, attempt) =>
      this.#wire.rpc.updateStatistics({ ...target, ...numbers }, attempt),
    );
  }

  #read<T>(options: CallOptions, call: (attempt: Attempt) => Promise<T>): Promise<T> {
    return this.#wire.caller.unary(options, call);
  }

  /** Makes a change: every attempt under the same request id, so that it happens once. */
  async #change<T>(
    options: MutationOptions,
    call: (target: Target, attempt: Attempt) => Promise<T>,
  ): Promise<T> {
    const target = {
      taskUuid: this.uuid,
      leaseGeneration: this.lease.generation,
      requestId: options.requestId || newRequestId(),
    };
    const answer = await this.#wire.caller.unary(options, (attempt) => call(target, attempt));
    this.lease.used();
    return answer;
  }
}

async function orUndefined<T>(promise: Promise<T>, reason: string): Promise<T | undefined> {
  try {
    return await promise;
  } catch (thrown) {
    if (thrown instanceof NotFoundError && thrown.reason === reason) {
      return undefined;
    }
    throw thrown;
  }
}
