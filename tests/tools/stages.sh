#!/usr/bin/env bash
# Runs targets of the Makefile one after the other, up to the first that fails. Ends with a table of how long each took,
# slowest first, and fails if one of them changed the work tree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

worktree() { { git status --porcelain; git diff HEAD --binary; } 2>/dev/null | git hash-object --stdin; }

before=$(worktree)
status=0
rows=()
for stage; do
  printf '\n== make %s\n' "$stage"
  begun=$SECONDS
  "${MAKE:-make}" --no-print-directory "$stage" || status=$?
  rows+=("$(printf '%7d s  %s' $((SECONDS - begun)) "$stage")")
  ((status == 0)) || break
done

printf '\nTime of each stage, slowest first:\n'
printf '%s\n' "${rows[@]}" | sort --reverse --numeric-sort
printf '%7d s  in all\n' "$SECONDS"
if ((status != 0)); then
  echo "make $stage failed" >&2
elif [[ "$(worktree)" != "$before" ]]; then
  echo "the checks or tests changed the work tree:" >&2
  git status --short >&2
  status=1
fi
exit "$status"
