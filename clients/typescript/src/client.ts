// A client of one server: finds out whether it is there, and starts, finds and lists tasks.

import { hostname } from "node:os";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, durationMs, type TimestampSchema } from "@bufbuild/protobuf/wkt";
import { createClient, type Client as RpcClient } from "@connectrpc/connect";
import { type ConnectOptions, checkConnectOptions, optionsFromEnv } from "./address.js";
import {
  CALL_FIELDS,
  Caller,
  type CallOptions,
  checkedTimeout,
  MAX_TIMER_MS,
  MUTATION_FIELDS,
  type MutationOptions,
  pause,
} from "./calls.js";
import { checkFields, checkKind, checkNames, type Fields } from "./check.js";
import type { Wire } from "./core.js";
import {
  INHERIT_MODES,
  type InheritModeName,
  TASK_ORDERS,
  TASK_STATUSES,
  type TaskOrderInput,
  type TaskStatusInput,
} from "./enums.js";
import { CancelledError, type ContextStoreError, DeadlineError, UnavailableError } from "./errors.js";
import {
  ContextStore,
  type GetInheritanceContextResponse,
  type GetServerInfoResponse,
  type PreviousContext,
  type StartTaskRequest,
  TaskFilterSchema,
} from "./gen/contextstore/v1/context_store_pb.js";
import {
  type Holder,
  HolderSchema,
  type TaskKeySchema,
  type Task as TaskMessage,
  TaskStatus,
} from "./gen/contextstore/v1/task_pb.js";
import { type CollectGarbageResponse, ToolOutputs } from "./gen/contextstore/v1/tool_outputs_pb.js";
import { Health, HealthCheckResponse_ServingStatus } from "./gen/grpc/health/v1/health_pb.js";
import { newInstanceId, newRequestId, newTaskUuid } from "./ids.js";
import { Pending } from "./outbox.js";
import { forkTask, Task } from "./task.js";
import { type Connection, openConnection } from "./transport.js";
import { type ConfigInput, type Count, configInit, type ForkOptions, toCount } from "./values.js";

/** What to start. */
export interface StartOptions extends MutationOptions {
  /** The task's id. Default: a new UUIDv7. That of a running task takes it up. */
  readonly uuid?: string;
  /** Where the task comes from. */
  readonly key?: TaskKey;
  /** Who it is for. */
  readonly user?: string;
  /** How it is kept. */
  readonly config?: ConfigInput;
  /** The generation the caller last had: if the task was taken over since, the call fails. */
  readonly leaseGeneration?: Count;
  /**
   * What a new task takes over: `auto` (the default: from the newest task that `previousContexts` finds, if the
   * configuration wants that), `never`, or the id of a task that ended. `inheritedFrom` of the task tells.
   */
  readonly inherit?: InheritModeName | (string & {});
  /** The system prompt: appended as the first message of a new task. */
  readonly systemMessage?: string;
}

/** Which tasks to look for: all fields are optional. */
export interface TaskFilterInput {
  readonly taskSource?: string;
  readonly owner?: string;
  readonly repo?: string;
  readonly taskType?: string;
  readonly taskId?: string;
  readonly user?: string;
  readonly statuses?: readonly TaskStatusInput[];
  readonly createdFrom?: MessageInitShape<typeof TimestampSchema> | undefined;
  readonly createdBefore?: MessageInitShape<typeof TimestampSchema> | undefined;
}

/** Which tasks to list. */
export interface ListOptions extends CallOptions {
  readonly filter?: TaskFilterInput;
  /** Default: `created_desc`. */
  readonly order?: TaskOrderInput;
  /** How many to ask for at once. */
  readonly pageSize?: number;
}

