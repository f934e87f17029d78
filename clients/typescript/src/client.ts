// A client of one server: finds out whether it is there, and starts, finds and lists tasks.

import { hostname } from "node:os";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationMs } from "@bufbuild/protobuf/wkt";
import { createClient, type Client as RpcClient } from "@connectrpc/connect";
import { type ConnectOptions, optionsFromEnv } from "./address.js";
import { Caller, type CallOptions, type MutationOptions, pause } from "./calls.js";
import { type ContextStoreError, DeadlineError, UnavailableError } from "./errors.js";
import {
  ContextStore,
  type GetInheritanceContextResponse,
  type GetServerInfoResponse,
  type PreviousContext,
  type TaskFilterSchema,
} from "./gen/contextstore/v1/context_store_pb.js";
import {
  type Holder,
  HolderSchema,
  type TaskKeySchema,
  type Task as TaskMessage,
} from "./gen/contextstore/v1/task_pb.js";
import { Health, HealthCheckResponse_ServingStatus } from "./gen/grpc/health/v1/health_pb.js";
import { newInstanceId, newRequestId, newTaskUuid } from "./ids.js";
import { forkTask, Task, type Wire } from "./task.js";
import { type Connection, openConnection } from "./transport.js";
import { type ConfigInput, type Count, configInit, type ForkOptions, toCount } from "./values.js";

/** What to start. */
export interface StartOptions extends MutationOptions {
  /** The task's id. Default: a new UUIDv7. That of a running task takes it up. */
  readonly uuid?: string;
  /** Where the task comes from. */
  readonly key?: MessageInitShape<typeof TaskKeySchema>;
  /** Who it is for. */
  readonly user?: string;
  /** How it is kept. */
  readonly config?: ConfigInput;
  /** The generation the caller last had: if the task was taken over since, the call fails. */
  readonly leaseGeneration?: Count;
  /**
   * What a new task takes over: `AUTO` (the default: from the newest task that `previousContexts` finds, if the
   * configuration wants that), `NEVER`, or the id of a task that ended. `inheritedFrom` of the task tells.
   */
  readonly inherit?: "AUTO" | "NEVER" | (string & {});
  /** The system prompt: appended as the first message of a new task. */
  readonly systemMessage?: string;
}

/** Which tasks to list. */
export interface ListOptions extends CallOptions {
  readonly filter?: MessageInitShape<typeof TaskFilterSchema>;
  readonly order?: "created_desc" | "created_asc" | "updated_desc" | "updated_asc";
  /** How many to ask for at once. */
  readonly pageSize?: number;
}

/** Prepares a client; the first call connects. */
export function connect(options: ConnectOptions): Client {
  return new Client(options);
}

/**
 * As `connect`, with what the environment says: CONTEXTSTORE_ADDRESS, CONTEXTSTORE_TOKEN,
 * CONTEXTSTORE_TOKEN_FILE, and CONTEXTSTORE_DATA_DIR for what they leave open.
 */
export function fromEnv(env: NodeJS.ProcessEnv = process.env): Client {
  return new Client(optionsFromEnv(env));
}

/** A client of one server. May be used by many callers at once. */
export class Client {
  /** Every method of the service as it is: no retries, no request ids, no lease. Errors are Connect's. */
  readonly rpc: RpcClient<typeof ContextStore>;
  /** Who this client is to the server. */
  readonly holder: Holder;
  readonly #connection: Connection;
  readonly #health: RpcClient<typeof Health>;
  readonly #caller: Caller;

  constructor(options: ConnectOptions) {
    this.#caller = new Caller(options.timeoutMs, options.retryForMs);
    this.#connection = openConnection(options);
    this.rpc = createClient(ContextStore, this.#connection.transport);
    this.#health = createClient(Health, this.#connection.transport);
    this.holder = create(HolderSchema, {
      instanceId: options.instanceId ?? newInstanceId(),
      processId: process.pid,
      hostname: hostname(),
    });
  }

  get #wire(): Wire {
    return { rpc: this.rpc, caller: this.#caller, holder: this.holder };
  }

  /** Ends the connection, every call on it and the renewing of leases. Tasks stay as they are. */
  close(): void {
    this.#caller.close();
    this.#connection.close();
  }

  /** As `close`. */
  [Symbol.dispose](): void {
    this.close();
  }

  /** Waits until the server says that it serves: it may still be starting, or mending what a crash left. */
  async waitUntilReady(options: CallOptions = {}): Promise<void> {
    const timeoutMs = options.timeoutMs ?? 30_000;
    const deadline = performance.now() + timeoutMs;
    let last: unknown;
    for (;;) {
      const left = deadline - performance.now();
      if (left <= 0) {
        const message = `the server is not ready after ${timeoutMs} ms`;
        throw new DeadlineError(message, { code: "DEADLINE_EXCEEDED", cause: last });
      }
      last = await this.#notServing({ ...options, timeoutMs: Math.min(left, 2_000) });
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
      const name = HealthCheckResponse_ServingStatus[status];
      const isServing = status === HealthCheckResponse_ServingStatus.SERVING;
      return isServing ? undefined : new UnavailableError(`its health is ${name}`, { code: "UNAVAILABLE" });
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
    const request = {
      taskUuid: options.uuid ?? newTaskUuid(),
      ...(options.key && { key: options.key }),
      user: options.user ?? "",
      config: configInit(options.config ?? {}),
      holder: this.holder,
      requestId: options.requestId || newRequestId(),
      leaseGeneration: toCount("leaseGeneration", options.leaseGeneration),
      inherit: options.inherit ?? "",
      systemMessage: options.systemMessage ?? "",
    };
    const started = await this.#caller.unary(options, (attempt) => this.rpc.startTask(request, attempt));
    const { task: { uuid = request.taskUuid } = {}, leaseGeneration, leaseTtl } = started;
    const { created: isNew, inheritedFrom, inheritanceComment } = started;
    const task = new Task(uuid, this.#wire, { isNew, inheritedFrom, inheritanceComment });
    task.lease.take(leaseGeneration, leaseTtl ? durationMs(leaseTtl) : 0);
    return task;
  }

  /** Makes another task out of the first messages of one, whatever its status; each of the two stands alone. */
  async forkTask(uuid: string, options: ForkOptions = {}): Promise<Task> {
    return await forkTask(this.#wire, uuid, options);
  }

  /** Tasks that ended and that a task with this key and user would go on with, newest first. */
  async previousContexts(
    key: MessageInitShape<typeof TaskKeySchema>,
    user = "",
    options: CallOptions & { limit?: number } = {},
  ): Promise<readonly PreviousContext[]> {
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
  task(uuid: string): Task {
    return new Task(uuid, this.#wire);
  }

  /** The tasks that match, page by page. */
  async *listTasks(options: ListOptions = {}): AsyncGenerator<TaskMessage, void, undefined> {
    const { filter, order = "", pageSize = 0 } = options;
    let pageToken = "";
    do {
      const request = { ...(filter && { filter }), order, pageSize, pageToken };
      const page = await this.#caller.unary(options, (attempt) => this.rpc.listTasks(request, attempt));
      yield* page.tasks;
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
  }
}
