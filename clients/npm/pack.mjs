// Packs the server for npm: pack.mjs BINARY FOLDER. Makes the package of this platform around the binary, and the one that
// depends on it, and puts both into the folder.

import { execFileSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const [binary, folder] = process.argv.slice(2);
if (!binary || !folder) {
  throw new Error("pack.mjs BINARY FOLDER");
}
const server = join(import.meta.dirname, "server");
const { version, license, optionalDependencies } = JSON.parse(
  readFileSync(join(server, "package.json"), "utf8"),
);
const name = `@contextstore/server-${process.platform}-${process.arch}`;
if (optionalDependencies[name] !== version) {
  throw new Error(`@contextstore/server does not depend on ${name} ${version}`);
}

mkdirSync(folder, { recursive: true });
const dir = mkdtempSync(join(tmpdir(), "contextstore-npm-"));
try {
  mkdirSync(join(dir, "bin"));
  copyFileSync(binary, join(dir, "bin/contextstore"));
  chmodSync(join(dir, "bin/contextstore"), 0o755);
  copyFileSync(join(server, "LICENSE"), join(dir, "LICENSE"));
  const manifest = {
    name,
    version,
    description: `The program of @contextstore/server, for ${process.platform} on ${process.arch}`,
    license,
    os: [process.platform],
    cpu: [process.arch],
    // Where it was built there is glibc, unless Node says that there is none.
    ...(process.platform === "linux" && {
      libc: [process.report.getReport().header.glibcVersionRuntime ? "glibc" : "musl"],
    }),
    // Yarn must not keep it in an archive.
    preferUnplugged: true,
    files: ["bin/contextstore"],
  };
  writeFileSync(join(dir, "package.json"), JSON.stringify(manifest, null, 2));
  for (const from of [dir, server]) {
    execFileSync("npm", ["pack", "--silent", "--pack-destination", resolve(folder)], {
      cwd: from,
      stdio: "inherit",
    });
  }
} finally {
  rmSync(dir, { recursive: true });
}
