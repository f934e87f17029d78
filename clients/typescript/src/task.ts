// One task: everything that is done to it and read from it.

import { durationMs } from "@bufbuild/protobuf/wkt";
import type { Client as RpcClient } from "@connectrpc/connect";
import { type AppendInput, Pipeline } from "./append.js";
import { type Attempt, type Caller, type CallOptions, type MutationOptions, orUndefined } from "./calls.js";
import { type ChatEvent, type ChatOptions, Models, type RequestOptions, toolsJson } from "./chat.js";
import {
  beginCompaction,
  type Compaction,
  type CompactionOptions,
  type CompressOptions,
  compress,
} from "./compress.js";
import { NotFoundError } from "./errors.js";
import type {
  AppendMessageResponse,
  AppendMessagesResponse,
  AppendPlanResponse,
  CompressDone,
  ContextStore,
  GetContextUsageResponse,
  GetTaskResponse,
  RecordToolCallResponse,
  RecordUsageResponse,
  RewindTaskResponse,
  UndoCompactionResponse,
  UpdateStatisticsResponse,
  WatchTaskResponse,
} from "./gen/contextstore/v1/context_store_pb.js";
import type { Summary } from "./gen/contextstore/v1/message_pb.js";
import type { Holder, Task as TaskMessage } from "./gen/contextstore/v1/task_pb.js";
import { type Ending, type Hook, type HookErrors, type HookFailure, Hooks } from "./hooks.js";
import { newRequestId, newTaskUuid } from "./ids.js";
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
  type AppendOptions,
  type ConfigInput,
  type Count,
  configInit,
  type ForkOptions,
  type MessageInput,
  messageJson,
  type StatisticsInput,
  statisticsInit,
  type ToolCallInput,
  toCount,
  toolCallInit,
  type Usage,
  usageInit,
} from "./values.js";

/** What a task needs of its client. */
export interface Wire {
  readonly rpc: RpcClient<typeof ContextStore>;
  readonly caller: Caller;
  readonly holder: Holder;
}

/** How a task came to be. */
export interface Origin {
  readonly isNew?: boolean;
  readonly inheritedFrom?: string;
  readonly inheritanceComment?: string;
}

/** What a change carries beside what it is about. */
interface Target {
  readonly taskUuid: string;
  readonly leaseGeneration: bigint;
  readonly requestId: string;
}

/** How long a completion may take at least, for which the server asks a model. */
const SUMMARIZING_MS = 300_000;

/** A task. What changes it is acknowledged when it is on disk, and may be repeated with the same request id. */
export class Task {
  /** Its id. */
  readonly uuid: string;
  /** The lease that changes are made under. */
  readonly lease: Lease;
  /** Whether it was made, rather than taken up or looked at. */
  readonly isNew: boolean;
  /** The task that it took over from when it was started; empty if there was none. */
  readonly inheritedFrom: string;
  /** With it: a comment for people, as to post on the issue. */
  readonly inheritanceComment: string;
  /** What a hook that throws does. */
  hookErrors: HookErrors = "continue";
  /** The hooks that threw when the task was last completed or stopped. */
  hookFailures: readonly HookFailure[] = [];
  readonly #hooks = new Hooks<Task>();
  readonly #wire: Wire;
  readonly #reader: Reader;
  readonly #models: Models;

  constructor(uuid: string, wire: Wire, origin: Origin = {}) {
    this.uuid = uuid;
    this.isNew = origin.isNew ?? false;
    this.inheritedFrom = origin.inheritedFrom ?? "";
    this.inheritanceComment = origin.inheritanceComment ?? "";
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

  /**
   * Has a hook called before the task is completed, behind those that were registered before it; one of the same name
   * takes the place of the first. It is called by `complete` of this object, and again if that is called again.
   */
  onComplete(name: string, hook: Hook<Task>): void {
    this.#hooks.onComplete(name, hook);
  }

  /** The same before the task is paused or failed. */
  onStop(name: string, hook: Hook<Task>): void {
    this.#hooks.onStop(name, hook);
  }

  async #before(status: Ending<Task>["status"], finalSummary = "", errorMessage = ""): Promise<void> {
    const ending = { task: this, status, finalSummary, errorMessage };
    this.hookFailures = await this.#hooks.run(ending, this.uuid, this.hookErrors);
  }