const TAKE_UP_FIELDS = {
  ...MUTATION_FIELDS,
  user: "text",
  config: "any",
  inherit: "text",
  systemMessage: "text",
} as const satisfies Fields<TakeUpOptions>;
const START_FIELDS = {
  ...TAKE_UP_FIELDS,
  uuid: "text",
  key: "any",
  leaseGeneration: "any",
} as const satisfies Fields<StartOptions>;
const LIST_FIELDS = {
  ...CALL_FIELDS,
  filter: "any",
  order: "any",
  pageSize: "number",
} as const satisfies Fields<ListOptions>;
const GARBAGE_FIELDS = {
  ...CALL_FIELDS,
  taskUuid: "text",
  dryRun: "flag",
  minAgeMs: "number",
} as const satisfies Fields<GarbageOptions>;

/** What to start, beside its key. */
export type TakeUpOptions = Omit<StartOptions, "uuid" | "key" | "leaseGeneration">;

/** Where a task comes from: all fields are optional. */
export type TaskKey = MessageInitShape<typeof TaskKeySchema>;

/** What to remove of what no log names. */
export interface GarbageOptions extends CallOptions {
  /** The task. Default: all tasks. */
  readonly taskUuid?: string;
  /** Tells what would be removed, and removes nothing. */
  readonly dryRun?: boolean;
  /** How long ago an output must have been put last. Default: an hour. */
  readonly minAgeMs?: number;
}

/**
 * Prepares a client; the first call connects.
 *
 * @example
 * ```ts
 * const client = connect({ address: "unix:/run/contextstore/contextstore.sock" });
 * const other = connect({ address: "tcp:127.0.0.1:50551", tokenFile: "contexts/token", timeoutMs: 5_000 });
 * ```
 */
export function connect(options: ConnectOptions): Client {
  return new Client(options);
}

/**
 * As `connect`, with what the environment says: CONTEXTSTORE_ADDRESS, CONTEXTSTORE_TOKEN,
 * CONTEXTSTORE_TOKEN_FILE, and CONTEXTSTORE_DATA_DIR for what they leave open; for `tls:HOST:PORT` also
 * CONTEXTSTORE_CA_FILE, CONTEXTSTORE_CERT_FILE and CONTEXTSTORE_KEY_FILE.
 */
export function fromEnv(env: NodeJS.ProcessEnv = process.env): Client {
  return new Client(optionsFromEnv(env));
}

/**
 * A client of one server. May be used by many callers at once.
 *
 * @example
 * ```ts
 * await using client = fromEnv();
 * await client.waitUntilReady();
 * const task = await client.task({ taskSource: "github", owner: "octo", repo: "hello", taskType: "issue", taskId: "7" });
 * ```
 */
export class Client {
  /** Every method of the service as it is: no retries, no request ids, no lease. Errors are Connect's. */
  readonly rpc: RpcClient<typeof ContextStore>;
  /** The same of the service of tool outputs. */
  readonly outputsRpc: RpcClient<typeof ToolOutputs>;
  /** Where the server is. */
  readonly address: string;
  /** Who this client is to the server. */
  readonly holder: Holder;
  readonly #connection: Connection;
  readonly #health: RpcClient<typeof Health>;
  readonly #caller: Caller;
  readonly #pending = new Pending();
  readonly #closeTimeoutMs: number;

