// What is read of one task, and what is recorded beside its messages: tool calls, plans, usage.

import { type CallOptions, type MutationOptions, orUndefined } from "./calls.js";
import { type ChatOptions, type FunctionCall, toolsJson } from "./chat.js";
import type { TaskCore } from "./core.js";
import type {
  AppendPlanResponse,
  GetContextUsageResponse,
  GetTaskResponse,
  RecordToolCallResponse,
  RecordUsageResponse,
  UpdateStatisticsResponse,
  WatchTaskResponse,
} from "./gen/contextstore/v1/context_store_pb.js";
import type { Summary } from "./gen/contextstore/v1/message_pb.js";
import type { TrimToolOutputsResponse } from "./gen/contextstore/v1/tool_outputs_pb.js";
import { toJson } from "./json.js";
import { Outputs } from "./outputs.js";
import {
  type HistoryOptions,
  type Plan,
  planOf,
  type RangeOptions,
  Reader,
  type ViewOptions,
} from "./read.js";
import { historyRecord, type JsonObject, type LogRecord } from "./records.js";
import type { View } from "./streams.js";
import { type RunOptions, recorded, runTool, type ToolRun } from "./tooling.js";
import {
  type Count,
  type StatisticsInput,
  statisticsInit,
  type ToolCallInput,
  toCount,
  toolCallInit,
  type Usage,
  usageInit,
} from "./values.js";

/** The half of a `Task` that reads and records; it is not made by itself. */
export abstract class TaskRecords {
  /** Its id. */
  readonly uuid: string;
  /** The outputs of its tools: put, read, searched. */
  readonly output: Outputs;
  /** @internal */
  protected readonly core: TaskCore;
  readonly #reader: Reader;

  /** @internal */
  constructor(core: TaskCore) {
    this.uuid = core.uuid;
    this.core = core;
    this.output = new Outputs(core);
    this.#reader = new Reader(core);
  }

  // Reading

  /** The task as it is now, and how full its context is. */
  async get(options: CallOptions = {}): Promise<GetTaskResponse> {
    const { core, uuid: taskUuid } = this;
    return await core.read(options, (attempt) => core.wire.rpc.getTask({ taskUuid }, attempt));
  }

  /**
   * How full the context is, as every append answers it, and how that is counted; with tools that are to be sent. It
   * takes the same time however long the context is.
   */
  async contextUsage(
    options: CallOptions & Pick<ChatOptions, "tools"> = {},
  ): Promise<GetContextUsageResponse> {
    const { core, uuid: taskUuid } = this;
    const request = { taskUuid, toolsJson: toolsJson(options.tools) };
    return await core.read(options, (attempt) => core.wire.rpc.getContextUsage(request, attempt), ["tools"]);
  }

  /**
   * What the model sees, as it is when it is read: as chunks of bytes, as messages, as an array, as a web stream.
   *
   * @example
   * ```ts
   * const messages = await task.current().toArray();
   * for await (const message of task.current().messages()) console.log(message.role);
   * for await (const chunk of task.current({ asOfSeq: 12 })) file.write(chunk);
   * ```
   */
  current(options: ViewOptions = {}): View {
    return this.#reader.current(options);
  }

  /** What the model sees, message by message: `current().messages()`. */
  currentMessages<M extends object = JsonObject>(
    options: ViewOptions = {},
  ): AsyncGenerator<M, void, undefined> {
    return this.current(options).messages<M>();
  }

