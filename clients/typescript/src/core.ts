// What everything that is done to one task has in common: its id, its lease, its calls, and what is still under way.

import { durationMs } from "@bufbuild/protobuf/wkt";
import type { Client as RpcClient } from "@connectrpc/connect";
import {
  type Attempt,
  CALL_FIELDS,
  type Caller,
  type CallOptions,
  MUTATION_FIELDS,
  type MutationOptions,
} from "./calls.js";
import { checkNames } from "./check.js";
import type { ContextStore } from "./gen/contextstore/v1/context_store_pb.js";
import type { Holder } from "./gen/contextstore/v1/task_pb.js";
import type { ToolOutputs } from "./gen/contextstore/v1/tool_outputs_pb.js";
import { newRequestId } from "./ids.js";
import { Lease } from "./lease.js";
import { Outbox, type Pending } from "./outbox.js";

/** What a task needs of its client. */
export interface Wire {
  readonly rpc: RpcClient<typeof ContextStore>;
  readonly outputs: RpcClient<typeof ToolOutputs>;
  readonly caller: Caller;
  readonly holder: Holder;
  /** Where messages wait that nobody waits for, while there are any. */
  readonly pending: Pending;
  /** Throws if the server does not take a message of so many bytes. */
  readonly checkSize: (bytes: number, method: string) => Promise<void>;
}

/** What calls about one task carry. */
export interface TaskTarget {
  readonly taskUuid: string;
  readonly leaseGeneration: bigint;
}

/** What a change carries beside what it is about. */
export interface Target extends TaskTarget {
  readonly requestId: string;
}

/** Makes the calls of one task. Before each of them, what was appended without waiting is on disk, or it throws. */
export class TaskCore {
  readonly uuid: string;
  readonly wire: Wire;
  readonly lease: Lease;
  readonly outbox: Outbox;

  constructor(uuid: string, wire: Wire) {
    this.uuid = uuid;
    this.wire = wire;
    this.lease = new Lease(() => this.renewLease({}));
    this.outbox = new Outbox(wire, () => this.target, this.lease);
  }

  /** What a change carries now. */
  get target(): TaskTarget {
    return { taskUuid: this.uuid, leaseGeneration: this.lease.generation };
  }

  /** Keeps the lease alive; not behind what is under way, as the lease is what lets that happen. */
  async renewLease(options: CallOptions): Promise<number> {
    const { rpc, caller } = this.wire;
    const { leaseTtl } = await caller.unary(options, (attempt) => rpc.renewLease(this.target, attempt));
    this.lease.used();
    return leaseTtl ? durationMs(leaseTtl) : 0;
  }

  /** Waits until nothing is under way; throws a PipelineError if something was refused. */
  async settle({ signal }: CallOptions): Promise<void> {
    await this.outbox.settled(signal);
  }

  /** Makes a call that changes nothing. `more` names fields that its options have beside those of every call. */
  async read<T>(
    options: CallOptions,
    call: (attempt: Attempt) => Promise<T>,
    more: readonly string[] = [],
  ): Promise<T> {
    checkNames("options", options, [...Object.keys(CALL_FIELDS), ...more]);
    await this.settle(options);
    return await this.wire.caller.unary(options, call);
  }

  /** Makes a change: every attempt under the same request id, so that it happens once. `more` as for `read`. */
  async change<T>(
    options: MutationOptions,
    call: (target: Target, attempt: Attempt) => Promise<T>,
    { leastMs, more = [] }: { readonly leastMs?: number; readonly more?: readonly string[] } = {},
  ): Promise<T> {
    checkNames("options", options, [...Object.keys(MUTATION_FIELDS), ...more]);
    await this.settle(options);
    const target = { ...this.target, requestId: options.requestId || newRequestId() };
    const answer = await this.wire.caller.unary(options, (attempt) => call(target, attempt), leastMs);
    this.lease.used();
    return answer;
  }

  /** Reads a stream, behind what is under way. */
  async *reading<T>(options: CallOptions, open: () => AsyncIterable<T>): AsyncGenerator<T, void, undefined> {
    await this.settle(options);
    yield* open();
  }
}
