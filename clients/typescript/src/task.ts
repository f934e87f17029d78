// One task: its life, its messages, its models, and how it is kept small. Reading and recording are in task-records.ts.

import { durationMs } from "@bufbuild/protobuf/wkt";
import { type AppendInput, asInput, EncodedMessage, Pipeline } from "./append.js";
import { type Attempt, CALL_FIELDS, type CallOptions, type MutationOptions } from "./calls.js";
import { type ChatEvent, type ChatOptions, chat, type RequestOptions, requestChunks } from "./chat.js";
import { checkFields } from "./check.js";
import {
  beginCompaction,
  type Compaction,
  type CompactionOptions,
  type CompressOptions,
  compress,
} from "./compress.js";
import { TaskCore, type Wire } from "./core.js";
import type { ProviderInput } from "./enums.js";
import { ContextStoreError, NotFoundError, withLast } from "./errors.js";
import type {
  AppendMessageResponse,
  AppendMessagesRequest,
  CompressDone,
  RewindTaskResponse,
  UndoCompactionResponse,
} from "./gen/contextstore/v1/context_store_pb.js";
import type { Task as TaskMessage } from "./gen/contextstore/v1/task_pb.js";
import { type Ending, type Hook, type HookErrors, type HookFailure, Hooks } from "./hooks.js";
import { newRequestId, newTaskUuid } from "./ids.js";
import type { Lease } from "./lease.js";
import { readable } from "./streams.js";
import { TaskRecords } from "./task-records.js";
import {
  APPEND_FIELDS,
  type AppendOptions,
  type ConfigInput,
  type Count,
  configInit,
  FORK_FIELDS,
  type ForkOptions,
  type MessageInput,
  toCount,
} from "./values.js";

/** How a task came to be. */
export interface Origin {
  readonly isNew?: boolean;
  readonly resumed?: boolean;
  readonly inheritedFrom?: string;
  readonly inheritanceComment?: string;
}

/** How long a completion may take at least, for which the server asks a model. */
const SUMMARIZING_MS = 300_000;

/** Reasons for which there is nothing of ours to put aside when a task is disposed of. */
const NOT_OURS = ["LEASE_HELD", "STALE_LEASE", "WRONG_STATUS", "TASK_NOT_FOUND"];

/**
 * A task. What changes it is acknowledged when it is on disk, and may be repeated with the same request id. One that is
 * disposed of (`await using`) before it was completed or failed is paused.
 *
 * @example
 * ```ts
 * await using task = await client.startTask({ user: "ada", config: { model: "gpt-5" } });
 * await task.append({ role: "user", content: "Fix the failing test, please." });
 * for await (const event of task.chat([])) {
 *   if (event.type === "text") process.stdout.write(event.text);
 * }
 * await task.complete("Fixed it.");
 * ```
 */
export class Task extends TaskRecords {
  /** The lease that changes are made under; it is renewed in the background. */
  readonly lease: Lease;
  /** Whether it was made, rather than taken up or looked at. */
  readonly isNew: boolean;
  /** Whether `client.task(key)` found it, running or paused, rather than starting it. */
  readonly resumed: boolean;
  /** The task that it took over from when it was started; empty if there was none. */
  readonly inheritedFrom: string;
  /** With it: a comment for people, as to post on the issue. */
  readonly inheritanceComment: string;
  /** What a hook that throws does. */
  hookErrors: HookErrors = "continue";
  /** The hooks that threw when the task was last completed or stopped. */
  hookFailures: readonly HookFailure[] = [];
  readonly #hooks = new Hooks<Task>();

  /** @internal */
  constructor(uuid: string, wire: Wire, origin: Origin = {}) {
    super(new TaskCore(uuid, wire));
    this.lease = this.core.lease;
    this.isNew = origin.isNew ?? false;
    this.resumed = origin.resumed ?? false;
    this.inheritedFrom = origin.inheritedFrom ?? "";
    this.inheritanceComment = origin.inheritanceComment ?? "";
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
    const failures: HookFailure[] = [];
    this.hookFailures = failures;
    await this.#hooks.run(ending, this.uuid, this.hookErrors, failures);
  }

  /** Puts it aside and ends the lease. */
  async pause(options: MutationOptions = {}): Promise<TaskMessage | undefined> {
    const { core } = this;
    await core.settle(options);
    await this.#before("paused");
    const { task } = await core.change(options, (target, attempt) =>
      core.wire.rpc.pauseTask(target, attempt),
    );
    this.lease.end();
    return task;
  }

  /** Goes on with it after a pause, under a new lease. */
  async resume(
    options: MutationOptions & { leaseGeneration?: Count } = {},
  ): Promise<TaskMessage | undefined> {
    const { core } = this;
    const request = {
      taskUuid: this.uuid,
      holder: core.wire.holder,
      requestId: options.requestId || newRequestId(),
      leaseGeneration: toCount("leaseGeneration", options.leaseGeneration ?? this.lease.lastGeneration),
    };
    const resumed = await core.read(options, (attempt) => core.wire.rpc.resumeTask(request, attempt), [
      "requestId",
      "leaseGeneration",
    ]);
    this.lease.take(resumed.leaseGeneration, resumed.leaseTtl ? durationMs(resumed.leaseTtl) : 0);
    return resumed.task;
  }