  /** One message as it stands in the log. */
  async message(seq: Count, options: CallOptions = {}): Promise<LogRecord & { readonly pinned: boolean }> {
    const { core, uuid: taskUuid } = this;
    const request = { taskUuid, seq: toCount("seq", seq) };
    const { record, pinned } = await core.read(options, (attempt) =>
      core.wire.rpc.getMessage(request, attempt),
    );
    return { ...historyRecord(record), pinned };
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

  // Tools

  /**
   * A function that does what `fn` does and records each call of it: what it was called with, what it answered or threw,
   * how long it took. A result of more than 16 Ki characters is kept as an output, and the record names its ref.
   *
   * @example
   * ```ts
   * const readFile = task.tool("read_file", (path: string) => fs.readFile(path, "utf8"));
   * const text = await readFile("README.md"); // and it stands in tools.jsonl
   * ```
   */
  tool<A extends readonly unknown[], R>(
    name: string,
    fn: (...args: A) => R | PromiseLike<R>,
  ): (...args: A) => Promise<R> {
    return recorded(this, name, fn);
  }

  /**
   * Answers what a model called: runs `fn` with the arguments, keeps what it returns as an output, appends the tool message
   * with a view of it, and records the call with its time. What `fn` throws, and arguments that are no JSON object, are told to the
   * model, not thrown; `error` of the answer has it. `fn` may return text, bytes, an async iterable of them, or anything
   * JSON has.
   *
   * @example
   * ```ts
   * for (const call of message.tool_calls ?? []) {
   *   await task.runTool(call, ({ path }: { path: string }) => fs.readFile(path, "utf8"));
   * }
   * for await (const event of task.chat([])) … // the results are there already
   * ```
   */
  // eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- what the model hands over, by the caller's word
  async runTool<A extends object = Record<string, unknown>>(
    call: FunctionCall,
    fn: (args: A) => unknown,
    options: RunOptions = {},
  ): Promise<ToolRun> {
    return await runTool(this, call, (args) => fn(args as A), options);
  }

  /** Records the execution of a tool. */
  async recordToolCall(call: ToolCallInput, options: MutationOptions = {}): Promise<RecordToolCallResponse> {
    const { core } = this;
    const fields = toolCallInit(call);
    return await core.change(options, (target, attempt) =>
      core.wire.rpc.recordToolCall({ ...target, ...fields }, attempt),
    );
  }

  /** The tool calls that were recorded. */
  toolCalls(options: RangeOptions = {}): AsyncGenerator<LogRecord, void, undefined> {
    return this.#reader.toolCalls(options);
  }

  /**
   * Makes the oldest outputs in the view placeholders that name their refs, until the rest fits `budgetTokens` (the task's
   * own budget if it is not given). It happens by itself too.
   */
  async trim(options: MutationOptions & { budgetTokens?: Count } = {}): Promise<TrimToolOutputsResponse> {
    const { core } = this;
    const { budgetTokens } = options;
    const budget = budgetTokens === undefined ? {} : { budgetTokens: toCount("budgetTokens", budgetTokens) };
    return await core.change(
      options,
      (target, attempt) => core.wire.outputs.trimToolOutputs({ ...target, ...budget }, attempt),
      { more: ["budgetTokens"] },
    );
  }

  // Plans, summaries, numbers

  /** Appends a plan: anything JSON has. */
  async appendPlan(
    content: unknown,
    options: MutationOptions & { planType?: string } = {},
  ): Promise<AppendPlanResponse> {
    const { core } = this;
    const fields = { planType: options.planType ?? "", planContentJson: toJson("plan", content) };
    return await core.change(
      options,
      (target, attempt) => core.wire.rpc.appendPlan({ ...target, ...fields }, attempt),
      { more: ["planType"] },
    );
  }

  /** The newest plan, or undefined if there is none. */
  async latestPlan(options: CallOptions = {}): Promise<Plan | undefined> {
    const { core, uuid: taskUuid } = this;
    const latest = core.read(options, (attempt) => core.wire.rpc.getLatestPlan({ taskUuid }, attempt));
    return planOf(await orUndefined(latest, "PLAN_NOT_FOUND"));
  }

  /** The plans, oldest first. */
  plans(options: RangeOptions = {}): AsyncGenerator<LogRecord, void, undefined> {
    return this.#reader.plans(options);
  }

  /** The newest summary that the view has, or undefined if there is none. */
  async latestSummary(options: CallOptions = {}): Promise<Summary | undefined> {
    const { core, uuid: taskUuid } = this;
    const latest = core.read(options, (attempt) => core.wire.rpc.getLatestSummary({ taskUuid }, attempt));
    return (await orUndefined(latest, "SUMMARY_NOT_FOUND"))?.summary;
  }

  /** The summaries, oldest first. Those that were taken back have `undone: true`. */
  summaries(options: CallOptions & { limit?: Count } = {}): AsyncGenerator<JsonObject, void, undefined> {
    return this.#reader.summaries(options);
  }

  /** Reports the tokens of one call of the LLM. */
  async recordUsage(usage: Usage, options: MutationOptions = {}): Promise<RecordUsageResponse> {
    const { core } = this;
    const tokens = usageInit(usage);
    return await core.change(options, (target, attempt) =>
      core.wire.rpc.recordUsage({ ...target, ...tokens }, attempt),
    );
  }

  /** Adds to the counters. */
  async updateStatistics(
    add: StatisticsInput,
    options: MutationOptions = {},
  ): Promise<UpdateStatisticsResponse> {
    const { core } = this;
    const numbers = statisticsInit(add);
    return await core.change(options, (target, attempt) =>
      core.wire.rpc.updateStatistics({ ...target, ...numbers }, attempt),
    );
  }
}
