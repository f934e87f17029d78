// Tools for the model itself: with them it reads and searches the outputs of which it was shown only a part.

import type { FunctionCall } from "./chat.js";
import { ContextStoreError } from "./errors.js";
import { textOf } from "./grep.js";
import type { Task } from "./task.js";

/** The names of the tools. */
export const TOOL_NAMES = ["tool_output_cache", "tool_output_cache_grep"] as const;

/** The name of one of the tools. */
export type ToolName = (typeof TOOL_NAMES)[number];

/** What a model is told of a tool: a JSON schema of what it takes. */
interface Definition {
  readonly name: ToolName;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
}

const LINES = 200;
const MOST_LINES = 2000;
const MATCHES = 50;
const MOST_MATCHES = 1000;
/** Most lines around a match that the server takes. */
const MOST_AROUND = 1000;
/** Longest line of an answer, and longest answer, in characters. */
const LINE_LENGTH = 2000;
const MOST_CHARS = 32 << 10;

const whole = (description: string, minimum: number, maximum?: number) => ({
  type: "integer",
  minimum,
  ...(maximum !== undefined && { maximum }),
  description,
});

const DEFINITIONS: readonly Definition[] = [
  {
    name: "tool_output_cache",
    description:
      "Reads lines of an output of a tool that was too large to be shown whole. The output is named by the ref_id " +
      "that stands where it was cut. Lines are numbered.",
    parameters: {
      type: "object",
      properties: {
        ref_id: { type: "string", description: "The ref of the output: out-…, or seq=14" },
        offset: whole("Lines to skip. Default 0", 0),
        limit: whole(`Most lines to read. Default ${LINES}`, 1, MOST_LINES),
      },
      required: ["ref_id"],
      additionalProperties: false,
    },
  },
  {
    name: "tool_output_cache_grep",
    description:
      "Searches outputs of tools that were too large to be shown whole for lines that match a regular expression.",
    parameters: {
      type: "object",
      properties: {
        pattern: { type: "string", description: "A regular expression, as ripgrep takes it" },
        ref_id: { type: "string", description: "The ref of one output. Default: all outputs" },
        ignore_case: { type: "boolean", description: "Default false" },
        before: whole("Lines to show before each match. Default 0", 0),
        after: whole("Lines to show after each match. Default 0", 0),
        max_matches: whole(`Default ${MATCHES}`, 1, MOST_MATCHES),
      },
      required: ["pattern"],
      additionalProperties: false,
    },
  },
];

/** A tool as OpenAI's chat completions take it; `task.chat` takes it for every provider. */
export interface OpenAiTool {
  readonly type: "function";
  readonly function: Definition;
  readonly [field: string]: unknown;
}

/** A tool as OpenAI's Responses API takes it. */
export interface OpenAiResponsesTool extends Definition {
  readonly type: "function";
  readonly strict: false;
}

/** A tool as Anthropic's messages take it. */
export interface AnthropicTool {
  readonly name: ToolName;
  readonly description: string;
  readonly input_schema: { readonly type: "object"; readonly [field: string]: unknown };
}

/**
 * The tools in the form of OpenAI's chat completions, which `task.chat` and `task.requestBody` take whoever is asked.
 *
 * @example
 * ```ts
 * import { answer, openaiTools } from "@contextstore/client/tools";
 *
 * for await (const event of task.chat(messages, { tools: [...mine, ...openaiTools()] })) {
 *   if (event.type === "done") {
 *     for (const call of event.message.tool_calls ?? []) {
 *       if (!(await answer(task, call))) await task.runTool(call, myTools[call.function.name]);
 *     }
 *   }
 * }
 * ```
 */
export function openaiTools(): OpenAiTool[] {
  return DEFINITIONS.map((definition) => ({ type: "function", function: { ...definition } }));
}

/** The tools in the form of OpenAI's Responses API, for an HTTP client of one's own. */
export function openaiResponsesTools(): OpenAiResponsesTool[] {
  return DEFINITIONS.map((definition) => ({ type: "function", ...definition, strict: false }));
}

