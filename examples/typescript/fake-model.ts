// A model for coding-agent.ts that needs no key and no network: `fake-llm` of this repository, told what to say.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

const call = (name: string, given: unknown) => ({ name, arguments: JSON.stringify(given) });

const STEPS = ["run the check", "find the case that fails", "mend it", "run the check again"];
const MENDED = "export const sum = (a, b) => a + b;\n";

/** What it says, turn by turn. */
const SCRIPT = [
  {
    text: "I plan, and run the check.",
    tool_calls: [call("plan", { steps: STEPS, done: 0 }), call("run_check", {})],
  },
  {
    text: "4000 lines: I search them.",
    tool_calls: [
      call("tool_output_cache_grep", { pattern: "^FAILED", before: 1 }),
      call("read_file", { path: "sum.mjs" }),
    ],
  },
  {
    text: "It subtracts above 2000. I mend that.",
    tool_calls: [
      call("write_file", { path: "sum.mjs", content: MENDED }),
      call("plan", { steps: STEPS, done: 3 }),
    ],
  },
  { text: "And once more.", tool_calls: [call("run_check", {})] },
  { text: "sum.mjs subtracted when a was over 2000; it adds now, and the check passes." },
  { text: "It subtracted when a was over 2000. That is mended." },
];

/** `fake-llm`, where CONTEXTSTORE_FAKE_LLM says or where `cargo build -p contextstore-providers` puts it. */
export class FakeModel {
  readonly #process: ChildProcess;
  /** Has a server ask it in the place of OpenAI. */
  readonly env: Readonly<Record<string, string>>;

  private constructor(process: ChildProcess, url: string) {
    this.#process = process;
    this.env = { CONTEXTSTORE_LLM__PROVIDERS__OPENAI__BASE_URL: `${url}/v1`, OPENAI_API_KEY: "any" };
  }

  static async start(): Promise<FakeModel> {
    const child = spawn(process.env.CONTEXTSTORE_FAKE_LLM ?? "target/debug/fake-llm", {
      stdio: ["pipe", "pipe", "inherit"],
    });
    const [line] = (await once(createInterface(child.stdout), "line")) as [string];
    const url = line.replace("listening ", "http://");
    for (const answer of SCRIPT) {
      await fetch(`${url}/control`, { method: "POST", body: JSON.stringify(answer) });
    }
    return new FakeModel(child, url);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exited = once(this.#process, "exit");
    this.#process.stdin?.end();
    await exited;
  }
}
