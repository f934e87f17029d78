// Stands between client and server on a Unix socket of its own, and breaks what passes through.

import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

// RFC 9113, sections 4.1 and 6.
const FRAME_HEAD = 9;
const DATA = 0;
const HEADERS = 1;

/** The first frame of these bytes, if it is there as a whole. */
function firstFrame(bytes: Buffer): Buffer | undefined {
  if (bytes.length < FRAME_HEAD) {
    return undefined;
  }
  const length = FRAME_HEAD + bytes.readUIntBE(0, 3);
  return bytes.length < length ? undefined : bytes.subarray(0, length);
}

/** A proxy for one server. */
export class BadProxy {
  /** How many connections it has cut. */
  cuts = 0;
  /** How many heads of the server's answers have passed. */
  heads = 0;
  readonly #server: Server;
  readonly #dir: string;
  readonly #sockets = new Set<Socket>();
  #left = Number.POSITIVE_INFINITY;
  #isSilent = false;

  private constructor(dir: string, target: string) {
    this.#dir = dir;
    this.#server = createServer((client) => this.#forward(client, connect(target)));
  }

  static async start(target: string): Promise<BadProxy> {
    const dir = mkdtempSync(join(tmpdir(), "contextstore-proxy-"));
    const proxy = new BadProxy(dir, target);
    proxy.#server.listen(join(dir, "proxy.sock"));
    await once(proxy.#server, "listening");
    return proxy;
  }

  get address(): string {
    return `unix:${join(this.#dir, "proxy.sock")}`;
  }

  /** Cuts all connections once, after the server has answered this many bytes more; they do not arrive. */
  cutAfter(bytes: number): void {
    this.#left = bytes;
  }

  /** Lets nothing of the server's through from now on, without a word. */
  silence(): void {
    this.#isSilent = true;
  }

  async stop(): Promise<void> {
    this.cut();
    this.#server.close();
    rmSync(this.#dir, { recursive: true, force: true });
    await once(this.#server, "close");
  }

  #forward(client: Socket, server: Socket): void {
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(from);
      from.on("error", () => to.destroy());
      from.on("close", () => {
        this.#sockets.delete(from);
        to.destroy();
      });
    }
    client.on("data", (data) => server.write(data));
    let rest = Buffer.alloc(0);
    server.on("data", (data) => {
      rest = Buffer.concat([rest, data]);
      for (let frame = firstFrame(rest); frame && !server.destroyed; frame = firstFrame(rest)) {
        rest = rest.subarray(frame.length);
        this.#answer(client, frame);
      }
    });
  }

  #answer(client: Socket, frame: Buffer): void {
    if (this.#isSilent) {
      return;
    }
    // A ping or a new window may come at any time, and is not the answer that a test wants lost.
    if (frame[3] === DATA || frame[3] === HEADERS) {
      this.#left -= frame.length;
    }
    if (this.#left < 0) {
      this.#left = Number.POSITIVE_INFINITY;
      this.cut();
    } else {
      client.write(frame);
      this.heads += frame[3] === HEADERS ? 1 : 0;
    }
  }

  /** Cuts all connections. */
  cut(): void {
    this.cuts += 1;
    for (const socket of this.#sockets) {
      socket.destroy();
    }
  }
}
