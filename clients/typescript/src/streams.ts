// Bytes that are read from the server, in the forms that are handy in JavaScript.

import { type JsonObject, lines, parseLine } from "./records.js";

/**
 * Bytes that the server sends, as often as they are asked for: each way of reading is a read of its own, and nothing is
 * asked for before. Read it with `for await`, as one text, or as a web stream.
 *
 * @example
 * ```ts
 * const lines = task.output.read(refId, { offset: 100, limit: 20 });
 * console.log(await lines.text());
 * ```
 */
export class ByteStream implements AsyncIterable<Uint8Array> {
  readonly #open: () => AsyncGenerator<Uint8Array, void, undefined>;

  /** @internal */
  constructor(open: () => AsyncGenerator<Uint8Array, void, undefined>) {
    this.#open = open;
  }

  /** The chunks as they come. Leaving the loop ends the call. */
  [Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    return this.#open();
  }

  /** As a web stream of bytes, for `fetch`, `Response` and the like. Cancelling it ends the call. */
  stream(): ReadableStream<Uint8Array> {
    return readable(this.#open());
  }

  /** All of it: it has to fit into memory. */
  async bytes(): Promise<Uint8Array> {
    const chunks: Uint8Array[] = [];
    for await (const chunk of this) {
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  }

  /** All of it, as text in UTF-8: it has to fit into memory. */
  async text(): Promise<string> {
    return new TextDecoder().decode(await this.bytes());
  }
}

/**
 * What the model sees, as it was at one moment: also across broken connections it is one snapshot.
 *
 * @example
 * ```ts
 * const messages = await task.current().toArray(); // all of it
 * for await (const message of task.current().messages()) console.log(message.role); // one by one
 * for await (const chunk of task.current()) file.write(chunk); // bytes of current.jsonl
 * return new Response(task.current().stream()); // a web stream of them
 * ```
 */
export class View extends ByteStream {
  /** One message after the other; of a type of an SDK, if the caller wants it so. */
  async *messages<M extends object = JsonObject>(): AsyncGenerator<M, void, undefined> {
    for await (const line of lines(this)) {
      yield parseLine(line) as M;
    }
  }

  /** All messages: they have to fit into memory. They fit what an SDK takes: its type is that of the place they go to. */
  async toArray<M extends object = JsonObject>(): Promise<M[]> {
    const messages: M[] = [];
    for await (const message of this.messages<M>()) {
      messages.push(message);
    }
    return messages;
  }
}

/** A web stream of what a generator yields; it is asked for a chunk when one is wanted. */
export function readable(chunks: AsyncGenerator<Uint8Array, void, undefined>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const next = await chunks.next();
        if (next.done) {
          controller.close();
        } else {
          controller.enqueue(next.value);
        }
      },
      async cancel() {
        await chunks.return();
      },
    },
    { highWaterMark: 0 },
  );
}