  /** Ends it well. The summary is what is to be remembered of it; without one, the server makes it. */
  async complete(finalSummary = "", options: MutationOptions = {}): Promise<TaskMessage | undefined> {
    const { core } = this;
    await core.settle(options);
    await this.#before("completed", finalSummary);
    const { task } = await core.change(
      options,
      (target, attempt) => core.wire.rpc.completeTask({ ...target, finalSummary }, attempt),
      finalSummary === "" ? { leastMs: SUMMARIZING_MS } : {},
    );
    this.lease.end();
    return task;
  }

  /** Ends it badly. */
  async fail(
    errorMessage: string,
    options: MutationOptions & { finalSummary?: string } = {},
  ): Promise<TaskMessage | undefined> {
    const { core } = this;
    const finalSummary = options.finalSummary ?? "";
    await core.settle(options);
    await this.#before("failed", finalSummary, errorMessage);
    const { task } = await core.change(
      options,
      (target, attempt) => core.wire.rpc.failTask({ ...target, errorMessage, finalSummary }, attempt),
      { more: ["finalSummary"] },
    );
    this.lease.end();
    return task;
  }

  /** Replaces its configuration as a whole. */
  async update(config: ConfigInput, options: MutationOptions = {}): Promise<TaskMessage | undefined> {
    const { core } = this;
    const init = configInit(config);
    const { task } = await core.change(options, (target, attempt) =>
      core.wire.rpc.updateTask({ ...target, config: init }, attempt),
    );
    return task;
  }

  /** Keeps the lease alive, as the client does by itself while the task runs. Answers for how many milliseconds. */
  async renewLease(options: CallOptions = {}): Promise<number> {
    return await this.core.renewLease(options);
  }

  /** Removes it with everything in it. Cannot be undone. */
  async delete(options: MutationOptions = {}): Promise<void> {
    const { core } = this;
    let attempts = 0;
    try {
      await core.change(options, (target, attempt) => {
        attempts += 1;
        return core.wire.rpc.deleteTask(target, attempt);
      });
    } catch (thrown) {
      // A removed task remembers nothing: if the answer to the first attempt was lost, this is it.
      if (!(attempts > 1 && thrown instanceof NotFoundError)) {
        throw thrown;
      }
    }
    this.lease.end();
  }

  /**
   * At the end of an `await using` block: waits for what is under way, and pauses the task if it was neither completed,
   * failed nor paused, so that anybody can resume it. A task that others have taken over is left to them.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.flush();
    if (this.lease.generation === 0n) {
      return;
    }
    try {
      await this.pause();
    } catch (thrown) {
      this.lease.end();
      if (!(thrown instanceof ContextStoreError && NOT_OURS.includes(thrown.reason ?? ""))) {
        throw thrown;
      }
    }
  }

  // Messages

  /**
   * Appends a message: an OpenAI chat message, or its JSON as text. It is on disk when this returns. With `wait: false` it
   * is on its way: the next read, turn or change waits for it, and throws a `PipelineError` if it was refused; so does
   * `flush`. What stands in `notAppended` of an error is taken as it is; the message of a call that fails is the last there.
   *
   * @example
   * ```ts
   * const { seq, pressure } = await task.append({ role: "user", content: "Hello" });
   * for (const message of many) await task.append(message, { wait: false });
   * await task.flush();
   * ```
   */
  append(
    message: MessageInput | AppendInput,
    options: AppendOptions & { readonly wait: false },
  ): Promise<undefined>;
  append(
    message: MessageInput | AppendInput,
    options?: AppendOptions & { readonly wait?: true },
  ): Promise<AppendMessageResponse>;
  append(
    message: MessageInput | AppendInput,
    options?: AppendOptions,
  ): Promise<AppendMessageResponse | undefined>;
  async append(
    message: MessageInput | AppendInput,
    options: AppendOptions = {},
  ): Promise<AppendMessageResponse | undefined> {
    const { core } = this;
    checkFields("options", options, APPEND_FIELDS);
    const { wait, signal, pinned: isPinned, outputRef: ref, requestId: id } = options;
    const given = {
      ...(isPinned && { pinned: true }),
      ...(ref && { outputRef: ref }),
      ...(id && { requestId: id }),
    };
    const encoded = EncodedMessage.of({ ...given, ...asInput(message) });
    const { newMessage, requestId } = encoded;
    try {
      if (wait === false) {
        await core.outbox.push(encoded, signal);
        return undefined;
      }
      return await core.change(
        { ...options, requestId },
        ({ taskUuid, leaseGeneration }, attempt) =>
          core.wire.rpc.appendMessage({ taskUuid, leaseGeneration, message: newMessage }, attempt),
        { more: Object.keys(APPEND_FIELDS) },
      );
    } catch (thrown) {
      throw withLast(thrown, encoded.input);
    }
  }

