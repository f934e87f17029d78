// Makes the ids that the client gives: of tasks, of calls and of itself.

import { randomBytes, randomUUID } from "node:crypto";

/** Names one call, so that a repetition of it changes nothing. */
export function newRequestId(): string {
  return randomUUID();
}

/** Names one client. */
export function newInstanceId(): string {
  return randomUUID();
}

/** A UUIDv7: sorts by the time it was made. */
export function newTaskUuid(now: number = Date.now()): string {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(now, 0, 6);
  bytes.writeUInt8(0x70 | (bytes.readUInt8(6) & 0x0f), 6);
  bytes.writeUInt8(0x80 | (bytes.readUInt8(8) & 0x3f), 8);
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
