#!/usr/bin/env python3
"""Writes docs/CLIENTS.md: which feature each client has, by the test that shows it.

A test claims a feature with the line `feature: NAME` in a comment or docstring; tests/data/client_features.json names them all.
With --check nothing is written: the script fails if the document is not fresh, if a client lacks a feature without a reason,
or if a test claims a feature that has no name.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "CLIENTS.md"
CLIENTS = {
    "Python": ("clients/python/tests/**/*.py",),
    "TypeScript": ("clients/typescript/test/**/*.ts",),
    "Rust": ("tests/service/**/*.rs", "client-rs/src/**/*.rs"),
    "Go": ("clients/go/contextstore/*_test.go",),
}
# What makes no sense in a language, and why.
LEFT_OUT = {
    ("fork-safe", "TypeScript"): "Node has no fork",
    ("fork-safe", "Rust"): "a process with threads must not go on after a fork",
    ("fork-safe", "Go"): "Go has no fork",
}
MARK = re.compile(r"\bfeatures?: ([a-z0-9-]+(?:, [a-z0-9-]+)*)")

HEAD = """\
# Clients

<!-- Written by `make gen-features` from the tests; do not edit. -->

The four clients do the same, in the manner of their languages. A ✓ leads to a test that shows it.
"""
SCENARIOS = """
## The protocol

Every client runs these scenarios against a real server, over the socket and over TCP ([`tests/scenarios`](../tests/scenarios/README.md)):
"""
VERSIONS = """
## Other versions of the server

A client ignores fields, error reasons and enum values that it does not know, so a newer server does not break it. A method that an older server
does not have fails with an error of its own type that names the method and the version of the server. `GetServerInfo` lists what a
server can do (`features`).
"""


def claims() -> dict[str, dict[str, Path]]:
    """Returns the first file that claims each feature, by client."""
    found: dict[str, dict[str, Path]] = {}
    for client, patterns in CLIENTS.items():
        files = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
        for path in files:
            for mark in MARK.finditer(path.read_text("utf-8")):
                for feature in mark[1].split(", "):
                    found.setdefault(feature, {}).setdefault(client, path)
    return found


def document(groups: dict[str, dict[str, str]], found: dict[str, dict[str, Path]]) -> str:
    """Returns the text of the document."""
    notes: list[str] = []
    text = [HEAD]
    for group, features in groups.items():
        text.append(f"\n## {group}\n\n| | {' | '.join(CLIENTS)} |\n| --- |{' :-: |' * len(CLIENTS)}\n")
        for feature, title in features.items():
            cells = []
            for client in CLIENTS:
                if path := found.get(feature, {}).get(client):
                    cells.append(f"[✓](../{path.relative_to(ROOT).as_posix()})")
                else:
                    reason = LEFT_OUT.get((feature, client), "missing")
                    if reason not in notes:
                        notes.append(reason)
                    cells.append(f"– ({notes.index(reason) + 1})")
            text.append(f"| {title} | {' | '.join(cells)} |\n")
        for number, note in enumerate(notes, 1):
            text.append(f"\n({number}) {note}\n")
        notes = []
    text.append(SCENARIOS)
    for path in sorted((ROOT / "tests" / "scenarios").glob("*.json")):
        scenario = json.loads(path.read_text("utf-8"))
        text.append(f"\n- [{scenario['name']}](../tests/scenarios/{path.name}): {scenario['about']}")
    text.append("\n" + VERSIONS)
    return "".join(text)


def main() -> int:
    """Writes or checks the document."""
    groups = json.loads((ROOT / "tests" / "data" / "client_features.json").read_text("utf-8"))
    known = {feature for features in groups.values() for feature in features}
    found = claims()
    wrong = [f"no feature has the name {feature!r}" for feature in sorted(set(found) - known)]
    for feature in sorted(known):
        for client in CLIENTS:
            if client not in found.get(feature, {}) and (feature, client) not in LEFT_OUT:
                wrong.append(f"no test of the {client} client shows `{feature}`")
    text = document(groups, found)
    if "--check" not in sys.argv[1:]:
        DOCUMENT.write_text(text, "utf-8")
    elif not DOCUMENT.exists() or DOCUMENT.read_text("utf-8") != text:
        wrong.append("docs/CLIENTS.md is not fresh; run `make gen-features`")
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
