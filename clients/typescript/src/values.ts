// What callers hand in, in the forms that are handy in JavaScript, and how it becomes what the protocol takes.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { MUTATION_FIELDS, type MutationOptions } from "./calls.js";
import { checkedObject, checkFields, type Fields } from "./check.js";
import {
  COMPLEXITIES,
  type ComplexityInput,
  DURABILITIES,
  type DurabilityInput,
  PRESETS,
  PROVIDERS,
  type PresetInput,
  type ProviderInput,
  STRATEGIES,
  type StrategyInput,
  SUMMARIZERS,
  type SummarizerInput,
  TOKEN_COUNTERS,
  type TokenCounterInput,
} from "./enums.js";
import { ToolCallStatus } from "./gen/contextstore/v1/message_pb.js";
import type {
  CompressionConfigSchema,
  OutputsConfigSchema,
  TaskConfigSchema,
  WindowConfigSchema,
} from "./gen/contextstore/v1/task_pb.js";
import { toJson } from "./json.js";

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

/**
 * A message to append: an object, also of a type of an SDK, or its JSON as text, which is kept as it is. The second form is
 * for types without an index signature, as SDKs declare them.
 */
export type MessageInput = ChatMessage | { readonly role: string } | string;

/** As JSON. An error calls it by `name`. */
export function messageJson(message: MessageInput, name = "message"): string {
  return typeof message === "string" ? message : toJson(name, checkedObject(name, message));
}

/** What goes with a message. */
export interface AppendOptions extends MutationOptions {
  /** Whether no compaction may take it out of the view. */
  readonly pinned?: boolean;
  /** The full output of a tool, if the message holds a cut view of it. */
  readonly outputRef?: string;
  /**
   * `false`: returns as soon as the message is on its way. Every later read, turn of a model or change waits until it is on
   * disk, and throws a `PipelineError` if it was refused. Default: `true`.
   */
  readonly wait?: boolean;
}

/** A tool that was executed. */
export interface ToolCallInput {
  readonly toolName: string;
  /** What it was called with: anything JSON has. */
  readonly arguments?: unknown;
  /** What it answered: anything JSON has. */
  readonly result?: unknown;
  /** Where its answer is, if that is large. */
  readonly outputRef?: string;
  /** Why it failed. With it the status is `error`. */
  readonly error?: string;
  readonly durationMs?: Count;
  /** The message that carries its answer. */
  readonly messageSeq?: Count;
}

/** Tokens of one call of the LLM, as disjoint parts: take cached tokens out of OpenAI's input. */
export interface Usage {
  readonly inputTokens?: Count;
  readonly outputTokens?: Count;
  readonly cacheCreationTokens?: Count;
  readonly cacheReadTokens?: Count;
  /** Those of the tools that were sent, as `contextUsage` counts them. */
  readonly toolsTokens?: Count;
}

/** Numbers to add to a task's counters. */
export interface StatisticsInput {
  readonly llmCalls?: Count;
  readonly toolCalls?: Count;
  readonly tokens?: Count;
  readonly compressions?: Count;
}

/** How a task is forked. */
export interface ForkOptions extends MutationOptions {
  /** The last message that is copied. Default: all there are. */
  readonly atSeq?: Count;
  /** The id of the new task. Default: a new UUIDv7. */
  readonly uuid?: string;
}

/** How a context is kept small; docs/COMPRESSION.md of the repository says what each does. */
export interface CompressionInput {
  readonly enabled?: boolean;
  readonly auto?: boolean;
  readonly strategy?: StrategyInput;
  readonly threshold?: number;
  readonly tokenThreshold?: Count;
  readonly maxRequestBytes?: Count;
  readonly keepRecentMessages?: number;
  readonly minMessages?: number;
  readonly complexity?: ComplexityInput;
  readonly preset?: PresetInput;
  readonly summarizer?: SummarizerInput;
  readonly provider?: ProviderInput;
  readonly model?: string;
  readonly summaryPrompt?: string;
  readonly finalSummaryPrompt?: string;
  readonly summaryDirectives?: string[];
  readonly retainPrompt?: string;
  readonly retainDirectives?: string[];
  readonly retainLastTurns?: number;
  readonly structured?: boolean;
  readonly keepPlan?: boolean;
  readonly summaryTokens?: Count;
}

/** How `prune` chooses. */
export interface PruneInput {
  /** The share of the limit that is left. */
  readonly target?: number;
  readonly recencyWeight?: number;
  readonly roleWeight?: number;
  readonly contentWeight?: number;
}

/** What `window` keeps: of the two the smaller. */
export interface WindowInput {
  readonly messages?: number;
  readonly tokens?: Count;
}

