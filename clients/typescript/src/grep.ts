// Searching the outputs of one task's tools.

import { CALL_FIELDS, type CallOptions } from "./calls.js";
import { checkFields, type Fields } from "./check.js";
import type { TaskCore } from "./core.js";
import type { GrepLine } from "./gen/contextstore/v1/tool_outputs_pb.js";
import { type Count, toCount } from "./values.js";

/** Where and how to search. */
export interface GrepOptions extends CallOptions {
  /** The output. Default: all of the task's, in the order of their refs. */
  readonly refId?: string;
  /** Whether upper and lower case are the same. */
  readonly ignoreCase?: boolean;
  /** The pattern is plain text. */
  readonly fixed?: boolean;
  /** Lines to show before each match. */
  readonly before?: number;
  /** Lines to show after each match. */
  readonly after?: number;
  /** Most matches. Default: all. */
  readonly maxMatches?: Count;
  /** Longest line, in characters. Default: 2000. */
  readonly maxLineLength?: number;
}

const FIELDS = {
  ...CALL_FIELDS,
  refId: "text",
  ignoreCase: "flag",
  fixed: "flag",
  before: "number",
  after: "number",
  maxMatches: "any",
  maxLineLength: "number",
} as const satisfies Fields<GrepOptions>;

/** What a search found in all. */
export interface Found {
  /** The lines, in order. */
  readonly lines: readonly GrepLine[];
  /** How many lines matched. */
  readonly matches: bigint;
  /** Whether it ended at `maxMatches`. */
  readonly limited: boolean;
}

/**
 * The lines that a search finds, with lines around them. Each way of reading is a search of its own.
 *
 * @example
 * ```ts
 * for await (const { lineNumber, text, isMatch } of task.output.grep(/error/i, { after: 2 })) {
 *   console.log(isMatch ? ">" : " ", lineNumber, text);
 * }
 * console.log(await task.output.grep("panicked", { refId }).text()); // as ripgrep prints it
 * ```
 */
export class Matches implements AsyncIterable<GrepLine> {
  readonly #core: TaskCore;
  readonly #request: GrepRequest;
  readonly #options: CallOptions;

  /** @internal */
  constructor(core: TaskCore, pattern: string | RegExp, options: GrepOptions) {
    checkFields("options", options, FIELDS);
    this.#core = core;
    this.#options = options;
    this.#request = {
      taskUuid: core.uuid,
      refId: options.refId ?? "",
      pattern: typeof pattern === "string" ? pattern : pattern.source,
      ignoreCase: options.ignoreCase ?? (typeof pattern === "object" && pattern.ignoreCase),
      fixed: options.fixed ?? false,
      before: options.before ?? 0,
      after: options.after ?? 0,
      maxMatches: toCount("maxMatches", options.maxMatches),
      maxLineLength: options.maxLineLength ?? 0,
    };
  }

  /** The lines as they come. Leaving the loop ends the search. */
  [Symbol.asyncIterator](): AsyncGenerator<GrepLine, void, undefined> {
    return this.#core.reading(this.#options, () => this.#lines({ matches: 0n, limited: false }));
  }

  /** All of them: they have to fit into memory. */
  async toArray(): Promise<GrepLine[]> {
    return [...(await this.all()).lines];
  }

  /** All of them, and how many there are. */
  async all(): Promise<Found> {
    const lines: GrepLine[] = [];
    const totals = { matches: 0n, limited: false };
    for await (const line of this.#core.reading(this.#options, () => this.#lines(totals))) {
      lines.push(line);
    }
    return { lines, ...totals };
  }

  /** @internal The first of them, until their texts have so many characters. */
  async first(chars: number): Promise<Found & { readonly isCut: boolean }> {
    const lines: GrepLine[] = [];
    const totals = { matches: 0n, limited: false };
    let left = chars;
    for await (const line of this.#core.reading(this.#options, () => this.#lines(totals))) {
      lines.push(line);
      left -= line.text.length;
      if (left < 0) {
        break;
      }
    }
    return { lines, ...totals, isCut: left < 0 };
  }

  /**
   * As ripgrep prints it: `12:` before a match, `13-` before a line near one, `--` where lines are left out,
   * and the ref on a line of its own where all outputs are searched.
   */
  async text(): Promise<string> {
    return textOf((await this.all()).lines, this.#request.refId === "");
  }

  async *#lines(totals: { matches: bigint; limited: boolean }): AsyncGenerator<GrepLine, void, undefined> {
    const { caller, outputs } = this.#core.wire;
    const [request, options] = [this.#request, this.#options];
    let taken = 0;
    const search = async function* () {
      // An output never changes, so what was told before comes again in the same order.
      let skip = taken;
      for await (const found of caller.stream(options, (attempt) =>
        outputs.grepToolOutput(request, attempt),
      )) {
        totals.matches = found.matches ?? totals.matches;
        totals.limited = found.limited;
        for (const line of found.lines) {
          if (skip > 0) {
            skip -= 1;
          } else {
            taken += 1;
            yield line;
          }
        }
      }
    };
    // All outputs together may become more meanwhile: then there is no place to go on from.
    yield* request.refId === "" ? caller.unlessBegunIn(options, search) : caller.resuming(options, search);
  }
}

/** Lines as ripgrep prints them; `withRefs`: the ref before the first line of each output. */
export function textOf(lines: readonly GrepLine[], withRefs: boolean): string {
  let text = "";
  let last = "";
  for (const { refId, lineNumber, text: line, isMatch, gapBefore } of lines) {
    if (gapBefore && text !== "" && refId === last) {
      text += "--\n";
    }
    if (withRefs && refId !== last) {
      text += `${refId}:\n`;
    }
    last = refId;
    text += `${lineNumber}${isMatch ? ":" : "-"}${line}\n`;
  }
  return text;
}

interface GrepRequest {
  readonly taskUuid: string;
  readonly refId: string;
  readonly pattern: string;
  readonly ignoreCase: boolean;
  readonly fixed: boolean;
  readonly before: number;
  readonly after: number;
  readonly maxMatches: bigint;
  readonly maxLineLength: number;
}
