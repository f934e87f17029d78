// Appending many messages over one stream, without waiting for each, and across broken connections.

import { create } from "@bufbuild/protobuf";
import type { Attempt, Caller, CallOptions } from "./calls.js";
import { ContextStoreError } from "./errors.js";
import {
  type AppendMessagesRequest,
  AppendMessagesRequestSchema,
  type AppendMessagesResponse,
} from "./gen/contextstore/v1/context_store_pb.js";
import { newRequestId } from "./ids.js";
import { type MessageInput, messageJson } from "./values.js";

/** A message with what goes with it. */
export interface AppendInput {
  readonly message: MessageInput;
  /** Whether no compaction may take it out of the view. */
  readonly pinned?: boolean;
  /** The full output of a tool, if the message holds a cut view of it. */
  readonly outputRef?: string;
  /** Names the append. Default: a new one. */
  readonly requestId?: string;
}

/**
 * What may wait for its acknowledgement. What is sent again must be among the last 1 024 request ids of the task's
 * log, where events stand too: so half of that. Characters are those of their JSON.
 */
export const WINDOW_MESSAGES = 512;
export const WINDOW_CHARS = 16 << 20;

type Source = AsyncIterable<MessageInput | AppendInput> | Iterable<MessageInput | AppendInput>;

/** One run of appendMany. Keeps what is not acknowledged yet, to send it again if the connection breaks. */
export class Pipeline {
  readonly #source: AsyncIterator<MessageInput | AppendInput> | Iterator<MessageInput | AppendInput>;
  readonly #target: { readonly taskUuid: string; readonly leaseGeneration: bigint };
  readonly #waiting: AppendMessagesRequest[] = [];
  #waitingChars = 0;
  #pulling: Promise<void> | undefined;
  #wake: (() => void) | undefined;
  #ended = false;
  #failure: { readonly thrown: unknown } | undefined;

  constructor(source: Source, target: { taskUuid: string; leaseGeneration: bigint }) {
    this.#source =
      Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
    this.#target = target;
  }

  /** Sends all, and yields the acknowledgements in order. */
  async *run(
    caller: Caller,
    options: CallOptions,
    open: (
      requests: AsyncIterable<AppendMessagesRequest>,
      attempt: Attempt,
    ) => AsyncIterable<AppendMessagesResponse>,
  ): AsyncGenerator<AppendMessagesResponse, void, undefined> {
    const isDue = () => this.#waiting.length > 0;
    try {
      yield* caller.resuming(options, () => this.#attempt(caller, options, open, isDue));
    } finally {
      this.#ended = true;
      this.#wake?.();
      this.#letGo();
    }
    if (this.#failure) {
      throw this.#failure.thrown;
    }
  }

  async *#attempt(
    caller: Caller,
    options: CallOptions,
    open: Parameters<Pipeline["run"]>[2],
    isDue: () => boolean,
  ): AsyncGenerator<AppendMessagesResponse, void, undefined> {
    const position = { sent: 0 };
    const stream = caller.stream(options, (attempt) => open(this.#requests(position, attempt), attempt), {
      isDue,
    });
    for await (const acknowledged of stream) {
      this.#waitingChars -= size(this.#waiting.shift());
      position.sent -= 1;
      this.#wake?.();
      yield acknowledged;
    }
    if (this.#waiting.length > 0) {
      const message = `the server ended the stream, but ${this.#waiting.length} messages are not acknowledged`;
      throw new ContextStoreError(message, { code: "INTERNAL" });
    }
  }

  /** The requests of one attempt: first what an earlier one left, then what the source gives. */
  async *#requests(
    position: { sent: number },
    { signal }: Attempt,
  ): AsyncGenerator<AppendMessagesRequest, void, undefined> {
    while (!signal.aborted) {
      const next = this.#waiting[position.sent];
      if (next) {
        position.sent += 1;
        yield next;
      } else if (this.#ended) {
        return;
      } else if (this.#waiting.length >= WINDOW_MESSAGES || this.#waitingChars >= WINDOW_CHARS) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      } else {
        this.#pulling ??= this.#pull();
        await this.#pulling;
      }
    }
  }

  /** Takes one message from the source. It belongs to the run, not to an attempt, which may break meanwhile. */
  async #pull(): Promise<void> {
    try {
      const item = await this.#source.next();
      if (item.done) {
        this.#ended = true;
      } else if (!this.#ended) {
        const request = this.#request(item.value);
        this.#waiting.push(request);
        this.#waitingChars += size(request);
      }
    } catch (thrown) {
      // What was sent before is acknowledged first; then the caller gets its own error back.
      this.#ended = true;
      this.#failure = { thrown };
    } finally {
      this.#pulling = undefined;
    }
  }

  /** Tells the source that nothing more is wanted, without waiting: it may be in the middle of something long. */
  #letGo(): void {
    const result = this.#source.return?.();
    if (result instanceof Promise) {
      result.catch(() => undefined);
    }
  }

  #request(item: MessageInput | AppendInput): AppendMessagesRequest {
    const input: AppendInput = isAppendInput(item) ? item : { message: item };
    return create(AppendMessagesRequestSchema, {
      ...this.#target,
      body: { case: "messageJson", value: messageJson(input.message) },
      pinned: input.pinned ?? false,
      outputRef: input.outputRef ?? "",
      requestId: input.requestId || newRequestId(),
    });
  }
}

/** Whether it is more than a message. */
export function isAppendInput(item: MessageInput | AppendInput): item is AppendInput {
  return typeof item === "object" && "message" in item && !("role" in item);
}

function size(request: AppendMessagesRequest | undefined): number {
  return request?.body.case === "messageJson" ? request.body.value.length : 0;
}
