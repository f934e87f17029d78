// Tools that an agent runs: timed, recorded, their outputs kept.

import type { MutationOptions } from "./calls.js";
import type { FunctionCall } from "./chat.js";
import { ContextStoreError } from "./errors.js";
import type { Outputs, StoredOutput } from "./outputs.js";
import type { OutputContent } from "./upload.js";
import type { ToolCallInput } from "./values.js";

/** A result that is larger is kept as an output, and the record names its ref. */
const RECORDED_CHARS = 16 << 10;

/** What a tool that an agent runs needs of its task. */
export interface Workbench {
  readonly output: Outputs;
  recordToolCall(call: ToolCallInput): Promise<unknown>;
}

/** How a call of a model is answered. */
export interface RunOptions extends MutationOptions {
  /** What `put` takes for the output. */
  readonly mediaType?: string;
  readonly maxLineLength?: number;
  readonly maxMessageBytes?: number | bigint;
  readonly tailBytes?: number | bigint;
  readonly asParts?: boolean;
}

/** What came of a tool that a model called. */
export interface ToolRun extends StoredOutput {
  /** What it threw, if it did: the model was told. */
  readonly error: unknown;
  readonly durationMs: number;
}

/** A function that does what `fn` does, and records it; see `Task.tool`. */
export function recorded<A extends readonly unknown[], R>(
  bench: Workbench,
  toolName: string,
  fn: (...args: A) => R | PromiseLike<R>,
): (...args: A) => Promise<R> {
  return async (...args) => {
    // For the record: what JSON has no word for must not fail a call that the tool itself could carry out.
    const given: unknown = args.length > 0 ? JSON.parse(jsonOf(args.length > 1 ? args : args[0])) : undefined;
    const started = performance.now();
    const call = () => ({ toolName, arguments: given, durationMs: elapsed(started) });
    let result: R;
    try {
      result = await fn(...args);
    } catch (thrown) {
      await reportFailure(bench, { ...call(), error: wordsOf(thrown) });
      throw thrown;
    }
    await recordResult(bench, call(), result);
    return result;
  };
}

async function recordResult(
  bench: Workbench,
  call: { toolName: string; arguments: unknown; durationMs: number },
  result: unknown,
): Promise<void> {
  const { toolName, ...record } = call;
  if (result instanceof Uint8Array) {
    await bench.output.put(result, { toolName, record });
    return;
  }
  const json = jsonOf(result);
  if (json.length > RECORDED_CHARS) {
    await bench.output.put(textOf(result, json), { toolName, record });
  } else {
    await bench.recordToolCall({ ...call, result: JSON.parse(json) as unknown });
  }
}

/** The tool's own error is what counts: that it could not be recorded is only told. */
async function reportFailure(bench: Workbench, call: ToolCallInput): Promise<void> {
  try {
    await bench.recordToolCall(call);
  } catch (thrown) {
    const message = `the failure of the tool ${call.toolName} was not recorded: ${String(thrown)}`;
    process.emitWarning(message, { type: "ContextStoreTool", code: "CONTEXTSTORE_TOOL" });
  }
}

/** Runs what a model called and answers it; see `Task.runTool`. */
export async function runTool(
  bench: Workbench,
  call: FunctionCall,
  fn: (args: object) => unknown,
  options: RunOptions,
): Promise<ToolRun> {
  const started = performance.now();
  let error: unknown;
  let durationMs = 0;
  const answer = async (content: OutputContent) => {
    durationMs = elapsed(started);
    const failed = error === undefined ? {} : { error: wordsOf(error) };
    return await bench.output.put(content, {
      ...options,
      toolName: call.function.name,
      toolCallId: call.id,
      append: true,
      record: { arguments: argumentsOf(call.function.arguments), durationMs, ...failed },
    });
  };
  try {
    const stored = await answer(contentOf(await fn(parsed(call.function.arguments))));
    return { ...stored, error, durationMs };
  } catch (thrown) {
    // The tool failed, at once or in the middle of what it yields: the model is told, and may do better.
    if (thrown instanceof ContextStoreError) {
      throw thrown;
    }
    error = thrown ?? new Error("the tool threw nothing");
    const stored = await answer(wordsOf(error));
    return { ...stored, error, durationMs };
  }
}

/** What a model hands over: a JSON object, or what it took for one. */
function parsed(text: string): object {
  let value: unknown;
  try {
    value = JSON.parse(text.trim() === "" ? "{}" : text);
  } catch (cause) {
    throw new Error(`the arguments are not JSON: ${wordsOf(cause)}`, { cause });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new Error("the arguments are not a JSON object");
  }
  return value;
}

/** For the record: as JSON if it is, else as the text it came as. */
function argumentsOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

function contentOf(result: unknown): OutputContent {
  if (typeof result === "string" || result instanceof Uint8Array) {
    return result;
  }
  if (typeof result === "object" && result !== null && Symbol.asyncIterator in result) {
    return result as AsyncIterable<string | Uint8Array>;
  }
  return jsonOf(result);
}

function jsonOf(result: unknown): string {
  const plain = (_: string, value: unknown) => (typeof value === "bigint" ? String(value) : value);
  // What JSON has no word for, such as a function, becomes null.
  return JSON.stringify([result], plain).slice(1, -1);
}

function textOf(result: unknown, json: string): string {
  return typeof result === "string" ? result : json;
}

function wordsOf(thrown: unknown): string {
  return thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown);
}

function elapsed(started: number): number {
  return Math.round(performance.now() - started);
}
