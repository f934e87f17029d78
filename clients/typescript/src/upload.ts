// What can be put as an output, and how it is sent again when the connection breaks.

/**
 * The content of an output: text, bytes, or something that yields either. A function is called for each attempt, so that
 * an output of any size can be sent again after the connection broke; of a stream only the first megabytes are kept for that.
 */
export type OutputContent =
  | string
  | Uint8Array
  | AsyncIterable<string | Uint8Array>
  | Iterable<string | Uint8Array>
  | (() => AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>);

/** Pieces of this size are good for the server. */
const PIECE_BYTES = 256 << 10;
/** What goes into the first message. */
const WHOLE_BYTES = 1 << 20;
/** What of a stream is kept, in case it has to be sent again. */
const KEPT_BYTES = 8 << 20;

/** The bytes of an output, for one attempt after the other. */
export class Upload {
  /** The whole output, if it is small enough for the first message. */
  readonly whole: Uint8Array | undefined;
  readonly #open: () => AsyncIterable<Uint8Array>;
  readonly #isRepeatable: () => boolean;

  constructor(content: OutputContent) {
    if (typeof content === "string" || content instanceof Uint8Array) {
      const bytes = typeof content === "string" ? Buffer.from(content) : content;
      this.whole = bytes.length <= WHOLE_BYTES ? bytes : undefined;
      this.#open = () => pieces([bytes]);
      this.#isRepeatable = () => true;
    } else if (typeof content === "function") {
      this.#open = () => pieces(content());
      this.#isRepeatable = () => true;
    } else {
      const once = new Kept(pieces(content));
      this.#open = () => once.pieces();
      this.#isRepeatable = () => once.isWhole;
    }
  }

  /** Whether it can be sent once more, from its beginning. */
  get isRepeatable(): boolean {
    return this.#isRepeatable();
  }

  /** All of it, from its beginning. */
  data(): AsyncIterable<Uint8Array> {
    return this.#open();
  }
}

/** A stream that can be read again from its beginning while it is small. */
class Kept {
  readonly #source: AsyncIterator<Uint8Array>;
  #kept: Uint8Array[] = [];
  #bytes = 0;
  #isDone = false;
  #next: Promise<void> | undefined;

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** Whether everything that was read is still there. */
  get isWhole(): boolean {
    return this.#bytes <= KEPT_BYTES;
  }

  async *pieces(): AsyncGenerator<Uint8Array, void, undefined> {
    for (let at = 0; ; at += 1) {
      while (this.isWhole && at >= this.#kept.length && !this.#isDone) {
        // It belongs to the source, not to an attempt, which may break meanwhile.
        this.#next ??= this.#pull();
        await this.#next;
      }
      const piece = this.#kept[at];
      if (!piece) {
        break;
      }
      yield piece;
    }
    if (!this.isWhole) {
      yield* this.#rest();
    }
  }

  async #pull(): Promise<void> {
    try {
      const item = await this.#source.next();
      if (item.done) {
        this.#isDone = true;
      } else {
        this.#kept.push(item.value);
        this.#bytes += item.value.length;
      }
    } finally {
      this.#next = undefined;
    }
  }

  /** What was not kept: from here on there is no way back. */
  async *#rest(): AsyncGenerator<Uint8Array, void, undefined> {
    this.#kept = [];
    for (;;) {
      const item = await this.#source.next();
      if (item.done) {
        return;
      }
      yield item.value;
    }
  }
}

/** As bytes, in pieces that are neither too small nor too large. */
async function* pieces(
  content: AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  let small: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of joined(content)) {
    const whole = typeof part === "string" ? Buffer.from(part) : part;
    if (!(whole instanceof Uint8Array)) {
      throw new TypeError(`an output yields text or bytes, not ${typeof part}`);
    }
    for (let at = 0; at < whole.length; at += PIECE_BYTES) {
      const piece = whole.subarray(at, at + PIECE_BYTES);
      small.push(piece);
      bytes += piece.length;
      if (bytes >= PIECE_BYTES / 4) {
        yield small.length === 1 ? piece : Buffer.concat(small);
        small = [];
        bytes = 0;
      }
    }
  }
  if (bytes > 0) {
    yield Buffer.concat(small);
  }
}

/** The parts, but for a character that is cut in two: its first half goes to the text with the second. */
async function* joined(
  content: AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>,
): AsyncGenerator<string | Uint8Array, void, undefined> {
  let half = "";
  for await (const part of content) {
    if (typeof part !== "string") {
      yield half;
      half = "";
      yield part;
      continue;
    }
    const text = half + part;
    const isCut = (text.charCodeAt(text.length - 1) & 0xfc00) === 0xd800;
    half = isCut ? text.slice(-1) : "";
    yield isCut ? text.slice(0, -1) : text;
  }
  yield half;
}