  constructor(options: ConnectOptions) {
    checkConnectOptions(options);
    this.address = options.address;
    this.#caller = new Caller(options.timeoutMs, options.retryForMs);
    this.#closeTimeoutMs = checkedTimeout("closeTimeoutMs", options.closeTimeoutMs ?? CLOSE_MS, 0);
    this.#connection = openConnection(options);
    this.rpc = createClient(ContextStore, this.#connection.transport);
    this.outputsRpc = createClient(ToolOutputs, this.#connection.transport);
    this.#health = createClient(Health, this.#connection.transport);
    this.holder = create(HolderSchema, {
      instanceId: options.instanceId ?? newInstanceId(),
      processId: process.pid,
      hostname: hostname(),
    });
  }

  get #wire(): Wire {
    const { rpc, outputsRpc: outputs, holder } = this;
    const checkSize = (bytes: number, method: string) => this.#connection.facts.checkSize(bytes, method);
    return { rpc, outputs, caller: this.#caller, holder, pending: this.#pending, checkSize };
  }

  /**
   * Ends the connection, every call on it and the renewing of leases; tasks stay as they are. What was appended with
   * `wait: false` is waited for, for `timeoutMs` (10 s, or as `connect` was given it); what is not appended then is thrown as a
   * `PipelineError`, or several as an `AggregateError`. Nothing else is waited for.
   */
  async close(options: { readonly timeoutMs?: number } = {}): Promise<void> {
    checkFields("options", options, { timeoutMs: "any" });
    const timeoutMs = checkedTimeout("timeoutMs", options.timeoutMs ?? this.#closeTimeoutMs, 0);
    this.#pending.close();
    const failures: unknown[] = [];
    if (!this.#pending.isEmpty) {
      const late = new AbortController();
      const timer = setTimeout(
        () => {
          late.abort();
        },
        Math.min(timeoutMs, MAX_TIMER_MS),
      );
      failures.push(...(await this.#pending.settled(late.signal)).filter(isFailure));
      clearTimeout(timer);
    }
    this.#caller.close();
    this.#connection.close();
    // What was still under way has failed now.
    failures.push(...(await this.#pending.settled()));
    throwAll(failures);
  }

  /** Waits until all that was appended with `wait: false` to any task is on disk; throws what was refused. */
  async flush(options: Pick<CallOptions, "signal"> = {}): Promise<void> {
    throwAll(await this.#pending.settled(options.signal));
  }

  /** Closes in the background, as `close` does. What is not appended then is a warning of the process. */
  [Symbol.dispose](): void {
    this.close().catch((thrown: unknown) => {
      process.emitWarning(String(thrown), { type: "ContextStoreUnsaved", code: "CONTEXTSTORE_UNSAVED" });
    });
  }

  /** As `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Waits until the server says that it serves: it may still be starting, or mending what a crash left. */
  async waitUntilReady(options: CallOptions = {}): Promise<void> {
    const timeoutMs = options.timeoutMs ?? 30_000;
    const deadline = performance.now() + timeoutMs;
    let last: ContextStoreError | undefined;
    for (;;) {
      const left = deadline - performance.now();
      if (left <= 0) {
        const why = last ? `: ${last.message}` : "";
        const message = `the server at ${this.address} is not ready after ${timeoutMs} ms${why}`;
        throw new DeadlineError(message, { code: "DEADLINE_EXCEEDED", cause: last, address: this.address });
      }
      // A call takes no less than a millisecond.
      last = await this.#notServing({ ...options, timeoutMs: Math.max(1, Math.min(left, 2_000)) });
      if (last === undefined) {
        return;
      }
      await pause(Math.min(50, left), options.signal);
    }
  }

  /** Why the server does not serve, or undefined if it does. Throws what waiting does not mend. */
  async #notServing(options: CallOptions): Promise<ContextStoreError | undefined> {
    try {
      const { status } = await this.#caller.once(options, (attempt) => this.#health.check({}, attempt));
      const name = HealthCheckResponse_ServingStatus[status] as string | undefined;
      const isServing = status === HealthCheckResponse_ServingStatus.SERVING;
      return isServing
        ? undefined
        : new UnavailableError(`its health is ${name ?? status}`, { code: "UNAVAILABLE" });
    } catch (thrown) {
      if (thrown instanceof UnavailableError || thrown instanceof DeadlineError) {
        return thrown;
      }
      throw thrown;
    }
  }

  /** What the server is and what it takes. */
  async serverInfo(options: CallOptions = {}): Promise<GetServerInfoResponse> {
    return await this.#caller.unary(options, (attempt) => this.rpc.getServerInfo({}, attempt));
  }

  /** Makes a task, or takes up one that is running, and keeps its lease alive. */
  async startTask(options: StartOptions = {}): Promise<Task> {
    return await this.#start(options, false);
  }

  async #start(options: StartOptions, resumed: boolean): Promise<Task> {
    checkFields("options", options, START_FIELDS);
    checkKey(options.key);
    const request = {
      taskUuid: options.uuid ?? newTaskUuid(),
      ...(options.key && { key: options.key }),
      user: options.user ?? "",
      config: configInit(options.config ?? {}),
      holder: this.holder,
      requestId: options.requestId || newRequestId(),
      leaseGeneration: toCount("leaseGeneration", options.leaseGeneration),
      inherit: inheritInit(options.inherit),
      systemMessage: options.systemMessage ?? "",
    };
    const started = await this.#caller.unary(options, (attempt) => this.rpc.startTask(request, attempt));
    const { task: { uuid = request.taskUuid } = {}, leaseGeneration, leaseTtl } = started;
    const { created: isNew, inheritedFrom, inheritanceComment } = started;
    const task = new Task(uuid, this.#wire, { isNew, resumed, inheritedFrom, inheritanceComment });
    task.lease.take(leaseGeneration, leaseTtl ? durationMs(leaseTtl) : 0);
    return task;
  }

  /** Makes another task out of the first messages of one, whatever its status; each of the two stands alone. */
  async forkTask(uuid: string, options: ForkOptions = {}): Promise<Task> {
    return await forkTask(this.#wire, uuid, options);
  }

  /** Tasks that ended and that a task with this key and user would go on with, newest first. */
  async previousContexts(
    key: TaskKey,
    user = "",
    options: CallOptions & { limit?: number } = {},
  ): Promise<readonly PreviousContext[]> {
    checkKey(key);
    checkFields("options", options, { ...CALL_FIELDS, limit: "number" });
    const request = { key, user, limit: options.limit ?? 0 };
    const found = await this.#caller.unary(options, (attempt) =>
      this.rpc.findPreviousContexts(request, attempt),
    );
    return found.contexts;
  }

  /** What a task would take over from one that ended. Refused with `NOTHING_TO_INHERIT` if there is nothing. */
  async inheritanceContext(
    uuid: string,
    options: CallOptions & { maxSummaryTokens?: Count } = {},
  ): Promise<GetInheritanceContextResponse> {
    const maxSummaryTokens = toCount("maxSummaryTokens", options.maxSummaryTokens);
    const request = { taskUuid: uuid, maxSummaryTokens };
    return await this.#caller.unary(options, (attempt) => this.rpc.getInheritanceContext(request, attempt));
  }

  /** Goes on with a paused task, and keeps its lease alive. */
  async resumeTask(uuid: string, options: MutationOptions & { leaseGeneration?: Count } = {}): Promise<Task> {
    const task = this.task(uuid);
    await task.resume(options);
    return task;
  }

  /** A task by its id, without a call and without a lease: to read it, or to change it while nobody holds it. */
  task(uuid: string): Task;
  /**
   * The task of a key: goes on with the newest one of this key and user that is running or paused, and starts one if there
   * is none; `resumed` of it tells. Its lease is kept alive. A task that was started less than a second ago may not be found yet; and one that
   * somebody else works on is refused with `LEASE_HELD`. `startTask` starts one in any case.
   */
  task(key: TaskKey, options?: TakeUpOptions): Promise<Task>;
  task(which: string | TaskKey, options: TakeUpOptions = {}): Task | Promise<Task> {
    return typeof which === "string" ? new Task(which, this.#wire) : this.#taskOf(which, options);
  }

  async #taskOf(key: TaskKey, options: TakeUpOptions): Promise<Task> {
    checkKey(key);
    checkFields("options", options, TAKE_UP_FIELDS);
    const { user = "", signal, timeoutMs } = options;
    const filter = { ...fieldsOf(key), user, statuses: [TaskStatus.RUNNING, TaskStatus.PAUSED] };
    const call = { ...(signal && { signal }), ...(timeoutMs !== undefined && { timeoutMs }) };
    for await (const found of this.listTasks({ ...call, filter })) {
      // A field that is left open is no wildcard here.
      if (isSameKey(found.key, key) && found.user === user) {
        return await this.#takeUp(found, call);
      }
    }
    return await this.startTask({ ...options, key });
  }

  async #takeUp({ uuid, status }: TaskMessage, call: CallOptions): Promise<Task> {
    if (status === TaskStatus.RUNNING) {
      return await this.#start({ ...call, uuid }, true);
    }
    const task = new Task(uuid, this.#wire, { resumed: true });
    await task.resume(call);
    return task;
  }

  /** Removes outputs of tools that no log names and that are not new. Can be repeated. */
  async collectGarbage(options: GarbageOptions = {}): Promise<CollectGarbageResponse> {
    checkFields("options", options, GARBAGE_FIELDS);
    const { taskUuid = "", dryRun = false, minAgeMs } = options;
    const request = { taskUuid, dryRun, ...(minAgeMs !== undefined && { minAge: durationFromMs(minAgeMs) }) };
    return await this.#caller.unary(options, (attempt) => this.outputsRpc.collectGarbage(request, attempt));
  }

  /** The tasks that match, page by page. */
  async *listTasks(options: ListOptions = {}): AsyncGenerator<TaskMessage, void, undefined> {
    checkFields("options", options, LIST_FIELDS);
    const { filter, pageSize = 0 } = options;
    const order = TASK_ORDERS.value("options.order", options.order);
    const which = filter && { filter: filterInit(filter) };
    let pageToken = "";
    do {
      const request = { ...which, order, pageSize, pageToken };
      const page = await this.#caller.unary(options, (attempt) => this.rpc.listTasks(request, attempt));
      yield* page.tasks;
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
  }
}

/** How long closing waits for what is under way. */
const CLOSE_MS = 10_000;

/** Whether it is more than that the time was over. */
function isFailure(thrown: unknown): boolean {
  return !(thrown instanceof CancelledError);
}

function throwAll(failures: readonly unknown[]): void {
  if (failures.length > 1) {
    throw new AggregateError(failures, `messages were not appended: ${failures.map(String).join("; ")}`);
  }
  if (failures.length === 1) {
    throw failures[0];
  }
}

const KEY_FIELDS = ["taskSource", "owner", "repo", "taskType", "taskId"] as const;

const FILTER_NAMES = TaskFilterSchema.fields.map(({ localName }) => localName);

/** Returns the filter of a request. */
function filterInit(filter: TaskFilterInput): MessageInitShape<typeof TaskFilterSchema> {
  checkNames("options.filter", filter, ["$typeName", ...FILTER_NAMES]);
  const { statuses = [], ...rest } = filter;
  const values = TASK_STATUSES.list("options.filter.statuses", statuses);
  return { ...rest, statuses: values };
}

/** Returns a mode by its name; what is no mode is the id of a task. */
function inheritInit(inherit: string | undefined): StartTaskRequest["inherit"] {
  if (inherit === undefined || INHERIT_MODES.names.includes(inherit)) {
    const value = INHERIT_MODES.value("options.inherit", inherit as InheritModeName | undefined);
    return { case: "inheritMode", value };
  }
  return { case: "inheritFrom", value: inherit };
}

/** Throws a TypeError if a key has another field than those of a key, or one that is no text. */
function checkKey(key: TaskKey | undefined): void {
  if (key !== undefined) {
    // Of a task that was read it has these two beside its own.
    checkNames("key", key, [...KEY_FIELDS, "$typeName", "$unknown"]);
    for (const field of KEY_FIELDS) {
      if (key[field] !== undefined) {
        checkKind(`key.${field}`, key[field], "text");
      }
    }
  }
}

function fieldsOf(key: TaskKey | undefined) {
  const [taskSource = "", owner = "", repo = "", taskType = "", taskId = ""] = KEY_FIELDS.map(
    (field) => key?.[field],
  );
  return { taskSource, owner, repo, taskType, taskId };
}

function isSameKey(a: TaskKey | undefined, b: TaskKey): boolean {
  return JSON.stringify(fieldsOf(a)) === JSON.stringify(fieldsOf(b));
}
