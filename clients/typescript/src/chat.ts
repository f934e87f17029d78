// What a task has to do with models: a turn of one, and the body of a request to one.

import { type AppendInput, asInput } from "./append.js";
import {
  type Attempt,
  CALL_FIELDS,
  type CallOptions,
  MUTATION_FIELDS,
  type MutationOptions,
} from "./calls.js";
import { checkFields, type Fields } from "./check.js";
import type { TaskCore } from "./core.js";
import { PROVIDERS, type ProviderInput, type ProviderName } from "./enums.js";
import type { ChatResponse, ChatToolCall, ChatUsage } from "./gen/contextstore/v1/context_store_pb.js";
import type { Pressure } from "./gen/contextstore/v1/message_pb.js";
import { newRequestId } from "./ids.js";
import { toJson } from "./json.js";
import { type ChatMessage, type Count, type MessageInput, messageJson, toCount } from "./values.js";

/** What a request to a provider carries beside the context. */
interface RequestFields {
  /** The model. Default: the task's. */
  readonly model?: string;
  /** Fields of the body, in the provider's own words. */
  readonly params?: object;
  /** Tools, in the form of OpenAI's chat completions, whoever is asked. */
  readonly tools?: readonly object[];
}

/** How a model is asked. */
export interface ChatOptions extends RequestFields, MutationOptions {
  /** Who is asked: `openai`, `openai_responses`, `anthropic`, `ollama`, `lmstudio`. Default: the task's, else the server's. */
  readonly provider?: ProviderInput;
}

/** How a body is made. */
export interface RequestOptions extends RequestFields, CallOptions {
  /** A larger body is refused with `REQUEST_TOO_LARGE`, before its first byte. */
  readonly maxBytes?: Count;
}

const REQUEST_FIELDS = { model: "text", params: "any", tools: "any" } as const;
const CHAT_FIELDS = {
  ...MUTATION_FIELDS,
  ...REQUEST_FIELDS,
  provider: "any",
} as const satisfies Fields<ChatOptions>;
const BODY_FIELDS = {
  ...CALL_FIELDS,
  ...REQUEST_FIELDS,
  maxBytes: "any",
} as const satisfies Fields<RequestOptions>;

/** A call of a tool, as a model makes it. */
export interface FunctionCall {
  readonly id: string;
  readonly function: { readonly name: string; readonly arguments: string };
}

/** A call of a tool in an answer. */
export interface AssistantToolCall extends FunctionCall {
  id: string;
  type: "function";
  function: { name: string; arguments: string };
}

/** The assistant message of an answer. It fits what the OpenAI SDK takes. */
export interface AssistantMessage extends ChatMessage {
  role: "assistant";
  content?: string | null;
  tool_calls?: AssistantToolCall[];
}

/** Something that a model said, or that became of it. */
export type ChatEvent =
  /** The new messages are on disk, and the model is being asked. */
  | {
      readonly type: "started";
      readonly seqs: readonly bigint[];
      readonly provider: ProviderName | (string & {});
      readonly model: string;
    }
  /** More text of the answer. */
  | { readonly type: "text"; readonly text: string }
  /** More of what the model thinks, where the provider tells it. */
  | { readonly type: "reasoning"; readonly text: string }
  /** More of a tool call; id and name come with its first piece. The whole calls are in the message of `done`. */
  | ({ readonly type: "toolCall" } & Readonly<Pick<ChatToolCall, "index" | "id" | "name" | "arguments">>)
  /** What the provider charged, in disjoint parts. It is recorded: do not report it by `recordUsage`. */
  | ({ readonly type: "usage" } & Readonly<
      Pick<ChatUsage, "inputTokens" | "outputTokens" | "cacheCreationTokens" | "cacheReadTokens">
    >)
  /** The answer is whole and on disk. */
  | {
      readonly type: "done";
      readonly seq: bigint;
      readonly message: AssistantMessage;
      readonly finishReason: string;
      readonly pressure: Pressure | undefined;
      /** Whether a call with the same request id was answered before. */
      readonly duplicate: boolean;
    };

/** A model may think for any time; the server watches over it. */
const FOREVER = { silenceMs: Number.POSITIVE_INFINITY };

/** A turn of a model; see `Task.chat`. */
export async function* chat(
  core: TaskCore,
  messages: Iterable<MessageInput | AppendInput>,
  options: ChatOptions,
): AsyncGenerator<ChatEvent, void, undefined> {
  checkFields("options", options, CHAT_FIELDS);
  await core.settle(options);
  const request = {
    ...core.target,
    ...fields(options),
    messages: Array.from(messages, (message, at) => newMessage(message, `messages[${at}]`)),
    provider: PROVIDERS.value("options.provider", options.provider),
    requestId: options.requestId || newRequestId(),
  };
  const { rpc, caller } = core.wire;
  const open = (attempt: Attempt) => rpc.chat(request, attempt);
  for await (const { event } of caller.unlessBegun(options, open, FOREVER)) {
    core.lease.used();
    const told = eventOf(event);
    if (told) {
      yield told;
    }
  }
}

/** The body of a request to a provider; see `Task.requestBody`. */
export async function* requestChunks(
  core: TaskCore,
  provider: ProviderInput,
  options: RequestOptions,
): AsyncGenerator<Uint8Array, void, undefined> {
  checkFields("options", options, BODY_FIELDS);
  const maxBytes = toCount("maxBytes", options.maxBytes);
  const request = {
    taskUuid: core.uuid,
    provider: PROVIDERS.value("provider", provider),
    ...fields(options),
    maxBytes,
  };
  const { rpc, caller } = core.wire;
  const open = (attempt: Attempt) => rpc.renderContext(request, attempt);
  await core.settle(options);
  for await (const { data } of caller.unlessBegun(options, open)) {
    if (data.length > 0) {
      yield data;
    }
  }
}

/** Tools as they are sent. */
export function toolsJson(tools: RequestFields["tools"]): string {
  return tools === undefined ? "" : toJson("tools", tools);
}

function fields({ model = "", params, tools }: RequestFields) {
  const paramsJson = params === undefined ? "" : toJson("params", params);
  return { model, paramsJson, toolsJson: toolsJson(tools) };
}

function newMessage(given: MessageInput | AppendInput, name: string) {
  const { message, pinned = false, outputRef = "", requestId = "" } = asInput(given, name);
  return {
    body: { case: "json", value: messageJson(message, name) } as const,
    pinned,
    outputRef,
    requestId,
  };
}

/** As callers get it; nothing for an event that only a newer client knows. */
function eventOf(event: ChatResponse["event"]): ChatEvent | undefined {
  switch (event.case) {
    case "started": {
      const { seqs, provider, model } = event.value;
      return { type: "started", seqs, provider: PROVIDERS.name(provider), model };
    }
    case "text":
    case "reasoning":
      return { type: event.case, text: event.value };
    case "toolCall": {
      const { index, id, name, arguments: more } = event.value;
      return { type: "toolCall", index, id, name, arguments: more };
    }
    case "usage": {
      const { inputTokens, outputTokens, cacheCreationTokens, cacheReadTokens } = event.value;
      return { type: "usage", inputTokens, outputTokens, cacheCreationTokens, cacheReadTokens };
    }
    case "done": {
      const { seq, messageJson: json, finishReason, pressure, duplicate } = event.value;
      const message = JSON.parse(json) as AssistantMessage;
      return { type: "done", seq, message, finishReason, pressure, duplicate };
    }
    default:
      return undefined;
  }
}
