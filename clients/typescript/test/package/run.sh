#!/usr/bin/env bash
# The package as a user gets it: installed into an empty folder, run as ESM and as CommonJS, its types checked as Node's
# and as a bundler's resolution find them, with TypeScript 6 and 7. Takes the packed file.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
client=$(cd "$here/../.." && pwd)
tarball=$(realpath "$1")
CONTEXTSTORE_BINARY=$(realpath "${CONTEXTSTORE_BIN:-$client/../../target/debug/contextstore}")
export CONTEXTSTORE_BINARY
long=${CONTEXTSTORE_TEST_LONG:-}
# Servers that are spawned would take it for a key of their configuration.
unset CONTEXTSTORE_TEST_LONG

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "name": "consumer", "private": true }' >package.json
npm install --silent --prefer-offline --ignore-scripts --no-audit --no-fund "$tarball"
cp "$here"/*.mjs "$here"/*.cjs "$here"/*.mts "$here"/*.cts "$here"/*.json .

echo "no install scripts"
node -e 'const { scripts = {} } = require("@contextstore/client/package.json"); process.exitCode = Object.keys(scripts).length'
echo "as an ES module"
node esm.mjs
echo "as CommonJS"
node cjs.cjs
echo "without a server, and a binary that comes with a package"
node without.cjs

# Connect's own types name HeadersInit, which only the DOM has: so its declarations are checked with the DOM alone.
mkdir -p node_modules/@types
ln -s "$client/node_modules/@types/node" node_modules/@types/node
ln -s "$client/node_modules/undici-types" node_modules/undici-types
for compiler in "$client/node_modules/typescript/bin/tsc" "$client/node_modules/typescript-7/bin/tsc"; do
  node "$compiler" --version
  projects=(node16 bundler dom)
  # The older one takes seconds for each; the other two are for `make test-long`.
  if [[ "$long" != 1 && "$compiler" != */typescript-7/* ]]; then projects=(node16); fi
  for project in "${projects[@]}"; do
    echo "types: $project"
    node "$compiler" --project "tsconfig.$project.json"
  done
done