/** What a task takes over from an earlier one. */
export interface InheritanceInput {
  readonly enabled?: boolean;
  readonly maxSummaryTokens?: Count;
}

/** How the outputs of tools are shown. */
export interface OutputsInput {
  /** Whether outputs in the view are trimmed when they pass their budget. */
  readonly enabled?: boolean;
  /** Tokens that outputs in the view may have together. */
  readonly budgetTokens?: Count;
  /** Largest view of one output, in bytes. */
  readonly maxMessageBytes?: Count;
  /** Longest line of a view, in characters. */
  readonly maxLineLength?: number;
  /** Bytes of a view that show the end of the output. */
  readonly tailBytes?: Count;
  /** Tools whose outputs are never trimmed. */
  readonly protectedTools?: string[];
}

const COMPRESSION_FIELDS = {
  enabled: "flag",
  auto: "flag",
  strategy: "any",
  threshold: "number",
  tokenThreshold: "any",
  maxRequestBytes: "any",
  keepRecentMessages: "number",
  minMessages: "number",
  complexity: "any",
  preset: "any",
  summarizer: "any",
  provider: "any",
  model: "text",
  summaryPrompt: "text",
  finalSummaryPrompt: "text",
  summaryDirectives: "texts",
  retainPrompt: "text",
  retainDirectives: "texts",
  retainLastTurns: "number",
  structured: "flag",
  keepPlan: "flag",
  summaryTokens: "any",
} as const satisfies Fields<CompressionInput>;
const PRUNE_FIELDS = {
  target: "number",
  recencyWeight: "number",
  roleWeight: "number",
  contentWeight: "number",
} as const satisfies Fields<PruneInput>;
const WINDOW_FIELDS = { messages: "number", tokens: "any" } as const satisfies Fields<WindowInput>;
const INHERITANCE_FIELDS = {
  enabled: "flag",
  maxSummaryTokens: "any",
} as const satisfies Fields<InheritanceInput>;
const OUTPUTS_FIELDS = {
  enabled: "flag",
  budgetTokens: "any",
  maxMessageBytes: "any",
  maxLineLength: "number",
  tailBytes: "any",
  protectedTools: "texts",
} as const satisfies Fields<OutputsInput>;
const CONFIG_FIELDS = {
  llmProvider: "text",
  model: "text",
  contextLength: "any",
  tokenCounter: "any",
  durability: "any",
  compression: "any",
  prune: "any",
  window: "any",
  inheritance: "any",
  outputs: "any",
  extra: "any",
} as const satisfies Fields<ConfigInput>;
const TOOL_CALL_FIELDS = {
  toolName: "text",
  arguments: "any",
  result: "any",
  outputRef: "text",
  error: "text",
  durationMs: "any",
  messageSeq: "any",
} as const satisfies Fields<ToolCallInput>;
const USAGE_FIELDS = {
  inputTokens: "any",
  outputTokens: "any",
  cacheCreationTokens: "any",
  cacheReadTokens: "any",
  toolsTokens: "any",
} as const satisfies Fields<Usage>;
const STATISTICS_FIELDS = {
  llmCalls: "any",
  toolCalls: "any",
  tokens: "any",
  compressions: "any",
} as const satisfies Fields<StatisticsInput>;
export const APPEND_FIELDS = {
  ...MUTATION_FIELDS,
  pinned: "flag",
  outputRef: "text",
  wait: "flag",
} as const satisfies Fields<AppendOptions>;
export const FORK_FIELDS = {
  ...MUTATION_FIELDS,
  atSeq: "any",
  uuid: "text",
} as const satisfies Fields<ForkOptions>;

