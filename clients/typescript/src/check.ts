// Objects that callers hand in: a field that there is not is an error, also where no compiler has looked.

import { checkFinite } from "./json.js";

/** What a field may hold. `any` is looked at elsewhere. */
export type Kind = "text" | "texts" | "flag" | "number" | "function" | "any";

/** The kind of every field of T: the compiler sees to it that none is missing. */
export type Fields<T> = { readonly [K in keyof T]-?: Kind };

/** What a value of a kind has to be. */
const WORDS: Readonly<Record<Kind, string>> = {
  text: "a string",
  texts: "an array of strings",
  flag: "true or false",
  number: "a finite number",
  function: "a function",
  any: "anything",
};

/** Throws a TypeError, which names the field, if there is a field that is not known, or one of another kind. */
export function checkFields<T extends object>(name: string, given: T, fields: Fields<T>): void {
  checkNames(name, given, Object.keys(fields));
  for (const [field, kind] of Object.entries<Kind>(fields)) {
    const value: unknown = given[field as keyof T];
    if (value !== undefined) {
      checkKind(`${name}.${field}`, value, kind);
    }
  }
}

/** Throws a TypeError if there is a field that is not known. */
export function checkNames(name: string, given: object, known: readonly string[]): void {
  checkedObject(name, given);
  const unknown = Object.keys(given).find((field) => !known.includes(field));
  if (unknown !== undefined) {
    const meant = closest(unknown, known);
    const hint = meant === undefined ? "" : ` (did you mean ${meant}?)`;
    throw new TypeError(`${name} has no field ${unknown}${hint}; its fields are ${known.join(", ")}`);
  }
}

/** The value, which is an object. Throws a TypeError if it is none. */
export function checkedObject(name: string, value: unknown): object {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new TypeError(`${name} is ${wordFor(value)}; it must be an object`);
  }
  return value;
}

/** Throws a TypeError if a value is of another kind. */
export function checkKind(name: string, value: unknown, kind: Kind): void {
  const isRight =
    kind === "any" ||
    (kind === "text" && typeof value === "string") ||
    (kind === "texts" && Array.isArray(value) && value.every((one) => typeof one === "string")) ||
    (kind === "flag" && typeof value === "boolean") ||
    (kind === "number" && typeof value === "number") ||
    (kind === "function" && typeof value === "function");
  if (!isRight) {
    throw new TypeError(`${name} is ${wordFor(value)}; it must be ${WORDS[kind]}`);
  }
  if (typeof value === "number") {
    checkFinite(name, value);
  }
}

/** A value as an error shows it. */
export function wordFor(value: unknown): string {
  if (value === null || typeof value === "number" || typeof value === "boolean") {
    return String(value);
  }
  return typeof value === "string" ? JSON.stringify(value) : Array.isArray(value) ? "an array" : typeof value;
}

/** The name that a mistyped one was to be: it differs in the case of letters or in two places at most. */
function closest(given: string, known: readonly string[]): string | undefined {
  const plain = (name: string) => name.replaceAll("_", "").toLowerCase();
  return known.find((name) => distance(plain(name), plain(given)) <= 2);
}

function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
