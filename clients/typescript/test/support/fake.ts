// The strict fake of the providers (tests/providers of the repository), and what it is told to answer.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { BINARY } from "./server.js";

/** The program: it is built beside the server. */
export const FAKE_LLM = resolve(process.env.CONTEXTSTORE_FAKE_LLM || join(dirname(BINARY), "fake-llm"));

export const PROVIDERS = ["openai", "openai_responses", "anthropic", "ollama", "lmstudio"] as const;

/** A request that it got. */
export interface Got {
  readonly verdict: string;
  readonly answer: string;
  readonly bytes: number;
}

/** `fake-llm`, on a port of its own. */
export class FakeLlm {
  readonly url: string;
  readonly #process: ChildProcess;

  private constructor(process: ChildProcess, url: string) {
    this.#process = process;
    this.url = url;
  }

  static async start(): Promise<FakeLlm> {
    const child = spawn(FAKE_LLM, { stdio: ["pipe", "pipe", "inherit"] });
    const [line] = (await once(createInterface(child.stdout), "line")) as [string];
    return new FakeLlm(child, line.replace("listening ", "http://"));
  }

  /** For a server that is to ask it, whoever is meant. */
  env(): Record<string, string> {
    const env: Record<string, string> = { FAKE_API_KEY: "sk-test" };
    for (const provider of PROVIDERS) {
      const prefix = `CONTEXTSTORE_LLM__PROVIDERS__${provider.toUpperCase()}__`;
      const version = { anthropic: "", ollama: "", lmstudio: "/lmstudio/v1" }[provider as string] ?? "/v1";
      env[`${prefix}BASE_URL`] = `${this.url}${version}`;
      env[`${prefix}API_KEY_ENV`] = "FAKE_API_KEY";
      env[`${prefix}MODEL`] = "fake";
    }
    return env;
  }

  /** What happens to the next request. */
  async script(script: Readonly<Record<string, unknown>>): Promise<void> {
    await this.#control("POST", "/control", JSON.stringify(script));
  }

  /** Forgets scripts and requests. */
  async reset(): Promise<void> {
    await this.#control("DELETE", "/control");
  }

  async requests(): Promise<Got[]> {
    return JSON.parse(await this.#control("GET", "/control/requests")) as Got[];
  }

  async stop(): Promise<void> {
    const exited = once(this.#process, "exit");
    this.#process.stdin?.end();
    await exited;
  }

  async #control(method: string, path: string, body?: string): Promise<string> {
    const answer = await fetch(this.url + path, { method, ...(body !== undefined && { body }) });
    const text = await answer.text();
    if (!answer.ok) {
      throw new Error(text);
    }
    return text;
  }
}
