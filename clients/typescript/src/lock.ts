// Whether a server runs on a data directory. Node cannot ask for a lock of a file, so this reads the kernel's list.

import { readFileSync, statSync } from "node:fs";

/** Whether a server holds the lock of its data directory. Throws if that cannot be found out. */
export function isLocked(file: string): boolean {
  let inode: string;
  let process: string | undefined;
  try {
    inode = String(statSync(file, { bigint: true }).ino);
    process = readFileSync(file, "utf8").split("\n", 1)[0]?.trim();
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") {
      return false;
    }
    throw thrown;
  }
  return readFileSync("/proc/locks", "utf8")
    .split("\n")
    .some((line) => {
      // 1: FLOCK  ADVISORY  WRITE 4711 fd:00:1835015 0 EOF
      const [, kind, , mode, holder, place] = line.trim().split(/\s+/);
      return kind === "FLOCK" && mode === "WRITE" && holder === process && place?.split(":")[2] === inode;
    });
}