/** The tools in the form of Anthropic's messages, for an HTTP client of one's own. */
export function anthropicTools(): AnthropicTool[] {
  return DEFINITIONS.map(({ name, description, parameters }) => ({
    name,
    description,
    input_schema: { ...parameters, type: "object" },
  }));
}

/** A call as a model makes it: of chat completions, of the Responses API, or a `tool_use` block of Anthropic's. */
export type ModelCall =
  | Pick<FunctionCall, "id" | "function">
  | {
      readonly type: "function_call";
      readonly call_id: string;
      readonly name: string;
      readonly arguments: string;
    }
  | { readonly type: "tool_use"; readonly id: string; readonly name: string; readonly input: unknown };

/** What goes back: a tool message of chat completions. */
export interface ToolMessage {
  readonly role: "tool";
  readonly tool_call_id: string;
  readonly content: string;
  readonly [field: string]: unknown;
}

/** What goes back to the Responses API. */
export interface FunctionCallOutput {
  readonly type: "function_call_output";
  readonly call_id: string;
  readonly output: string;
}

/** What goes back to Anthropic. */
export interface ToolResult {
  readonly type: "tool_result";
  readonly tool_use_id: string;
  readonly content: string;
  readonly is_error?: true;
}

/** What goes back for a call of that form. */
export type ModelAnswer<C extends ModelCall> = C extends { readonly type: "tool_use" }
  ? ToolResult
  : C extends { readonly type: "function_call" }
    ? FunctionCallOutput
    : ToolMessage;

/**
 * Carries out a call of one of these tools, and answers what goes back in the form that the call has; undefined if the call is
 * of another tool. What the model got wrong (a ref that is not there, a pattern that is no regular expression, arguments
 * that are no JSON) is told in the answer, for it to do better; a server that cannot be reached is thrown.
 */
export async function dispatch<C extends ModelCall>(
  task: Task,
  call: C,
  options: { readonly signal?: AbortSignal } = {},
): Promise<ModelAnswer<C> | undefined> {
  const { name, given } = partsOf(call);
  if (!isOutputTool(name)) {
    return undefined;
  }
  try {
    const fields = new Arguments(given);
    const found = await (name === "tool_output_cache" ? read : grep)(task, fields, options);
    return answerOf(call, found, false) as ModelAnswer<C>;
  } catch (thrown) {
    if (thrown instanceof Mistake || isMistake(thrown)) {
      return answerOf(call, `Error: ${thrown.message}`, true) as ModelAnswer<C>;
    }
    throw thrown;
  }
}

/**
 * Answers a call of `task.chat`: carries it out and appends the tool message. Answers whether the call was of one of these
 * tools.
 */
export async function answer(
  task: Task,
  call: Pick<FunctionCall, "id" | "function">,
  options: { readonly signal?: AbortSignal } = {},
): Promise<boolean> {
  const message = await dispatch(task, { id: call.id, function: call.function }, options);
  if (message) {
    await task.append(message, options);
  }
  return message !== undefined;
}

/** Whether a name is that of one of these tools. */
export function isOutputTool(name: string): name is ToolName {
  return (TOOL_NAMES as readonly string[]).includes(name);
}

function partsOf(call: ModelCall): { name: string; given: unknown } {
  if ("function" in call) {
    return { name: call.function.name, given: call.function.arguments };
  }
  return { name: call.name, given: call.type === "tool_use" ? call.input : call.arguments };
}

function answerOf(call: ModelCall, content: string, isError: boolean) {
  if ("function" in call) {
    return { role: "tool", tool_call_id: call.id, content };
  }
  return call.type === "tool_use"
    ? { type: "tool_result", tool_use_id: call.id, content, ...(isError && { is_error: true }) }
    : { type: "function_call_output", call_id: call.call_id, output: content };
}

