// What callers hand in, in the forms that are handy in JavaScript, and how it becomes what the protocol takes.

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { TaskConfigSchema } from "./gen/contextstore/v1/task_pb.js";

/** A count or a number of a message: the protocol has 64 bits, so answers are bigints; both may be handed in. */
export type Count = number | bigint;

/** As a bigint. Throws a RangeError, naming the value, if it is not a whole number from 0 to 2^64 - 1. */
export function toCount(name: string, value: Count | undefined): bigint {
  const isWhole = typeof value === "bigint" || value === undefined || Number.isSafeInteger(value);
  if (!isWhole || (value ?? 0) < 0 || (value ?? 0) > 0xffff_ffff_ffff_ffffn) {
    throw new RangeError(`${name} is ${value}; it must be a whole number from 0 to 2^64 - 1`);
  }
  return BigInt(value ?? 0);
}

/** A chat message as the OpenAI SDK has it. Fields that OpenAI does not know are kept. */
export interface ChatMessage {
  readonly role: "system" | "developer" | "user" | "assistant" | "tool" | (string & {});
  readonly [field: string]: unknown;
}

/** A message to append: an object, or its JSON as text, which is kept as it is. */
export type MessageInput = ChatMessage | string;

/** As JSON. */
export function messageJson(message: MessageInput): string {
  return typeof message === "string" ? message : JSON.stringify(message);
}

/** The configuration of a task. What is left out is as the server is configured. */
export interface ConfigInput {
  readonly llmProvider?: string;
  readonly model?: string;
  /** Tokens the model takes. */
  readonly contextLength?: Count;
  /** How tokens are counted. */
  readonly tokenCounter?: "fitted" | "heuristic" | "o200k" | "cl100k" | (string & {});
  readonly durability?: "group" | "each" | "process" | (string & {});
  readonly compression?: {
    readonly auto?: boolean;
    readonly strategy?: string;
    readonly threshold?: number;
    readonly tokenThreshold?: Count;
  };
  /** Keys of the agent's own. */
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** As the protocol has it. */
export function configInit(config: ConfigInput): MessageInitShape<typeof TaskConfigSchema> {
  const { contextLength, compression, extra, ...rest } = config;
  const { tokenThreshold, ...compressionRest } = compression ?? {};
  return {
    ...rest,
    ...(contextLength !== undefined && { contextLength: toCount("contextLength", contextLength) }),
    ...(compression && {
      compression: {
        ...compressionRest,
        ...(tokenThreshold !== undefined && { tokenThreshold: toCount("tokenThreshold", tokenThreshold) }),
      },
    }),
    ...(extra && { extraJson: JSON.stringify(extra) }),
  };
}
