#!/usr/bin/env bash
# Installs the packages in target/packages where nothing else is, as a user would, and uses them. Only what the clients
# depend on comes from outside.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
packages=$root/target/packages
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

# The server is to be found in the packages, and nowhere else.
unset "${!CONTEXTSTORE_@}"
if command -v contextstore >/dev/null; then
  echo "there is a contextstore on the PATH: $(command -v contextstore)" >&2
  exit 1
fi

"${PYTHON:-python3}" -m venv "$here/venv"
pip=("$here/venv/bin/pip" install --quiet --disable-pip-version-check)
"${pip[@]}" --requirement "$root/clients/python/requirements/high.txt"
"${pip[@]}" --no-index --find-links "$packages" 'contextstore[server]'
# By its path, without the venv's programs on the PATH.
(cd "$here" && "$here/venv/bin/python" -I "$root/tests/packages/spawned.py")
"$here/venv/bin/contextstore" --version

mkdir "$here/npm"
cd "$here/npm"
echo '{"private": true, "type": "module"}' >package.json
npm install --loglevel=error --no-audit --no-fund --ignore-scripts "$packages"/*.tgz
cp "$root/tests/packages/spawned.mjs" .
node spawned.mjs