async function read(task: Task, fields: Arguments, options: { signal?: AbortSignal }): Promise<string> {
  const refId = fields.text("ref_id");
  const offset = fields.whole("offset") ?? 0;
  const limit = Math.min(fields.whole("limit") || LINES, MOST_LINES);
  const { ref } = await task.output.stat(refId, options);
  const total = Number(ref?.lineCount ?? 0n);
  const chunks = task.output.read(refId, { ...options, offset, limit, maxLineLength: LINE_LENGTH });
  const lines = await firstLines(chunks);
  if (lines.length === 0) {
    return `There are no lines behind ${offset}: the output has ${total}.`;
  }
  const last = offset + lines.length;
  const end =
    last >= total
      ? `[end: ${total} lines]`
      : `[lines ${offset + 1} to ${last} of ${total}; offset=${last} reads on]`;
  return [...lines, end].join("\n");
}

/** Whole lines, up to what an answer takes; at least one, however long. */
async function firstLines(chunks: AsyncIterable<Uint8Array>): Promise<string[]> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of chunks) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > MOST_CHARS) {
      const end = text.lastIndexOf("\n", MOST_CHARS);
      text = end > 0 ? text.slice(0, end) : text.slice(0, MOST_CHARS);
      break;
    }
  }
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

async function grep(task: Task, fields: Arguments, options: { signal?: AbortSignal }): Promise<string> {
  const refId = fields.optionalText("ref_id");
  const found = await task.output
    .grep(fields.text("pattern"), {
      ...options,
      ...(refId !== undefined && { refId }),
      ignoreCase: fields.flag("ignore_case"),
      before: Math.min(fields.whole("before") ?? 0, MOST_AROUND),
      after: Math.min(fields.whole("after") ?? 0, MOST_AROUND),
      maxMatches: Math.min(fields.whole("max_matches") || MATCHES, MOST_MATCHES),
      maxLineLength: LINE_LENGTH,
    })
    .first(MOST_CHARS);
  if (found.lines.length === 0) {
    return "No line matches.";
  }
  const end = found.isCut
    ? "[there is more: narrow the pattern, or read the lines]"
    : `[${found.matches} matches${found.limited ? "; there may be more" : ""}]`;
  return `${textOf(found.lines, refId === undefined)}${end}`;
}

/** The model's mistake: it is told. */
class Mistake extends Error {}

/** Whether the server refused what the model asked for, rather than the call itself. */
function isMistake(thrown: unknown): thrown is ContextStoreError {
  if (!(thrown instanceof ContextStoreError)) {
    return false;
  }
  const { code, reason } = thrown;
  return code === "INVALID_ARGUMENT" || reason === "OUTPUT_NOT_FOUND" || reason === "OUTPUT_DAMAGED";
}

/** What a model handed over: nothing of it is certain. */
class Arguments {
  readonly #fields: Readonly<Record<string, unknown>>;

  constructor(given: unknown) {
    const value = typeof given === "string" ? fromJson(given) : given;
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw new Mistake("the arguments are not an object");
    }
    this.#fields = value as Record<string, unknown>;
  }

  text(name: string): string {
    const value = this.optionalText(name);
    if (value === undefined) {
      throw new Mistake(`${name}: a text is required`);
    }
    return value;
  }

  optionalText(name: string): string | undefined {
    const value = this.#fields[name];
    if (value === undefined || value === null || value === "") {
      return undefined;
    }
    if (typeof value !== "string") {
      throw new Mistake(`${name}: a text is required`);
    }
    return value;
  }

  whole(name: string): number | undefined {
    const value = this.#fields[name];
    if (value === undefined || value === null) {
      return undefined;
    }
    if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) {
      throw new Mistake(`${name}: a whole number from 0 on`);
    }
    return value;
  }

  flag(name: string): boolean {
    const value = this.#fields[name] ?? false;
    if (typeof value !== "boolean") {
      throw new Mistake(`${name}: true or false`);
    }
    return value;
  }
}

function fromJson(text: string): unknown {
  try {
    return JSON.parse(text || "{}") as unknown;
  } catch (error) {
    throw new Mistake(
      `the arguments are not JSON: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}
