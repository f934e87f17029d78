// Chat and StreamRequest with the real server and the strict fake of the providers.

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import {
  type ChatEvent,
  type Client,
  InvalidRequestError,
  ProviderError,
  TokenCounter,
} from "../src/index.js";
import { collect, eventually } from "./support/eventually.js";
import { FakeLlm, PROVIDERS } from "./support/fake.js";
import { TestServer } from "./support/server.js";

const TOOLS = [
  {
    type: "function",
    function: {
      name: "read",
      description: "Reads a file",
      parameters: { type: "object", properties: { path: { type: "string" } } },
    },
  },
];
const LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen";

let fake: FakeLlm;
let server: TestServer;
let client: Client;
before(async () => {
  fake = await FakeLlm.start();
  server = await TestServer.start({ env: { ...fake.env(), CONTEXTSTORE_LLM__RETRIES: "0" } });
  client = server.client("unix");
});
beforeEach(() => fake.reset());
after(async () => {
  await server.stop();
  await fake.stop();
});

const user = (content: string) => ({ role: "user", content });

function textOf(events: readonly ChatEvent[]): string {
  return events.map((event) => (event.type === "text" ? event.text : "")).join("");
}

function whole(events: readonly ChatEvent[]): Extract<ChatEvent, { type: "done" }> {
  assert.equal(events[0]?.type, "started");
  const last = events.at(-1);
  assert.ok(last?.type === "done", JSON.stringify(last?.type));
  return last;
}

async function verdicts(): Promise<string[]> {
  return (await fake.requests()).map(({ verdict }) => verdict);
}

for (const provider of PROVIDERS) {
  test(`a turn of ${provider}`, async () => {
    const task = await client.startTask();
    await fake.script({ text: "It rains in 東京." });
    const system = { message: { role: "system", content: "Be brief." }, pinned: true };
    const events = await collect(task.chat([system, user("Weather?")], { provider }));
    assert.deepEqual(events[0], { type: "started", seqs: [1n, 2n], provider, model: "fake" });
    assert.equal(textOf(events), "It rains in 東京.");
    assert.ok(events.some((event) => event.type === "usage" && event.inputTokens > 0n));
    const { seq, message, finishReason, duplicate, pressure } = whole(events);
    assert.deepEqual([seq, finishReason, duplicate], [3n, "stop", false]);
    assert.deepEqual(message, { role: "assistant", content: "It rains in 東京." });
    assert.ok((pressure?.tokens ?? 0n) > 0n);
    assert.ok((await task.message(1)).pinned);
    assert.deepEqual(await verdicts(), ["ok"]);
  });
}

// feature: chat
test("calls of tools and their results", async () => {
  const task = await client.startTask({ config: { llmProvider: "anthropic", model: "m" } });
  const args = ["a", "b"].map((path) => JSON.stringify({ path }));
  await fake.script({
    thinking: "Where is it?",
    tool_calls: args.map((text) => ({ name: "read", arguments: text })),
  });
  const options = {
    tools: TOOLS,
    params: { max_tokens: 4000, thinking: { type: "enabled", budget_tokens: 2000 } },
  };
  const events = await collect(task.chat([user("Compare")], options));
  assert.equal(
    events.map((event) => (event.type === "reasoning" ? event.text : "")).join(""),
    "Where is it?",
  );
  const calls = whole(events).message.tool_calls ?? [];
  assert.equal(calls.length, 2);
  for (const [index, call] of calls.entries()) {
    const pieces = events.flatMap((event) =>
      event.type === "toolCall" && event.index === index ? [event] : [],
    );
    assert.deepEqual([pieces[0]?.id, pieces[0]?.name], [call.id, "read"]);
    assert.equal(pieces.map((piece) => piece.arguments).join(""), call.function.arguments);
  }
  const results = calls.map(({ id }) => ({ role: "tool", tool_call_id: id, content: "x" }));
  assert.equal(whole(await collect(task.chat(results, options))).finishReason, "stop");
  assert.deepEqual(await verdicts(), ["ok", "ok"]);
});