  /** Puts it aside and ends the lease. */
  async pause(options: MutationOptions = {}): Promise<TaskMessage | undefined> {
    await this.#before("paused");
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

  /** Ends it well. The summary is what is to be remembered of it; without one, the server makes it. */
  async complete(finalSummary = "", options: MutationOptions = {}): Promise<TaskMessage | undefined> {
    await this.#before("completed", finalSummary);
    const { task } = await this.#change(
      options,
      (target, attempt) => this.#wire.rpc.completeTask({ ...target, finalSummary }, attempt),
      finalSummary === "" ? SUMMARIZING_MS : undefined,
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
    await this.#before("failed", finalSummary, errorMessage);
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
    const pipeline = new Pipeline(messages, this.#target);
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

  // Keeping it small

  /**
   * Compresses the context now, whatever its pressure; others may append and read meanwhile. A context of which nothing
   * can go is no error: `compressed` is false, and `reason` says why. The server goes on if the caller goes away.
   * `timeoutMs` is how long it may be silent; without it, the server watches over its summariser.
   */
  async compress(options: CompressOptions = {}): Promise<CompressDone> {
    const done = await compress(this.#wire, this.#target, options);
    this.lease.used();
    return done;
  }

  /**
   * Asks for what to summarise, for an agent that summarises by itself. Nothing else compresses the task until it is
   * committed or given up, or its time is over. Refused with the reason `NOTHING_TO_SUMMARIZE` if there is nothing to.
   */
  async beginCompaction(options: CompactionOptions & CallOptions = {}): Promise<Compaction> {
    return await beginCompaction(this.#wire, this.#target, options);
  }

  /**
   * Takes back the newest compaction in force: the view is what it was before, and what was appended since. Refused with
   * the reason `NOTHING_TO_UNDO` if there is none.
   */
  async undoCompaction(options: MutationOptions = {}): Promise<UndoCompactionResponse> {
    return await this.#change(options, (target, attempt) => this.#wire.rpc.undoCompaction(target, attempt));
  }

  /** Makes another task out of the messages up to `atSeq`, or of all; each of the two stands alone. */
  async fork(options: ForkOptions = {}): Promise<Task> {
    return await forkTask(this.#wire, this.uuid, options);
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
    for await (const event of this.#models.chat(this.#target, messages, options)) {
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
    const fields = toolCallInit(call);
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
    const tokens = usageInit(usage);
    return await this.#change(options, (target, attempt) =>
      this.#wire.rpc.recordUsage({ ...target, ...tokens }, attempt),
    );
  }

  /** Adds to the counters. */
  async updateStatistics(
    add: StatisticsInput,
    options: MutationOptions = {},
  ): Promise<UpdateStatisticsResponse> {
    const numbers = statisticsInit(add);
    return await this.#change(options, (target, attempt) =>
      this.#wire.rpc.updateStatistics({ ...target, ...numbers }, attempt),
    );
  }

  get #target() {
    return { taskUuid: this.uuid, leaseGeneration: this.lease.generation };
  }

  #read<T>(options: CallOptions, call: (attempt: Attempt) => Promise<T>): Promise<T> {
    return this.#wire.caller.unary(options, call);
  }

  /** Makes a change: every attempt under the same request id, so that it happens once. */
  async #change<T>(
    options: MutationOptions,
    call: (target: Target, attempt: Attempt) => Promise<T>,
    leastMs?: number,
  ): Promise<T> {
    const target = {
      ...this.#target,
      requestId: options.requestId || newRequestId(),
    };
    const answer = await this.#wire.caller.unary(options, (attempt) => call(target, attempt), leastMs);
    this.lease.used();
    return answer;
  }
}

/** Makes another task out of the first messages of one. */
export async function forkTask(wire: Wire, taskUuid: string, options: ForkOptions): Promise<Task> {
  const request = {
    taskUuid,
    atSeq: toCount("atSeq", options.atSeq),
    newTaskUuid: options.uuid ?? newTaskUuid(),
    holder: wire.holder,
    requestId: options.requestId || newRequestId(),
  };
  const forked = await wire.caller.unary(options, (attempt) => wire.rpc.forkTask(request, attempt));
  const task = new Task(forked.task?.uuid ?? request.newTaskUuid, wire, { isNew: true });
  task.lease.take(forked.leaseGeneration, forked.leaseTtl ? durationMs(forked.leaseTtl) : 0);
  return task;
}
