#!/usr/bin/env bash
# Makes src/contextstore/v1 from proto/contextstore/v1: messages, stubs and their types. Same input, same bytes.
# generate.sh [DIR] writes below DIR instead, so that a check can compare.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "${1:-$here/src}/contextstore/v1"
out=$(cd "${1:-$here/src}" && pwd)

# tool NAME: a place under target/ with what requirements/NAME.txt pins; made anew when that file changes.
tool() {
  local dir=$root/target/tools/python-$1 pins=$here/requirements/$1.txt
  if ! cmp --silent "$pins" "$dir/pins.txt"; then
    rm -rf "$dir"
    "${PYTHON:-python3}" -m venv "$dir"
    "$dir/bin/pip" install --quiet --disable-pip-version-check --requirement "$pins"
    cp "$pins" "$dir/pins.txt"
  fi
  echo "$dir/bin"
}
protoc=$(tool protoc)
types=$(tool types)

rm -f "$out"/contextstore/v1/*_pb2*.py*
cd "$root/proto"
run() { "$protoc/python" -m grpc_tools.protoc --proto_path=. "$@"; }
run --plugin=protoc-gen-mypy="$types/protoc-gen-mypy" --python_out="$out" --mypy_out=quiet:"$out" contextstore/v1/*.proto
# Only these files have a service.
run --plugin=protoc-gen-mypy_grpc="$types/protoc-gen-mypy_grpc" --grpc_python_out="$out" \
  --mypy_grpc_out=quiet:"$out" contextstore/v1/context_store.proto contextstore/v1/tool_outputs.proto
