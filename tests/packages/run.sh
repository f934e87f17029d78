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

# licensed FILE...: each is there, and is the licence of the repository.
licensed() {
  for file; do cmp "$root/LICENSE" "$file"; done
}

"${PYTHON:-python3}" -m venv "$here/venv"
pip=("$here/venv/bin/pip" install --quiet --disable-pip-version-check)
"${pip[@]}" --requirement "$root/clients/python/requirements/high.txt"
"${pip[@]}" --no-index --find-links "$packages" --only-binary :all: 'contextstore[server]'
# By its path, without the venv's programs on the PATH.
(cd "$here" && "$here/venv/bin/python" -I "$root/tests/packages/spawned.py")
"$here/venv/bin/contextstore" --version
licensed "$here"/venv/lib/python*/site-packages/contextstore{,_bin}-*.dist-info/licenses/LICENSE
tar -xzf "$packages"/contextstore-*.tar.gz -C "$here"
licensed "$here"/contextstore-*/LICENSE

# The README's own quick start, in an empty directory, with nothing but the wheels, and in less than a minute.
awk '/^### Python$/ { here = 1 }
     code && /^```$/ { exit }
     code { print }
     here && /^```python$/ { code = 1 }' "$root/README.md" >"$here/quick_start.py"
mkdir "$here/empty"
cd "$here/empty"
begun=$SECONDS
env --ignore-environment "$here/venv/bin/python" -I -W error "$here/quick_start.py" | tee "$here/said"
took=$((SECONDS - begun))
grep --quiet '^message 1; the context is ' "$here/said"
if (( took >= 60 )) || [[ -n "$(ls -A)" ]]; then
  echo "the quick start took $took s, and left $(ls -A | wc -l) files" >&2
  exit 1
fi

mkdir "$here/npm"
cd "$here/npm"
echo '{"private": true, "type": "module"}' >package.json
npm install --loglevel=error --no-audit --no-fund --ignore-scripts "$packages"/*.tgz
cp "$root/tests/packages/spawned.mjs" .
node spawned.mjs
licensed node_modules/@contextstore/*/LICENSE
(( $(ls -d node_modules/@contextstore/*/LICENSE | wc -l) == 3 ))
