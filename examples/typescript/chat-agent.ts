// An agent that keeps no history and has no HTTP client: contextstore keeps the one and is the other.
//
// It asks a model, carries out the tools that the model calls, and hands the results over, until the model has an answer.
//
//     node chat-agent.js "What does this folder hold?"      # compiled as examples/README.md says
//
// The server is found as CONTEXTSTORE_ADDRESS or CONTEXTSTORE_DATA_DIR say, and has the key of the provider;
// AGENT_PROVIDER and AGENT_MODEL ask for another one than it is configured for.

import { readdir, readFile, realpath } from "node:fs/promises";
import { join, sep } from "node:path";
import {
  type AssistantMessage,
  type ChatMessage,
  type FunctionCall,
  fromEnv,
  type ProviderName,
  type Task,
} from "@contextstore/client";

const FOLDER = await realpath(process.cwd());

/** A path that the model named; it gets nothing outside of the folder. */
async function inside(path: unknown): Promise<string> {
  const found = await realpath(join(FOLDER, String(path ?? ".")));
  if (found !== FOLDER && !found.startsWith(FOLDER + sep)) {
    throw new Error(`${path} is outside of ${FOLDER}`);
  }
  return found;
}

type Arguments = Readonly<Record<string, unknown>>;

const TOOLS: Readonly<Record<string, { description: string; run: (given: Arguments) => Promise<unknown> }>> =
  {
    list_files: {
      description: "Lists a folder",
      run: async ({ path }) => (await readdir(await inside(path))).sort(),
    },
    read_file: {
      description: "Reads the beginning of a file",
      run: async ({ path }) => (await readFile(await inside(path), "utf8")).slice(0, 4000),
    },
  };
const DESCRIBED = Object.entries(TOOLS).map(([name, { description }]) => ({
  type: "function",
  function: {
    name,
    description,
    parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
  },
}));

/** Runs a tool; answers the message that tells the model what came of it. */
async function carryOut(task: Task, call: FunctionCall): Promise<ChatMessage> {
  const { name, arguments: given } = call.function;
  let content: string;
  try {
    const tool = TOOLS[name];
    if (!tool) {
      throw new Error(`there is no tool ${name}`);
    }
    const result = await tool.run(JSON.parse(given) as Arguments);
    content = JSON.stringify(result);
    await task.recordToolCall({ toolName: name, arguments: given, result });
  } catch (error) {
    // Whatever the model got wrong, it is told, and may do better.
    content = String(error);
    await task.recordToolCall({ toolName: name, arguments: given, error: content });
  }
  console.log(`\n[${name} ${given}]`);
  return { role: "tool", tool_call_id: call.id, content };
}

/** One turn of the model, shown as it arrives. */
async function turn(task: Task, messages: readonly ChatMessage[]): Promise<AssistantMessage> {
  const { AGENT_PROVIDER, AGENT_MODEL: model = "" } = process.env;
  // The client refuses a name that no provider has.
  const provider = AGENT_PROVIDER ? { provider: AGENT_PROVIDER as ProviderName } : {};
  for await (const event of task.chat(messages, { ...provider, model, tools: DESCRIBED })) {
    if (event.type === "text") {
      process.stdout.write(event.text);
    } else if (event.type === "done") {
      return event.message;
    }
  }
  throw new Error("a turn ends with done or throws");
}

const client = fromEnv();
const task = await client.startTask();
console.log(`task ${task.uuid}`);
let said = await turn(task, [
  { role: "system", content: "Use the tools. Answer in two sentences." },
  { role: "user", content: process.argv[2] ?? "What does this folder hold?" },
]);
while (said.tool_calls?.length) {
  said = await turn(task, await Promise.all(said.tool_calls.map((call) => carryOut(task, call))));
}
console.log();
await task.complete(said.content ?? "");
await client.close();