/** The configuration of a task. What is left out is as the server is configured. */
export interface ConfigInput {
  readonly llmProvider?: string;
  readonly model?: string;
  /** Tokens the model takes. */
  readonly contextLength?: Count;
  /** How tokens are counted. */
  readonly tokenCounter?: TokenCounterInput;
  readonly durability?: DurabilityInput;
  readonly compression?: CompressionInput;
  readonly prune?: PruneInput;
  readonly window?: WindowInput;
  readonly inheritance?: InheritanceInput;
  readonly outputs?: OutputsInput;
  /** Keys of the agent's own. */
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** As the protocol has it. */
export function configInit(config: ConfigInput): MessageInitShape<typeof TaskConfigSchema> {
  checkFields("config", config, CONFIG_FIELDS);
  const { contextLength, tokenCounter, durability, ...parts } = config;
  const { compression, prune, window, inheritance, outputs, extra, ...rest } = parts;
  if (inheritance) {
    checkFields("config.inheritance", inheritance, INHERITANCE_FIELDS);
  }
  const { maxSummaryTokens, ...inheritanceRest } = inheritance ?? {};
  return {
    ...rest,
    ...count("contextLength", contextLength),
    tokenCounter: TOKEN_COUNTERS.value("config.tokenCounter", tokenCounter),
    durability: DURABILITIES.value("config.durability", durability),
    ...(compression && { compression: compressionInit(compression, "config.compression") }),
    ...(prune && { prune: pruneInit(prune, "config.prune") }),
    ...(window && { window: windowInit(window, "config.window") }),
    ...(inheritance && {
      inheritance: { ...inheritanceRest, ...count("maxSummaryTokens", maxSummaryTokens) },
    }),
    ...(outputs && { outputs: outputsInit(outputs) }),
    ...(extra && { extraJson: toJson("config.extra", extra) }),
  };
}

function outputsInit(input: OutputsInput): MessageInitShape<typeof OutputsConfigSchema> {
  checkFields("config.outputs", input, OUTPUTS_FIELDS);
  const { budgetTokens, maxMessageBytes, tailBytes, ...rest } = input;
  return {
    ...rest,
    ...count("budgetTokens", budgetTokens),
    ...count("maxMessageBytes", maxMessageBytes),
    ...count("tailBytes", tailBytes),
  };
}

/** As the protocol has it. */
export function toolCallInit(call: ToolCallInput) {
  checkFields("call", call, TOOL_CALL_FIELDS);
  return {
    toolName: call.toolName,
    argumentsJson: call.arguments === undefined ? "" : toJson("arguments", call.arguments),
    resultJson: call.result === undefined ? "" : toJson("result", call.result),
    outputRef: call.outputRef ?? "",
    ...outcomeInit(call),
    ...count("messageSeq", call.messageSeq),
  };
}

/** Returns how a tool call ended and how long it took. */
export function outcomeInit({ error, durationMs }: Pick<ToolCallInput, "error" | "durationMs">) {
  return {
    status: error === undefined ? ToolCallStatus.SUCCESS : ToolCallStatus.ERROR,
    error: error ?? "",
    ...(durationMs !== undefined && {
      duration: durationFromMs(Number(toCount("durationMs", durationMs))),
    }),
  };
}

/** As the protocol has it. */
export function usageInit(usage: Usage) {
  checkFields("usage", usage, USAGE_FIELDS);
  return {
    inputTokens: toCount("inputTokens", usage.inputTokens),
    outputTokens: toCount("outputTokens", usage.outputTokens),
    cacheCreationTokens: toCount("cacheCreationTokens", usage.cacheCreationTokens),
    cacheReadTokens: toCount("cacheReadTokens", usage.cacheReadTokens),
    toolsTokens: toCount("toolsTokens", usage.toolsTokens),
  };
}

/** As the protocol has it. */
export function statisticsInit(add: StatisticsInput) {
  checkFields("statistics", add, STATISTICS_FIELDS);
  return {
    llmCalls: toCount("llmCalls", add.llmCalls),
    toolCalls: toCount("toolCalls", add.toolCalls),
    tokens: toCount("tokens", add.tokens),
    compressions: toCount("compressions", add.compressions),
  };
}

/** As the protocol has it. An error calls it by `name`. */
export function compressionInit(
  input: CompressionInput,
  name: string,
): MessageInitShape<typeof CompressionConfigSchema> {
  checkFields(name, input, COMPRESSION_FIELDS);
  const { strategy, complexity, preset, summarizer, provider, ...others } = input;
  const { tokenThreshold, maxRequestBytes, summaryTokens, ...rest } = others;
  return {
    ...rest,
    strategy: STRATEGIES.value(`${name}.strategy`, strategy),
    complexity: COMPLEXITIES.value(`${name}.complexity`, complexity),
    preset: PRESETS.value(`${name}.preset`, preset),
    summarizer: SUMMARIZERS.value(`${name}.summarizer`, summarizer),
    provider: PROVIDERS.value(`${name}.provider`, provider),
    ...count("tokenThreshold", tokenThreshold),
    ...count("maxRequestBytes", maxRequestBytes),
    ...count("summaryTokens", summaryTokens),
  };
}

/** As the protocol has it. An error calls it by `name`. */
export function pruneInit(input: PruneInput, name: string): PruneInput {
  checkFields(name, input, PRUNE_FIELDS);
  return input;
}

/** As the protocol has it. An error calls it by `name`. */
export function windowInit(input: WindowInput, name: string): MessageInitShape<typeof WindowConfigSchema> {
  checkFields(name, input, WINDOW_FIELDS);
  const { tokens, ...rest } = input;
  return { ...rest, ...count("tokens", tokens) };
}

/** A field that is only there if it was given. */
function count<N extends string>(name: N, value: Count | undefined): { [K in N]?: bigint } {
  return value === undefined ? {} : ({ [name]: toCount(name, value) } as { [K in N]: bigint });
}
