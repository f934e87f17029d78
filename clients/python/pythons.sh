#!/usr/bin/env bash
# Prints the Pythons of this machine that the client runs under, one of each version, without that of PYTHON.
set -euo pipefail
version='import sys; print("%d.%d" % sys.version_info[:2])'
mine=$("${PYTHON:-python3}" -c "$version")
for wanted in 3.10 3.11 3.12 3.13 3.14 3.15; do
  [[ $wanted != "$mine" ]] || continue
  # A shim of pyenv is there for versions that are not chosen, too, and fails.
  for python in "python$wanted" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$wanted".*/bin/python; do
    if [[ $("$python" -c "$version" 2>/dev/null) == "$wanted" ]] && "$python" -c 'import ensurepip, venv' 2>/dev/null; then
      command -v "$python"
      break
    fi
  done
done
