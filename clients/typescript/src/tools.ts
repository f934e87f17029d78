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

/** Most lines of an answer. The answer says so if there are more. */
const MAX_LINES = 2000;
const MAX_MATCHES = 100;
/** Longest line of an answer, and longest answer, in characters. */
const MAX_LINE_LENGTH = 2000;
const MAX_CHARS = 50_000;

const whole = (description: string, minimum = 0) => ({ type: "integer", minimum, description });

const DEFINITIONS: readonly Definition[] = [
  {
    name: "tool_output_cache",
    description:
      "Reads lines of a tool output that was cut or trimmed in this conversation. Outputs are named by a ref such as " +
      "out-0123…; the text that stands in its place tells it. Answers numbered lines.",
    parameters: {
      type: "object",
      properties: {
        ref_id: { type: "string", description: "The ref of the output" },
        offset: whole("Lines to skip; 0 if left out"),
        limit: whole(`Most lines to read; ${MAX_LINES} if left out, and at most`, 1),
      },
      required: ["ref_id"],
      additionalProperties: false,
    },
  },
  {
    name: "tool_output_cache_grep",
    description:
      "Searches the tool outputs of this conversation, whole as they were, for lines that match a regular expression " +
      "(the syntax of ripgrep). Answers lines with their numbers; those near a match have - in the place of the colon.",
    parameters: {
      type: "object",
      properties: {
        pattern: { type: "string", description: "The regular expression" },
        ref_id: { type: "string", description: "The ref of the output; all outputs if left out" },
        ignore_case: { type: "boolean", description: "Whether upper and lower case are the same" },
        before: whole("Lines to show before each match"),
        after: whole("Lines to show after each match"),
        max_matches: whole(`Most matches; ${MAX_MATCHES} if left out`, 1),
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
 * import { answer, isOutputTool, openaiTools } from "@contextstore/client/tools";
 *
 * for await (const event of task.chat(messages, { tools: [...mine, ...openaiTools()] })) {
 *   if (event.type === "done") {
 *     for (const call of event.message.tool_calls ?? []) {
 *       if (isOutputTool(call.function.name)) await answer(task, call);
 *     }
 *   }
 * }
 * ```
 */
export function openaiTools(): OpenAiTool[] {
  return DEFINITIONS.map((definition) => ({ type: "function", function: { ...definition } }));
}

/** The tools in the form of Anthropic's messages, for an HTTP client of one's own. */
export function anthropicTools(): AnthropicTool[] {
  return DEFINITIONS.map(({ name, description, parameters }) => ({
    name,
    description,
    input_schema: { ...parameters, type: "object" },
  }));
}

/** Whether a call is for one of these tools. */
export function isOutputTool(name: string): name is ToolName {
  return (TOOL_NAMES as readonly string[]).includes(name);
}

/**
 * What one of the tools answers: the text for the model. What the model got wrong (a ref that is not there, a pattern that is no
 * regular expression, arguments that are no JSON) is told in the answer; a server that cannot be reached is thrown.
 * `given` is what the model handed over, as JSON text (OpenAI) or as an object (Anthropic).
 */
export async function dispatch(
  task: Task,
  name: string,
  given: unknown,
  options: { readonly signal?: AbortSignal } = {},
): Promise<string> {
  try {
    const fields = new Arguments(given);
    if (name === "tool_output_cache") {
      return await read(task, fields, options);
    }
    if (name === "tool_output_cache_grep") {
      return await grep(task, fields, options);
    }
    throw new Mistake(`there is no tool ${name}; there are ${TOOL_NAMES.join(" and ")}`);
  } catch (thrown) {
    if (thrown instanceof Mistake || isMistake(thrown)) {
      return `Error: ${thrown.message}`;
    }
    throw thrown;
  }
}

/** Answers a call of a model: runs the tool and appends the tool message with what it found. */
export async function answer(
  task: Task,
  call: FunctionCall,
  options: { readonly signal?: AbortSignal } = {},
): Promise<string> {
  const content = await dispatch(task, call.function.name, call.function.arguments, options);
  await task.append({ role: "tool", tool_call_id: call.id, content }, options);
  return content;
}

async function read(task: Task, fields: Arguments, options: { signal?: AbortSignal }): Promise<string> {
  const refId = fields.text("ref_id");
  const offset = fields.whole("offset") ?? 0;
  const limit = Math.min(fields.whole("limit", 1) ?? MAX_LINES, MAX_LINES);
  const { ref } = await task.output.stat(refId, options);
  const lineCount = Number(ref?.lineCount ?? 0n);
  const lines = task.output.read(refId, { ...options, offset, limit, maxLineLength: MAX_LINE_LENGTH });
  const { text, count } = await firstLines(lines);
  if (count === 0) {
    return lineCount === 0 ? "The output is empty." : `There is no line ${offset + 1}: it has ${lineCount}.`;
  }
  const last = offset + count;
  return last < lineCount ? `${text}[lines ${offset + 1} to ${last} of ${lineCount}]` : text.trimEnd();
}

/** Whole lines, up to what an answer takes; at least one, however long. */
async function firstLines(chunks: AsyncIterable<Uint8Array>): Promise<{ text: string; count: number }> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of chunks) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > MAX_CHARS) {
      const end = text.lastIndexOf("\n", MAX_CHARS) + 1 || text.indexOf("\n") + 1;
      text = end > 0 ? text.slice(0, end) : text;
      break;
    }
  }
  if (text !== "" && !text.endsWith("\n")) {
    text += "\n";
  }
  return { text, count: text.split("\n").length - 1 };
}

async function grep(task: Task, fields: Arguments, options: { signal?: AbortSignal }): Promise<string> {
  const refId = fields.optionalText("ref_id");
  const maxMatches = fields.whole("max_matches", 1) ?? MAX_MATCHES;
  const found = await task.output
    .grep(fields.text("pattern"), {
      ...options,
      ...(refId !== undefined && { refId }),
      ignoreCase: fields.flag("ignore_case"),
      before: fields.whole("before") ?? 0,
      after: fields.whole("after") ?? 0,
      maxMatches,
      maxLineLength: MAX_LINE_LENGTH,
    })
    .all();
  if (found.lines.length === 0) {
    return "No line matches.";
  }
  const text = textOf(found.lines, refId === undefined);
  const isCut = text.length > MAX_CHARS;
  const shown = isCut ? text.slice(0, text.lastIndexOf("\n", MAX_CHARS) + 1) : text;
  const more = isCut ? "[the rest is left out]" : found.limited ? `[the first ${maxMatches} matches]` : "";
  return `${shown}${more}`.trimEnd();
}

/** The model's mistake: it is told. */
class Mistake extends Error {}

/** Whether the server refused what the model asked for, rather than the call itself. */
function isMistake(thrown: unknown): thrown is ContextStoreError {
  return (
    thrown instanceof ContextStoreError &&
    (thrown.code === "INVALID_ARGUMENT" ||
      thrown.reason === "OUTPUT_NOT_FOUND" ||
      thrown.reason === "OUTPUT_DAMAGED")
  );
}

/** What a model handed over: nothing of it is certain. */
class Arguments {
  readonly #fields: Readonly<Record<string, unknown>>;

  constructor(given: unknown) {
    const value = typeof given === "string" ? fromJson(given) : given;
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw new Mistake("the arguments are not a JSON object");
    }
    this.#fields = value as Record<string, unknown>;
  }

  text(name: string): string {
    const value = this.optionalText(name);
    if (value === undefined) {
      throw new Mistake(`${name} is missing`);
    }
    return value;
  }

  optionalText(name: string): string | undefined {
    const value = this.#fields[name];
    if (value === undefined || value === null || value === "") {
      return undefined;
    }
    if (typeof value !== "string") {
      throw new Mistake(`${name} must be text`);
    }
    return value;
  }

  /** Models write numbers as text now and then. */
  whole(name: string, least = 0): number | undefined {
    const value = this.#fields[name];
    if (value === undefined || value === null) {
      return undefined;
    }
    const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
    if (typeof number !== "number" || !Number.isInteger(number) || number < least || number > 1e9) {
      throw new Mistake(`${name} must be a whole number, at least ${least}`);
    }
    return number;
  }

  flag(name: string): boolean {
    const value = this.#fields[name];
    return value === true || value === "true";
  }
}

function fromJson(text: string): unknown {
  try {
    return JSON.parse(text.trim() === "" ? "{}" : text) as unknown;
  } catch {
    throw new Mistake("the arguments are not JSON");
  }
}
