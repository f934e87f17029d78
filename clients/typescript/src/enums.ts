// The enums of the protocol by the short names that callers use: TASK_STATUS_RUNNING is "running".

import type { DescEnum } from "@bufbuild/protobuf";
import { wordFor } from "./check.js";
import {
  type InheritMode,
  InheritModeSchema,
  type RecordKind,
  RecordKindSchema,
  type TaskOrder,
  TaskOrderSchema,
} from "./gen/contextstore/v1/context_store_pb.js";
import {
  type CompressionPreset,
  CompressionPresetSchema,
  type CompressionStrategy,
  CompressionStrategySchema,
  type Durability,
  DurabilitySchema,
  type Provider,
  ProviderSchema,
  type Summarizer,
  SummarizerSchema,
  type TaskComplexity,
  TaskComplexitySchema,
  type TaskStatus,
  TaskStatusSchema,
  type TokenCounter,
  TokenCounterSchema,
} from "./gen/contextstore/v1/task_pb.js";

/** The short names of an enum's values: in lower case, without the prefix. */
export type EnumName<E> = Lowercase<Exclude<keyof E & string, "UNSPECIFIED">>;

/** A value of an enum as callers hand it in: its short name, or the value itself. */
export type EnumInput<E> = EnumName<E> | E[keyof E];

/** Converts between the values of one enum and their short names. */
export class EnumNames<E> {
  /** All values but the unspecified one. */
  readonly #values: readonly { readonly name: string; readonly number: number }[];

  constructor({ values }: DescEnum) {
    this.#values = values
      .filter(({ number }) => number !== 0)
      .map(({ localName, number }) => ({ name: localName.toLowerCase(), number }));
  }

  /** The short names, in the order of the protocol. */
  get names(): readonly string[] {
    return this.#values.map(({ name }) => name);
  }

  /** Returns the value of an input, the unspecified one if nothing is given. Throws a TypeError that names the field. */
  value(field: string, input: EnumInput<E> | undefined): E[keyof E] {
    if (input === undefined || input === 0) {
      return 0 as E[keyof E];
    }
    const found = this.#values.find(({ name, number }) => name === input || number === input);
    if (found === undefined) {
      throw new TypeError(`${field} is ${wordFor(input)}; it must be one of ${this.names.join(", ")}`);
    }
    return found.number as E[keyof E];
  }

  /** Returns the values of a list of inputs. Throws a TypeError that names the field or its element. */
  list(field: string, inputs: readonly EnumInput<E>[]): E[keyof E][] {
    if (!Array.isArray(inputs)) {
      throw new TypeError(`${field} is ${wordFor(inputs)}; it must be an array of ${this.names.join(", ")}`);
    }
    return inputs.map((input, at) => this.value(`${field}[${at}]`, input as EnumInput<E>));
  }

  /** Returns the short name of a value; the number of one that only a newer server knows, as text. */
  name(value: E[keyof E]): string {
    return this.#values.find(({ number }) => number === value)?.name ?? String(value);
  }
}

export type ComplexityInput = EnumInput<typeof TaskComplexity>;
export type DurabilityInput = EnumInput<typeof Durability>;
export type InheritModeName = EnumName<typeof InheritMode>;
export type PresetInput = EnumInput<typeof CompressionPreset>;
export type ProviderName = EnumName<typeof Provider>;
export type ProviderInput = EnumInput<typeof Provider>;
export type RecordKindInput = EnumInput<typeof RecordKind>;
export type StrategyInput = EnumInput<typeof CompressionStrategy>;
export type SummarizerInput = EnumInput<typeof Summarizer>;
export type TaskOrderInput = EnumInput<typeof TaskOrder>;
export type TaskStatusInput = EnumInput<typeof TaskStatus>;
export type TokenCounterInput = EnumInput<typeof TokenCounter>;

export const COMPLEXITIES = new EnumNames<typeof TaskComplexity>(TaskComplexitySchema);
export const DURABILITIES = new EnumNames<typeof Durability>(DurabilitySchema);
export const INHERIT_MODES = new EnumNames<typeof InheritMode>(InheritModeSchema);
export const PRESETS = new EnumNames<typeof CompressionPreset>(CompressionPresetSchema);
export const PROVIDERS = new EnumNames<typeof Provider>(ProviderSchema);
export const RECORD_KINDS = new EnumNames<typeof RecordKind>(RecordKindSchema);
export const STRATEGIES = new EnumNames<typeof CompressionStrategy>(CompressionStrategySchema);
export const SUMMARIZERS = new EnumNames<typeof Summarizer>(SummarizerSchema);
export const TASK_ORDERS = new EnumNames<typeof TaskOrder>(TaskOrderSchema);
export const TASK_STATUSES = new EnumNames<typeof TaskStatus>(TaskStatusSchema);
export const TOKEN_COUNTERS = new EnumNames<typeof TokenCounter>(TokenCounterSchema);
