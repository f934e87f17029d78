// What the types promise: compiled, never run. A line that must not compile says so.

import {
  type AppendMessageResponse,
  type ChatEvent,
  type Client,
  ContextStoreError,
  connect,
  type JsonObject,
  type MaskedSecrets,
  type ProviderName,
  type StoredOutput,
  type Task,
  TaskStatus,
} from "@contextstore/client";
import type { AppendMessageRequest } from "@contextstore/client/proto";
import { type AnthropicTool, dispatch, openaiTools } from "@contextstore/client/tools";

/** Whether two types are the same. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <A, B>(..._: Same<A, B> extends true ? [] : [never]) => undefined;

export async function check(): Promise<void> {
  await using client: Client = connect({ address: "unix:/a", tls: { ca: "" } });
  await using task: Task = await client.startTask({ config: { contextLength: 8000n, model: "gpt-5" } });
  same<Awaited<ReturnType<typeof client.startTask>>, Task>();
  const handle: Task = client.task("018f0000-0000-7000-8000-000000000000");
  const byKey: Promise<Task> = client.task({ taskId: "7" }, { user: "ada" });

  const appended: AppendMessageResponse = await task.append({ role: "user", content: "x", more: 1 });
  const seq: bigint = appended.seq;
  const masked: readonly MaskedSecrets[] = appended.masked;
  const queued: undefined = await task.append("{}", { wait: false });
  // @ts-expect-error: a message has a role
  await task.append({ content: "x" });
  // @ts-expect-error: a sequence number is a bigint
  const wrong: number = appended.seq;
  await task.pin(seq);
  await task.pin(1);

  same<ProviderName, "openai" | "openai_responses" | "anthropic" | "ollama" | "lmstudio">();
  const statuses = ["running", TaskStatus.PAUSED] as const;
  for await (const { status } of client.listTasks({ filter: { statuses }, order: "updated_asc" })) {
    same<typeof status, TaskStatus>();
  }
  const config = { durability: "each", compression: { strategy: "prune", preset: "balanced" } } as const;
  await task.update(config);
  // @ts-expect-error: there is no such strategy
  await task.compress({ strategy: "shrink" });
  // @ts-expect-error: there is no such status
  void client.listTasks({ filter: { statuses: ["ended"] } });

  const messages: JsonObject[] = await task.current().toArray();
  for await (const chunk of task.current()) {
    const bytes: Uint8Array = chunk;
    void bytes;
  }
  const stream: ReadableStream<Uint8Array> = task.current({ asOfSeq: 3 }).stream();
  await fetch("http://localhost", {
    method: "POST",
    body: task.requestBody("openai", { model: "gpt-5" }),
    // The types of the DOM do not know it yet.
    ...({ duplex: "half" } as object),
  });

  for await (const event of task.chat([{ role: "user", content: "x" }], { tools: openaiTools() })) {
    same<typeof event, ChatEvent>();
    if (event.type === "done") {
      const calls = event.message.tool_calls ?? [];
      for (const call of calls) {
        const run = await task.runTool(call, ({ path }: { path: string }) => path);
        const stored: StoredOutput = run;
        await task.runTool(call, (args) => args.path);
        void stored;
      }
    } else if (event.type === "text") {
      const text: string = event.text;
      void text;
    }
  }

  const double = task.tool("double", async (n: number) => n * 2);
  same<typeof double, (n: number) => Promise<number>>();
  const four: number = await double(2);
  // @ts-expect-error: it takes what the function takes
  await double("2");

  const found = await task.output.grep(/x/i, { before: 1 }).all();
  const matches: bigint = found.matches;
  for await (const { ref, toolName } of task.output.list()) {
    void [ref?.byteSize, toolName];
  }
  const use = { type: "tool_use", id: "t1", name: "tool_output_cache", input: {} } as const;
  const answer: { type: "tool_result" } | undefined = await dispatch(task, use);
  try {
    await task.complete();
  } catch (error) {
    if (error instanceof ContextStoreError && error.reason === "WRONG_STATUS") {
      void error.fields.map(({ field }) => field);
    }
  }
  const tool: Pick<AnthropicTool, "name"> = { name: "tool_output_cache" };
  const raw: AppendMessageRequest["taskUuid"] = "";
  void [handle, byKey, masked, queued, wrong, messages, stream, four, matches, answer, tool, raw];
}
