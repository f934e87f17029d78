// Lines of the logs and of the view, taken out of the bytes they come in.

/** A JSON object as it was read. */
export type JsonObject = { [key: string]: unknown };

/** One line of a log. */
export interface LogRecord {
  /** `message`, or the name of the event; in tools.jsonl and planning.jsonl `tool_call` and `plan`. */
  readonly kind: string;
  /** The number of the record; of an event, that of the last message before it. */
  readonly seq: bigint;
  /** The line. Numbers beyond 2^53 lose digits here; `bytes` has them. */
  readonly json: JsonObject;
  /** The line as it stands on disk, with its checksum, without the newline. */
  readonly bytes: Uint8Array;
}

const decoder = new TextDecoder("utf-8", { fatal: true });

/** Reads a line of messages.jsonl. */
export function historyRecord(bytes: Uint8Array): LogRecord {
  const json = parseLine(bytes);
  const isEvent = typeof json.event === "string";
  const kind = isEvent ? (json.event as string) : "message";
  return { kind, seq: BigInt(Number(isEvent ? json.after : json.seq)), json, bytes: withoutNewline(bytes) };
}

/** Reads a line of a log whose records all have a number of their own, in the field `id`. */
export function numberedRecord(kind: string, id: string): (bytes: Uint8Array) => LogRecord {
  return (bytes) => {
    const json = parseLine(bytes);
    return { kind, seq: BigInt(Number(json[id])), json, bytes: withoutNewline(bytes) };
  };
}

/** Parses one line. */
export function parseLine(bytes: Uint8Array): JsonObject {
  return JSON.parse(decoder.decode(bytes)) as JsonObject;
}

function withoutNewline(bytes: Uint8Array): Uint8Array {
  return bytes.at(-1) === 0x0a ? bytes.subarray(0, -1) : bytes;
}

/** Puts chunks together to whole lines, without their newlines; holds no more than one line and one chunk. */
export async function* lines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  let parts: Uint8Array[] = [];
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(0x0a); end >= 0; end = chunk.indexOf(0x0a, start)) {
      parts.push(chunk.subarray(start, end));
      yield parts.length === 1 && parts[0] ? parts[0] : Buffer.concat(parts);
      parts = [];
      start = end + 1;
    }
    if (start < chunk.length) {
      parts.push(chunk.subarray(start));
    }
  }
  if (parts.length > 0) {
    yield Buffer.concat(parts);
  }
}