  /** Waits until all that was appended with `wait: false` is on disk. Throws a `PipelineError` if it was not to be. */
  async flush(options: Pick<CallOptions, "signal"> = {}): Promise<void> {
    await this.core.settle(options);
  }

  /**
   * Appends messages without waiting for each, and yields an acknowledgement for each, in order. Nothing is
   * sent before the first is asked for, and at most 512 messages wait for theirs. A broken connection is taken up
   * again. The first message that is refused ends it: what came before is appended, nothing behind it is, and
   * `notAppended` of the error has what was taken from the source and is not appended. What the source throws, or a message
   * that cannot be sent (its error names its index), is thrown when everything before it is acknowledged.
   */
  async *appendMany(
    messages: AsyncIterable<MessageInput | AppendInput> | Iterable<MessageInput | AppendInput>,
    options: CallOptions = {},
  ): AsyncGenerator<AppendMessageResponse, void, undefined> {
    const { wire } = this.core;
    checkFields("options", options, CALL_FIELDS);
    await this.core.settle(options);
    const pipeline = new Pipeline(wire, messages, this.core.target);
    const open = (requests: AsyncIterable<AppendMessagesRequest>, attempt: Attempt) =>
      wire.rpc.appendMessages(requests, attempt);
    for await (const acknowledged of pipeline.run(options, open)) {
      this.lease.used();
      yield acknowledged;
    }
  }

  /** Pins a message: no compaction takes it out of the view. */
  async pin(seq: Count, options: MutationOptions = {}): Promise<void> {
    const { core } = this;
    const at = toCount("seq", seq);
    await core.change(options, (target, attempt) =>
      core.wire.rpc.pinMessage({ ...target, seq: at }, attempt),
    );
  }

  /** Releases a pinned message. */
  async unpin(seq: Count, options: MutationOptions = {}): Promise<void> {
    const { core } = this;
    const at = toCount("seq", seq);
    await core.change(options, (target, attempt) =>
      core.wire.rpc.unpinMessage({ ...target, seq: at }, attempt),
    );
  }

  /** Takes the view back to what it was after a message. The log keeps everything. */
  async rewind(seq: Count, options: MutationOptions = {}): Promise<RewindTaskResponse> {
    const { core } = this;
    const to = toCount("seq", seq);
    return await core.change(options, (target, attempt) =>
      core.wire.rpc.rewindTask({ ...target, seq: to }, attempt),
    );
  }

  // Keeping it small

  /**
   * Compresses the context now, whatever its pressure; others may append and read meanwhile. A context of which nothing
   * can go is no error: `compressed` is false, and `skipReason` says why. The server goes on if the caller goes away.
   * `timeoutMs` is how long it may be silent; without it, the server watches over its summariser.
   */
  async compress(options: CompressOptions = {}): Promise<CompressDone> {
    return await compress(this.core, options);
  }

  /**
   * Asks for what to summarise, for an agent that summarises by itself. Nothing else compresses the task until it is
   * committed or given up, or its time is over. Refused with the reason `NOTHING_TO_SUMMARIZE` if there is nothing to.
   */
  async beginCompaction(options: CompactionOptions & CallOptions = {}): Promise<Compaction> {
    return await beginCompaction(this.core, options);
  }

  /**
   * Takes back the newest compaction in force: the view is what it was before, and what was appended since. Refused with
   * the reason `NOTHING_TO_UNDO` if there is none.
   */
  async undoCompaction(options: MutationOptions = {}): Promise<UndoCompactionResponse> {
    const { core } = this;
    return await core.change(options, (target, attempt) => core.wire.rpc.undoCompaction(target, attempt));
  }

  /** Makes another task out of the messages up to `atSeq`, or of all; each of the two stands alone. */
  async fork(options: ForkOptions = {}): Promise<Task> {
    await this.core.settle(options);
    return await forkTask(this.core.wire, this.uuid, options);
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
  chat(
    messages: Iterable<MessageInput | AppendInput>,
    options: ChatOptions = {},
  ): AsyncGenerator<ChatEvent, void, undefined> {
    return chat(this.core, messages, options);
  }

  /**
   * What the model sees as the body of a request to a provider (`openai`, `openai_responses`, `anthropic`, `ollama`,
   * `lmstudio`): a web stream of JSON straight from disk, for an HTTP client of one's own. It is valid whatever happened to the
   * task. A connection that breaks after the first byte is an error of the stream: ask again.
   *
   * @example
   * ```ts
   * const response = await fetch("https://api.openai.com/v1/chat/completions", {
   *   method: "POST",
   *   headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
   *   body: task.requestBody("openai", { model: "gpt-5", params: { stream: true } }),
   *   duplex: "half", // fetch wants it for every body that is a stream
   * });
   * ```
   */
  requestBody(provider: ProviderInput, options: RequestOptions = {}): ReadableStream<Uint8Array> {
    return readable(requestChunks(this.core, provider, options));
  }
}

/** Makes another task out of the first messages of one. */
export async function forkTask(wire: Wire, taskUuid: string, options: ForkOptions): Promise<Task> {
  checkFields("options", options, FORK_FIELDS);
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
