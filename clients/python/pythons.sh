#!/usr/bin/env bash
# Runs the quick tests of the client under every Python of this machine that it supports, but for that of PYTHON.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
venvs=$(cd ../../target && pwd)/venv
version='import sys; print("%d.%d" % sys.version_info[:2])'
mine=$("${PYTHON:-python3}" -c "$version")

# find_python VERSION: prints the path of that Python, if there is one. A shim of pyenv is there for versions that are not chosen,
# too, and fails.
find_python() {
  for python in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
    if [[ $("$python" -c "$version" 2>/dev/null) == "$1" ]] && "$python" -c 'import ensurepip, venv' 2>/dev/null; then
      command -v "$python"
      return
    fi
  done
}

for wanted in 3.10 3.11 3.12 3.13 3.14 3.15; do
  python=$(find_python "$wanted")
  [[ $wanted != "$mine" && -n $python ]] || continue
  echo "Python $wanted"
  venv=$venvs/python-$wanted
  pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check)
  "$python" -m venv --clear "$venv"
  "${pip[@]}" --requirement requirements/high.txt pytest pytest-xdist hatchling gunicorn
  "${pip[@]}" --no-deps --no-build-isolation .
  "$venv/bin/pytest" --quiet -p no:cacheprovider -m quick -n 4 --dist worksteal
done
