// What the SDKs of providers give is appended as it is, and what is read goes to them as it is: their own types say so.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type Anthropic from "@anthropic-ai/sdk";
import type { FunctionDeclaration, GenerateContentResponse } from "@google/genai";
import type { ChatRequest, ChatResponse, Ollama } from "ollama";
import type OpenAI from "openai";
import type { Task } from "../src/index.js";
import { anthropicTools, dispatch, openaiResponsesTools, openaiTools } from "../src/tools.js";
import { TestServer } from "./support/server.js";

let server: TestServer;
let task: Task;
before(async () => {
  server = await TestServer.start();
  task = await server.client("unix").startTask({ config: { compression: { auto: false } } });
});
after(() => server.stop());

type Create = OpenAI.Chat.ChatCompletionCreateParamsNonStreaming;

test("openai", async () => {
  const answer: Pick<OpenAI.Chat.ChatCompletion, "choices"> = {
    choices: [
      {
        index: 0,
        finish_reason: "tool_calls",
        logprobs: null,
        message: {
          role: "assistant",
          content: "I look.",
          refusal: null,
          tool_calls: [{ id: "c1", type: "function", function: { name: "look", arguments: "{}" } }],
        },
      },
    ],
  };
  const [choice] = answer.choices;
  assert.ok(choice);
  const question: OpenAI.Chat.ChatCompletionMessageParam = { role: "user", content: "Look." };
  await task.append(question);
  await task.append(choice.message);
  for (const call of choice.message.tool_calls ?? []) {
    if (call.type === "function") {
      assert.equal(await dispatch(task, call), undefined);
      await task.runTool(call, () => "Nothing.");
    }
  }
  for await (const _ of task.appendMany([question, choice.message]));
  const messages: OpenAI.Chat.ChatCompletionMessageParam[] = await task.current().toArray();
  const request: Create = { model: "gpt-5", messages: await task.current().toArray(), tools: openaiTools() };
  assert.deepEqual([messages.length, request.messages.length], [5, 5]);
  for await (const message of task.current().messages<OpenAI.Chat.ChatCompletionMessageParam>()) {
    assert.ok(["user", "assistant", "tool"].includes(message.role));
  }
  const own: OpenAI.Chat.ChatCompletionTool[] = [
    { type: "function", function: { name: "look", parameters: { type: "object", properties: {} } } },
  ];
  const responses: OpenAI.Responses.FunctionTool[] = openaiResponsesTools();
  const used = await task.contextUsage({ tools: [...own, ...openaiTools(), ...responses] });
  assert.ok((used.pressure?.tokens ?? 0n) >= 0n);
  // The answer of a turn goes on to the SDK too.
  const told = async (): Promise<OpenAI.Chat.ChatCompletionMessageParam | undefined> => {
    for await (const event of task.chat([question, choice.message], { tools: own })) {
      if (event.type === "done") {
        return event.message;
      }
    }
    return undefined;
  };
  assert.equal(typeof told, "function");
});

test("@anthropic-ai/sdk", async () => {
  const question: Anthropic.MessageParam = { role: "user", content: "Look." };
  await task.append(question);
  const tools: Anthropic.Tool[] = anthropicTools();
  assert.equal(tools.length, 2);
  const call: Anthropic.ToolUseBlock = {
    type: "tool_use",
    id: "t1",
    name: "tool_output_cache",
    input: { ref_id: "nonsense" },
    caller: { type: "direct" },
  };
  const result: Anthropic.ToolResultBlockParam | undefined = await dispatch(task, call);
  assert.equal(result?.tool_use_id, "t1");
});

test("ollama", async () => {
  const answer: Pick<ChatResponse, "message"> = { message: { role: "assistant", content: "I see." } };
  await task.append(answer.message);
  const request: ChatRequest = {
    model: "qwen3",
    messages: await task.current().toArray(),
    tools: openaiTools(),
  };
  assert.ok((request.messages?.length ?? 0) > 0);
  const chat = (ollama: Ollama) => ollama.chat({ ...request, stream: false });
  assert.equal(typeof chat, "function");
});

test("@google/genai", async () => {
  const answer: Pick<GenerateContentResponse, "text" | "functionCalls"> = {
    text: "I look.",
    functionCalls: [{ id: "g1", name: "look", args: {} }],
  };
  const calls = (answer.functionCalls ?? []).map(({ id = "", name = "", args = {} }) => ({
    id,
    type: "function" as const,
    function: { name, arguments: JSON.stringify(args) },
  }));
  await task.append({ role: "assistant", content: answer.text ?? "", tool_calls: calls });
  for (const call of calls) {
    await task.runTool(call, () => "Nothing.");
  }
  const declarations: FunctionDeclaration[] = openaiTools().map(
    ({ function: { name, description, parameters } }) => ({
      name,
      description,
      parametersJsonSchema: parameters,
    }),
  );
  assert.equal(declarations.length, 2);
});
