// The README names every method that there is.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Client, Compaction, Outputs, Server, Task } from "../src/index.js";

const README = readFileSync(new URL("../../README.md", import.meta.url), "utf8");

for (const kind of [Client, Task, Outputs, Compaction, Server]) {
  test(`the README names every method of ${kind.name}`, () => {
    const names: string[] = [];
    for (let at: unknown = kind.prototype; at !== Object.prototype; at = Object.getPrototypeOf(at)) {
      const own = Object.entries(Object.getOwnPropertyDescriptors(at));
      names.push(...own.filter(([, { value }]) => typeof value === "function").map(([name]) => name));
    }
    assert.ok(names.length > 1);
    const missing = names.filter(
      (name) => name !== "constructor" && !new RegExp(`\\b${name}\\b`).test(README),
    );
    assert.deepEqual(missing, []);
  });
}
