// Carries out the steps of a scenario; what they mean is in tests/scenarios/README.md of the repository.

import assert from "node:assert/strict";
import {
  type DescMethod,
  type DescMethodStreaming,
  type DescMethodUnary,
  fromJson,
  type JsonObject,
  type JsonValue,
  type Message,
  type MessageShape,
  toJson,
} from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";
import { type ContextStoreError, toError } from "../../src/errors.js";
import { ContextStore, ToolOutputs } from "../../src/proto.js";
import { DEADLINE_MS, eventually } from "./eventually.js";

/** One call and what is expected of it. */
interface Step {
  readonly call: string;
  readonly request?: JsonValue;
  readonly requests?: readonly JsonValue[];
  readonly expect?: JsonValue;
  readonly expect_stream?: readonly JsonValue[];
  readonly expect_text?: string;
  readonly expect_records?: readonly JsonValue[];
  readonly error?: { readonly code: string; readonly reason: string; readonly field?: string };
  readonly save?: Readonly<Record<string, string>>;
}

/** A file of tests/scenarios. */
export interface Scenario {
  readonly name: string;
  readonly about: string;
  readonly steps: readonly Step[];
}

/** The methods of both services; no two have the same name. */
export const METHODS: readonly DescMethod[] = [...ContextStore.methods, ...ToolOutputs.methods];

const STEP_KEYS = ["call", "request", "requests", "expect", "expect_stream", "expect_text", "expect_records"];

/** What came back: the responses, and the error behind them. */
interface Outcome {
  readonly responses: readonly JsonValue[];
  readonly error: ContextStoreError | undefined;
}

/** Carries out one scenario. */
export async function runScenario(scenario: Scenario, transport: Transport): Promise<void> {
  const saved = new Map<string, JsonValue>();
  for (const [at, raw] of scenario.steps.entries()) {
    const step = filledIn(raw as unknown as JsonValue, saved) as unknown as Step;
    const place = `step ${at + 1}, ${step.call}`;
    const unknown = Object.keys(step).filter((key) => ![...STEP_KEYS, "error", "save"].includes(key));
    assert.deepEqual(unknown, [], place);
    const responses = await lookUntilRight(place, step, transport);
    for (const [name, path] of Object.entries(step.save ?? {})) {
      const value = atPath(isStream(methodOf(step)) ? [...responses] : (responses[0] ?? null), path);
      assert.notEqual(value, undefined, `${place}: there is no ${path}`);
      saved.set(name, value as JsonValue);
    }
  }
}

/** Makes the call and compares; ListTasks again for a while, as the catalog may be a second behind. */
async function lookUntilRight(
  place: string,
  step: Step,
  transport: Transport,
): Promise<readonly JsonValue[]> {
  const look = async () => {
    const outcome = await perform(step, transport);
    compare(place, step, outcome);
    return outcome.responses;
  };
  if (step.call !== "ListTasks" || step.error) {
    return await look();
  }
  const deadline = performance.now() + DEADLINE_MS;
  return await eventually(place, async () => {
    try {
      return await look();
    } catch (wrong) {
      if (performance.now() > deadline) {
        throw wrong;
      }
      return undefined;
    }
  });
}

function methodOf(step: Step): DescMethod {
  const method = METHODS.find(({ name }) => name === step.call);
  assert.ok(method, `there is no method ${step.call}`);
  return method;
}

/** Whether it answers a stream. */
function isStream(method: DescMethod): boolean {
  return method.methodKind === "server_streaming" || method.methodKind === "bidi_streaming";
}

async function perform(step: Step, transport: Transport): Promise<Outcome> {
  const method = methodOf(step);
  const inputs = (step.requests ?? [step.request ?? {}]).map((json) => fromJson(method.input, json));
  const responses: JsonValue[] = [];
  const keep = (message: Message) =>
    responses.push(
      toJson(method.output, message as MessageShape<typeof method.output>, { alwaysEmitImplicit: true }),
    );
  const stop = new AbortController();
  // The transport ends its own timer only when a stream ends: one that is left would keep this process for so long.
  const timeoutMs = isEndless(step) ? 0 : DEADLINE_MS;
  try {
    if (method.methodKind === "unary") {
      const [input] = inputs;
      assert.ok(input);
      keep(
        (await transport.unary(method as DescMethodUnary, stop.signal, timeoutMs, undefined, input)).message,
      );
      return { responses, error: undefined };
    }
    const sent = (async function* () {
      yield* inputs;
    })();
    const { message } = await transport.stream(
      method as DescMethodStreaming,
      stop.signal,
      timeoutMs,
      undefined,
      sent,
    );
    for await (const response of message) {
      keep(response);
      if (isEndless(step) && hasEnough(step, responses)) {
        break;
      }
    }
    return { responses, error: undefined };
  } catch (thrown) {
    return { responses, error: toError(thrown) };
  } finally {
    stop.abort();
  }
}

