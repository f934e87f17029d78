#!/usr/bin/env bash
# setup.sh PYTHON COMMAND:PACKAGE…: installs the Debian package of each command that is missing, or names them where that is
# not possible.
set -euo pipefail
python=$1
shift
missing=()
for pair; do
  command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
"$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
if ((${#missing[@]} == 0)); then
  exit 0
elif (($(id -u) == 0)) && command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install --yes -qq --no-install-recommends "${missing[@]}" >/dev/null
else
  echo "install these Debian packages, or what brings the same commands: ${missing[*]}" >&2
  exit 1
fi