test("the same turn again is told and not asked", async () => {
  const task = await client.startTask();
  const options = { provider: "openai", requestId: "turn" } as const;
  const first = whole(await collect(task.chat([user("Hello")], options)));
  const again = whole(await collect(task.chat([user("Hello")], options)));
  assert.ok(again.duplicate);
  assert.deepEqual(again.message, first.message);
  assert.equal((await fake.requests()).length, 1);
});

test("leaving the loop cancels the call, and what arrived stays", async () => {
  const task = await client.startTask();
  await fake.script({ text: LONG, fault: "hang_mid_stream" });
  for await (const event of task.chat([user("Count")], { provider: "openai" })) {
    if (event.type === "text") {
      break;
    }
  }
  await eventually("the provider is left", async () => (await fake.requests())[0]?.answer === "gone");
  const last = await eventually("it is recorded", async () =>
    (await collect(task.messages({ kinds: ["message"] }))).find(({ json }) => json.role === "assistant"),
  );
  assert.ok(LONG.startsWith(String(last.json.content)));
  whole(await collect(task.chat([user("Go on")], { provider: "openai" })));
  assert.equal((await verdicts())[1], "ok");
});

test("what goes wrong at the provider is told, and not repeated", async () => {
  const task = await client.startTask();
  await fake.script({ text: LONG, fault: "break_mid_stream" });
  const events: ChatEvent[] = [];
  await assert.rejects(
    async () => {
      for await (const event of task.chat([user("Count")], { provider: "openai" })) {
        events.push(event);
      }
    },
    (error) => error instanceof ProviderError && error.reason === "PROVIDER_FAILED",
  );
  assert.ok(textOf(events) !== "" && LONG.startsWith(textOf(events)));
  assert.equal((await fake.requests()).length, 1);
  await fake.script({ status: 400, message: "no such model" });
  await assert.rejects(collect(task.chat([], { provider: "openai" })), {
    name: "ProviderError",
    reason: "PROVIDER_REFUSED",
    message: /no such model/,
  });
});

test("a turn waits for a server that is being restarted, and appends once", async () => {
  const own = await TestServer.start({ env: fake.env() });
  try {
    const task = await own.client("unix").startTask();
    await own.kill();
    const events = collect(task.chat([user("Hello")], { provider: "openai" }));
    await own.restart();
    assert.equal(whole(await events).seq, 2n);
  } finally {
    await own.stop();
  }
});

// feature: request-body
test("the body of a request", async () => {
  const task = await client.startTask({ config: { compression: { auto: false } } });
  await task.append(user("x".repeat(300_000)));
  await task.append(user("Say it."));
  const options = { model: "m", params: { stream: false }, tools: TOOLS };
  const chunks = await collect(task.requestBody("openai", options));
  assert.ok(chunks.length > 1);
  const answer = await fetch(`${fake.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: "Bearer k", "content-type": "application/json" },
    body: Buffer.concat(chunks),
  });
  assert.match(await answer.text(), /Echo: Say it\./);
  assert.deepEqual(await verdicts(), ["ok"]);
  await assert.rejects(collect(task.requestBody("openai", { model: "m", maxBytes: 1000 })), {
    reason: "REQUEST_TOO_LARGE",
  });
  await assert.rejects(collect(task.requestBody("openai")), InvalidRequestError);
});

test("how full the context is", async () => {
  const task = await client.startTask({ config: { tokenCounter: "heuristic" } });
  const { pressure } = await task.append(user("Hello"));
  const usage = await task.contextUsage();
  assert.deepEqual([usage.messages, usage.tokenCounter, usage.toolsTokens], [1n, TokenCounter.HEURISTIC, 0n]);
  assert.equal(usage.pressure?.tokens, pressure?.tokens);
  assert.ok((await task.contextUsage({ tools: TOOLS })).toolsTokens > 0n);
});
