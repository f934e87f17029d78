// The server's program: where it is, and what it is started with.

import { accessSync, constants, existsSync, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import { ContextStoreError } from "./errors.js";
import locate from "./locate.cjs";

/** Variables that are for clients: the server would take some of them for keys of its configuration. */
const CLIENT_VARIABLES = ["ADDRESS", "TOKEN", "TOKEN_FILE", "CA_FILE", "CERT_FILE", "KEY_FILE"];
const NOT_FOR_SERVER = [
  ...CLIENT_VARIABLES.map((name) => `CONTEXTSTORE_${name}`),
  "CONTEXTSTORE_BINARY",
  "CONTEXTSTORE_BIN",
  "CONTEXTSTORE_FAKE_LLM",
];

/** Where the binary is, or an error that names every place that was looked at. */
export function findBinary(given: string | undefined, env: NodeJS.ProcessEnv = process.env): string {
  if (given !== undefined) {
    return checked(given, "the option `binary`");
  }
  if (env.CONTEXTSTORE_BINARY) {
    return checked(env.CONTEXTSTORE_BINARY, "CONTEXTSTORE_BINARY");
  }
  const packaged = locate.packagedBinary();
  if (packaged !== undefined && existsSync(packaged)) {
    return packaged;
  }
  const folders = (env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  const found = folders.map((folder) => join(folder, "contextstore")).find(isExecutable);
  if (found !== undefined) {
    return found;
  }
  throw new ContextStoreError(
    `there is no contextstore to start: CONTEXTSTORE_BINARY is not set, the package ${locate.platformPackage()} is ` +
      `not installed, and none of the ${folders.length} folders of the PATH has one`,
    { code: "NOT_FOUND" },
  );
}

/** The environment of a server: that of this process with what was given, without what is for clients. */
export function serverEnvironment(
  given: Readonly<Record<string, string | undefined>> | undefined,
): NodeJS.ProcessEnv {
  const merged = { ...process.env, ...given };
  const kept = Object.entries(merged).filter(
    ([name, value]) => value !== undefined && !NOT_FOR_SERVER.includes(name),
  );
  return Object.fromEntries(kept);
}

function checked(binary: string, origin: string): string {
  if (!isExecutable(binary)) {
    throw new ContextStoreError(`${origin} names ${binary}, which is no program that can be run`, {
      code: "NOT_FOUND",
    });
  }
  return binary;
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
