// Finds the program that the package of this platform has brought.

import { createRequire } from "node:module";

/** The path of the program `contextstore`. */
export function binary() {
  const name = `@contextstore/server-${process.platform}-${process.arch}`;
  try {
    return createRequire(import.meta.url).resolve(`${name}/bin/contextstore`);
  } catch (cause) {
    throw new Error(
      `${name} is not installed: there is none for this platform, or optional packages were left out`,
      {
        cause,
      },
    );
  }
}
