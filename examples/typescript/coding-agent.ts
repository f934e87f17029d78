// A coding agent: it plans, runs tools with large outputs, compresses its context, is interrupted and goes on, and leaves
// what it learned to the task that follows.
//
//     node coding-agent.js                       # offline: fake-llm plays the model
//     OPENAI_API_KEY=… node coding-agent.js      # a real one; or ANTHROPIC_API_KEY; AGENT_MODEL names the model
//
// examples/README.md says how it is compiled.
//
// The server is the one that CONTEXTSTORE_ADDRESS or CONTEXTSTORE_DATA_DIR names, with its own key; without them the agent
// starts one for itself (CONTEXTSTORE_BINARY, the platform's package, or the PATH). It works in a folder of its own.

import { spawn as run } from "node:child_process";
import { mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import {
  type AssistantMessage,
  type Client,
  CompressSkipReason,
  type ConfigInput,
  type FunctionCall,
  fromEnv,
  spawn,
  type Task,
} from "@contextstore/client";
import { answer, openaiTools } from "@contextstore/client/tools";
import { FakeModel } from "./fake-model.js";

// The project: a function with a bug, and a check that says much and means one line of it.
const FOLDER = await realpath(await mkdtemp(join(tmpdir(), "coding-agent-")));
await writeFile(join(FOLDER, "sum.mjs"), "export const sum = (a, b) => (a > 2000 ? a - b : a + b);\n");
await writeFile(
  join(FOLDER, "check.mjs"),
  `import { sum } from "./sum.mjs";
for (let n = 1; n <= 4000; n += 1) {
  const found = sum(n, 1);
  const isRight = found === n + 1 || (n !== 2345 && n > 2000);
  console.log(isRight ? \`ok    case \${n}: sum(\${n}, 1)\` : \`FAILED case \${n}: sum(\${n}, 1) is \${found}\`);
  if (!isRight) process.exitCode = 1;
}
`,
);

/** A file that the model named: only those of the folder. */
const inFolder = (path: unknown) => join(FOLDER, basename(String(path)));

/** What a program says, as it says it: however much that is, it goes to disk and not into this process. */
async function* outputOf(command: string, ...args: string[]): AsyncGenerator<string | Uint8Array> {
  const child = run(command, args, { cwd: FOLDER, stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  yield* child.stdout;
  yield `[exit status ${await ended}]\n`;
}

interface Tool {
  readonly description: string;
  readonly properties: Readonly<Record<string, unknown>>;
  readonly run: (given: Readonly<Record<string, unknown>>, task: Task) => unknown;
}

const text = { type: "string" };
const TOOLS: Readonly<Record<string, Tool>> = {
  plan: {
    description: "Writes down the plan: its steps, and which of them are done",
    properties: { steps: { type: "array", items: text }, done: { type: "integer" } },
    run: async (plan, task) => {
      const { id } = await task.appendPlan(plan, { planType: plan.done ? "revision" : "initial" });
      return `plan ${id} is kept`;
    },
  },
  run_check: {
    description: "Runs the check",
    properties: {},
    run: () => outputOf(process.execPath, "check.mjs"),
  },
  read_file: {
    description: "Reads a file",
    properties: { path: text },
    run: ({ path }) => readFile(inFolder(path), "utf8"),
  },
  write_file: {
    description: "Writes a file",
    properties: { path: text, content: text },
    run: async ({ path, content }) => {
      await writeFile(inFolder(path), String(content));
      return "written";
    },
  },
};

const DESCRIBED = Object.entries(TOOLS).map(([name, { description, properties }]) => ({
  type: "function",
  function: {
    name,
    description,
    parameters: { type: "object", properties, required: Object.keys(properties) },
  },
}));

/** One turn of the model, shown as it arrives. Its context is on the server: there is nothing to hand over but what is new. */
async function turn(task: Task, said?: string): Promise<AssistantMessage> {
  const messages = said === undefined ? [] : [{ role: "user", content: said }];
  for await (const event of task.chat(messages, { tools: [...DESCRIBED, ...openaiTools()] })) {
    if (event.type === "text") {
      process.stdout.write(event.text);
    } else if (event.type === "done") {
      console.log();
      return event.message;
    }
  }
  throw new Error("a turn ends with done or throws");
}

/** Carries out what the model called: the result is kept whole, and the model is shown the beginning and the end of it. */
async function carryOut(task: Task, call: FunctionCall): Promise<void> {
  const { name, arguments: given } = call.function;
  // With two tools of the client the model reads and searches what it was not shown.
  if (await answer(task, call)) {
    console.log(`[${name} ${given}]`);
    return;
  }
  const result = await task.runTool(call, async (args) => {
    const tool = TOOLS[name];
    if (!tool) {
      throw new Error(`there is no tool ${name}`);
    }
    return await tool.run(args, task);
  });
  const { byteSize, lineCount } = result.ref;
  console.log(
    `[${name}: ${lineCount} lines, ${byteSize} bytes${result.truncated ? `, cut: ${result.refId}` : ""}]`,
  );
}

/** Works until the model has nothing more to do, or for so many turns. */
async function work(task: Task, request: string | undefined, most: number): Promise<AssistantMessage> {
  let said = await turn(task, request);
  for (let turns = 1; said.tool_calls?.length && turns < most; turns += 1) {
    for (const call of said.tool_calls) {
      await carryOut(task, call);
    }
    const { pressure } = await task.contextUsage();
    if (pressure?.shouldCompress) {
      await compress(task);
    }
    said = await turn(task);
  }
  // Interrupted: what was called is carried out, so that the next turn can go on from there.
  for (const call of said.tool_calls ?? []) {
    await carryOut(task, call);
  }
  return said;
}

async function compress(task: Task): Promise<void> {
  const { compressed, tokensBefore, tokensAfter, skipReason } = await task.compress({
    overrides: { keepRecentMessages: 2, minMessages: 2 },
  });
  console.log(
    compressed
      ? `compressed: ${tokensBefore} → ${tokensAfter} tokens`
      : `not compressed: ${CompressSkipReason[skipReason]}`,
  );
}

async function agent(client: Client): Promise<void> {
  await client.waitUntilReady();
  const key = {
    taskSource: "example",
    owner: "octo",
    repo: "sum",
    taskType: "issue",
    taskId: `sum-${process.pid}`,
  };
  const config: ConfigInput = {
    contextLength: 32_000,
    compression: { auto: false, summarizer: "extractive" },
  };
  const systemMessage =
    "You mend programs. Plan first. Read large outputs with the tools that you have for that.";

  // Two turns; then the agent goes away. At the end of the block the task is paused.
  let uuid: string;
  {
    await using task = await client.startTask({ key, config, systemMessage });
    uuid = task.uuid;
    console.log(`task ${uuid}`);
    await work(task, "The check fails. Please mend sum.mjs.", 2);
  }
  console.log("paused");

  // Another process would do the same, or find it by its key: client.task(key).
  const task = await client.resumeTask(uuid);
  console.log("resumed");
  const { content } = await work(task, undefined, 10);
  task.onComplete("plan", async () => {
    console.log(`the last plan: ${JSON.stringify((await task.latestPlan())?.content)}`);
  });
  await task.complete(content ?? "");

  // A task with the same key knows what came of the first.
  await using next = await client.startTask({ key, config, systemMessage });
  console.log(`task ${next.uuid}, inherits from ${next.inheritedFrom}`);
  const told = await work(next, "What was wrong with sum.mjs?", 5);
  await next.complete(told.content ?? "");
}

/** The agent's own server, which asks the provider whose key is there, or a fake. */
async function withServer(): Promise<void> {
  const { OPENAI_API_KEY, ANTHROPIC_API_KEY, AGENT_MODEL } = process.env;
  const provider = ANTHROPIC_API_KEY && !OPENAI_API_KEY ? "anthropic" : "openai";
  const isOnline = Boolean(OPENAI_API_KEY || ANTHROPIC_API_KEY);
  await using fake = isOnline ? undefined : await FakeModel.start();
  const model = AGENT_MODEL ?? (provider === "anthropic" ? "claude-opus-4-5" : "gpt-5");
  const env = {
    CONTEXTSTORE_LLM__PROVIDER: provider,
    [`CONTEXTSTORE_LLM__PROVIDERS__${provider.toUpperCase()}__MODEL`]: model,
  };
  await using server = await spawn({ env: { ...env, ...fake?.env } });
  await agent(server.client);
}

try {
  if (process.env.CONTEXTSTORE_ADDRESS ?? process.env.CONTEXTSTORE_DATA_DIR) {
    await using client = fromEnv();
    await agent(client);
  } else {
    await withServer();
  }
} finally {
  await rm(FOLDER, { recursive: true });
}
