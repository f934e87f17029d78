// Appending many messages over one stream, without waiting for each, and across broken connections.

import { create } from "@bufbuild/protobuf";
import type { Attempt, Caller, CallOptions } from "./calls.js";
import { checkFields } from "./check.js";
import { ContextStoreError, toError, withNotAppended } from "./errors.js";
import {
  type AppendMessageResponse,
  type AppendMessagesRequest,
  AppendMessagesRequestSchema,
  type AppendMessagesResponse,
} from "./gen/contextstore/v1/context_store_pb.js";
import { type NewMessage, NewMessageSchema } from "./gen/contextstore/v1/message_pb.js";
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

/** A message as it is sent: it does not change when the caller changes the object that was handed over. */
export class EncodedMessage {
  readonly json: string;
  readonly pinned: boolean;
  readonly outputRef: string;
  readonly requestId: string;
  readonly #isText: boolean;

  private constructor({ message, pinned, outputRef, requestId }: AppendInput, name: string) {
    this.json = messageJson(message, name);
    this.#isText = typeof message === "string";
    this.pinned = pinned ?? false;
    this.outputRef = outputRef ?? "";
    this.requestId = requestId || newRequestId();
  }

  /** Encodes what was handed over. An error calls it by `name`. */
  static of(item: MessageInput | AppendInput | EncodedMessage, name = "message"): EncodedMessage {
    if (item instanceof EncodedMessage) {
      return item;
    }
    return new EncodedMessage(asInput(item, name), name);
  }

  /** What was handed over, with its request id: appended again, it is stored once. */
  get input(): AppendInput {
    const { json, pinned, outputRef, requestId } = this;
    const message = this.#isText ? json : (JSON.parse(json) as MessageInput);
    return { message, pinned, ...(outputRef !== "" && { outputRef }), requestId };
  }

  /** The message of a request. */
  get newMessage(): NewMessage {
    const { json: value, pinned, outputRef, requestId } = this;
    return create(NewMessageSchema, { body: { case: "json", value }, pinned, outputRef, requestId });
  }
}

/** What messages are taken from. */
export type Source<T> = AsyncIterable<T> | Iterable<T>;

type Item = MessageInput | AppendInput | EncodedMessage;

/** What a run of appendMany needs of its client. */
export interface PipelineWire {
  readonly caller: Caller;
  /** Throws if the server does not take a message of so many bytes. */
  readonly checkSize: (bytes: number, method: string) => Promise<void>;
}

/** One run of appendMany. Keeps what is not acknowledged yet, to send it again if the connection breaks. */
export class Pipeline {
  readonly #source: AsyncIterator<Item> | Iterator<Item>;
  readonly #target: { readonly taskUuid: string; readonly leaseGeneration: bigint };
  readonly #wire: PipelineWire;
  readonly #waiting: EncodedMessage[] = [];
  #waitingChars = 0;
  #taken = 0;
  #pulling: Promise<void> | undefined;
  #wake: (() => void) | undefined;
  #ended = false;
  #failure: { readonly thrown: unknown } | undefined;

  constructor(
    wire: PipelineWire,
    source: Source<Item>,
    target: { taskUuid: string; leaseGeneration: bigint },
  ) {
    this.#wire = wire;
    this.#source =
      Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
    this.#target = target;
  }

  /**
   * Sends all, and yields the acknowledgements in order. What the source throws, or what cannot be encoded, is thrown when
   * everything before it is acknowledged.
   */
  async *run(
    options: CallOptions,
    open: (
      requests: AsyncIterable<AppendMessagesRequest>,
      attempt: Attempt,
    ) => AsyncIterable<AppendMessagesResponse>,
  ): AsyncGenerator<AppendMessageResponse, void, undefined> {
    const isDue = () => this.#waiting.length > 0;
    try {
      yield* this.#wire.caller.resuming(options, () => this.#attempt(options, open, isDue));
    } catch (thrown) {
      throw withNotAppended(
        toError(thrown),
        this.#waiting.map(({ input }) => input),
      );
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
    options: CallOptions,
    open: Parameters<Pipeline["run"]>[1],
    isDue: () => boolean,
  ): AsyncGenerator<AppendMessageResponse, void, undefined> {
    const position = { sent: 0 };
    const { caller } = this.#wire;
    const stream = caller.stream(options, (attempt) => open(this.#requests(position, attempt), attempt), {
      isDue,
    });
    for await (const { responses } of stream) {
      for (const acknowledged of responses) {
        this.#waitingChars -= this.#waiting.shift()?.json.length ?? 0;
        position.sent -= 1;
        this.#wake?.();
        yield acknowledged;
      }
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
        yield create(AppendMessagesRequestSchema, { ...this.#target, messages: [next.newMessage] });
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
        const message = EncodedMessage.of(item.value, `messages[${this.#taken}]`);
        this.#taken += 1;
        await this.#checkSize(message);
        this.#waiting.push(message);
        this.#waitingChars += message.json.length;
      }
    } catch (thrown) {
      // What was sent before is acknowledged first; then the caller gets its own error back.
      this.#ended = true;
      this.#failure = { thrown };
    } finally {
      this.#pulling = undefined;
    }
  }

  async #checkSize(message: EncodedMessage): Promise<void> {
    try {
      await this.#wire.checkSize(Buffer.byteLength(message.json), "AppendMessages");
    } catch (thrown) {
      throw withNotAppended(toError(thrown), [message.input]);
    }
  }

  /** Tells the source that nothing more is wanted, without waiting: it may be in the middle of something long. */
  #letGo(): void {
    const result = this.#source.return?.();
    if (result instanceof Promise) {
      result.catch(() => undefined);
    }
  }
}

/** With the fields of an AppendInput, also if it is a message alone. */
export function asInput(item: MessageInput | AppendInput, name = "message"): AppendInput {
  if (!isAppendInput(item)) {
    return { message: item };
  }
  checkFields(name, item, { message: "any", pinned: "flag", outputRef: "text", requestId: "text" });
  return item;
}

/** Whether it is more than a message. */
function isAppendInput(item: MessageInput | AppendInput): item is AppendInput {
  return (
    typeof item === "object" && (item as object | null) !== null && "message" in item && !("role" in item)
  );
}
