// The cases that every client runs, over both transports.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { openConnection } from "../src/transport.js";
import { METHODS, runScenario, type Scenario } from "./support/scenario.js";
import { TestServer } from "./support/server.js";

// From build/test, where the compiled tests are.
const FOLDER = new URL("../../../../tests/scenarios/", import.meta.url);
const FILES = readdirSync(FOLDER).filter((name) => name.endsWith(".json"));

function load(file: string): Scenario {
  return JSON.parse(readFileSync(new URL(file, FOLDER), "utf8")) as Scenario;
}

for (const transport of ["unix", "tcp"] as const) {
  describe(`scenarios over ${transport}`, () => {
    let server: TestServer;
    before(async () => {
      server = await TestServer.start();
    });
    after(() => server.stop());
    for (const file of FILES) {
      const scenario = load(file);
      test(`${file}: ${scenario.name}`, async () => {
        const connection = openConnection(server.options(transport));
        await runScenario(scenario, connection.transport);
        connection.close();
      });
    }
  });
}

test("the scenarios use every method", () => {
  const used = new Set(FILES.flatMap((file) => load(file).steps.map(({ call }) => call)));
  const unused = METHODS.map(({ name }) => name).filter((name) => !used.has(name));
  assert.deepEqual(unused, []);
});
