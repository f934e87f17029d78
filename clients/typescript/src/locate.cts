// Finds the server's binary among the installed packages. CommonJS in both builds: there `require` looks where this
// package is installed, without a bundler or a working directory in between.

import path = require("node:path");

/** The package that brings the binary for a platform; whether there is one is another question. */
function platformPackage(platform: string = process.platform, arch: string = process.arch): string {
  return `@contextstore/server-${platform}-${arch}`;
}

/** Where the binary of an installed platform package is, or undefined if the package is not installed. */
function packagedBinary(name: string = platformPackage()): string | undefined {
  return (
    resolved(`${name}/bin/contextstore`) ??
    resolved(`${name}/binary`) ??
    besideManifest(`${name}/package.json`)
  );
}

function besideManifest(request: string): string | undefined {
  const manifest = resolved(request);
  return manifest && path.join(path.dirname(manifest), "bin", "contextstore");
}

function resolved(request: string): string | undefined {
  try {
    return require.resolve(request);
  } catch {
    return undefined;
  }
}

export = { packagedBinary, platformPackage };