/** Whether the call goes on until it is cancelled. */
function isEndless(step: Step): boolean {
  const follows = (step.request as JsonObject | undefined)?.follow === true;
  return !step.error && (step.call === "WatchTask" || follows);
}

function hasEnough(step: Step, responses: readonly JsonValue[]): boolean {
  return step.expect_records
    ? records(responses).length >= step.expect_records.length
    : responses.length >= (step.expect_stream?.length ?? 0);
}

function compare(place: string, step: Step, { responses, error }: Outcome): void {
  if (step.error) {
    assert.ok(error, `${place}: succeeded with ${JSON.stringify(responses)}`);
    const { code, reason, field } = step.error;
    const seen = [error.code, `ERROR_REASON_${error.reason}`];
    assert.deepEqual(seen, [code, reason], `${place}: ${error.message}`);
    if (field !== undefined) {
      const fields = error.fields.map((violation) => violation.field);
      assert.ok(fields.includes(field), `${place}: ${field} is not among ${fields.join(", ")}`);
    }
  } else if (error) {
    throw new Error(`${place}: ${error.code} ${error.reason}: ${error.message}`);
  }
  if (step.expect !== undefined) {
    subset(place, responses[0], step.expect);
  }
  if (step.expect_stream) {
    subset(place, [...responses], [...step.expect_stream]);
  }
  if (step.expect_text !== undefined) {
    const data = responses.map((response) => Buffer.from(String((response as JsonObject).data), "base64"));
    assert.equal(Buffer.concat(data).toString(), step.expect_text, place);
  }
  if (step.expect_records) {
    subset(place, records(responses), [...step.expect_records]);
  }
}

function records(responses: readonly JsonValue[]): JsonValue[] {
  const lines = responses.flatMap((response) => (response as { records: string[] }).records);
  return lines.map((line) => JSON.parse(Buffer.from(line, "base64").toString()) as JsonValue);
}

/** An object may have more keys than expected; lists have the same length; everything else is equal. */
function subset(place: string, found: JsonValue | undefined, expected: JsonValue): void {
  if (Array.isArray(expected)) {
    assert.ok(Array.isArray(found), `${place}: ${JSON.stringify(found)} is no list`);
    assert.equal(found.length, expected.length, `${place}: ${JSON.stringify(found)}`);
    expected.forEach((item, at) => {
      subset(`${place}.${at}`, found[at], item);
    });
  } else if (expected !== null && typeof expected === "object") {
    assert.ok(found !== null && typeof found === "object", `${place}: ${JSON.stringify(found)} is no object`);
    for (const [key, item] of Object.entries(expected)) {
      subset(`${place}.${key}`, (found as JsonObject)[key], item);
    }
  } else {
    assert.deepEqual(found, expected, place);
  }
}

/** With every string that is `$name` replaced by what was saved under that name. */
function filledIn(value: JsonValue, saved: ReadonlyMap<string, JsonValue>): JsonValue {
  if (typeof value === "string" && value.startsWith("$")) {
    const kept = saved.get(value.slice(1));
    assert.notEqual(kept, undefined, `${value} was not saved`);
    return kept ?? null;
  }
  if (Array.isArray(value)) {
    return value.map((item) => filledIn(item, saved));
  }
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, filledIn(item, saved)]));
  }
  return value;
}

function atPath(value: JsonValue, path: string): JsonValue | undefined {
  let at: unknown = value;
  for (const key of path.split(".")) {
    at = (at as Record<string, unknown> | null | undefined)?.[key];
  }
  return at as JsonValue | undefined;
}
