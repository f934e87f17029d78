"""Writes the modules of Client from those of AsyncClient: `unasync.py RUFF` writes them, `unasync.py RUFF --check` compares them.

What the two do differently stands in modules written by hand: `_io`, `_stream`, `_leases`, `_channel` and `streams`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).parent / "src" / "contextstore"
MODULES = (
    "_async_task_life",
    "_async_task_records",
    "async_client",
    "async_compaction",
    "async_outputs",
    "async_task",
    "async_toolcall",
)
"""The modules of AsyncClient that a module of Client is made from: its name is the same without `async_`."""

RULES = (
    (r"\n *@opening(?=\n)|\nfrom \._opening import opening(?=\n)", ""),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsyncGenerator\[(.+), None\]", r"Generator[\1, None, None]"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"__a(enter|exit|iter|next)__", r"__\1__"),
    (r"\baclos(e|ing)\b", r"clos\1"),
    (r"\ba(iter|next)\(", r"\1("),
    (r"\bgrpc\.aio\.", "grpc."),
    (r"\ban Async(?=[A-Z])", "a "),
    (r"Async(?=[A-Z])", ""),
    (r"\b(_?)async_", r"\1"),
    (r"\bfor asyncio\b", "for threads"),
    (r"for (\w+) in (.+):\n +yield \1\n", r"yield from \2\n"),
)
PHRASES = (
    ("for asyncio. Client is the same for threads.", "for threads. AsyncClient is the same for asyncio."),
    (
        "It belongs to the event loop of its first call. What iterates is closed at once, not some time later, by\n"
        "    `async with contextlib.aclosing(task.watch()) as events`.",
        "A client and its tasks can be shared by threads.",
    ),
    ("a cancellation, KeyboardInterrupt", "KeyboardInterrupt"),
    ("`await http.post(", "`httpx.post("),
    ("Called before a task ends; it may answer something to await.", "Called before a task ends."),
    (" What it answers is awaited, if it can be.", ""),
    ("an iterator of pieces, also an asynchronous one, which", "an iterator of pieces, which"),
    ("messages = [message async for message in compaction.messages()]\n            ", ""),
    ("await my_model(compaction.prompt, messages)", "my_model(compaction.prompt, compaction.messages())"),
    ("fetch.output = await get(url)", "fetch.output = get(url)"),
)
"""What documentation says of AsyncClient alone, and what it says of Client there."""


def synchronous(name: str, ruff: str, unused: set[str]) -> str:
    """Returns the module of Client that is made from a module of AsyncClient."""
    text = (SOURCES / f"{name}.py").read_text()
    # Rules would rewrite the words of the phrases, so marks stand for them meanwhile.
    for number, (old, _) in enumerate(PHRASES):
        if old in text:
            unused.discard(old)
            text = text.replace(old, f"\0{number}\0")
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    text = re.sub("\0(\\d+)\0", lambda mark: PHRASES[int(mark[1])][1], text)
    text = f"# Made from {name}.py by unasync.py: change that module, then run `make gen-sync`.\n{text}"
    named = ["--stdin-filename", str(SOURCES / "made.py"), "-"]
    for command in (["check", "--quiet", "--fix-only", "--select", "I"], ["format", "--quiet"]):
        done = subprocess.run(
            [ruff, *command, *named], input=text, stdout=subprocess.PIPE, text=True, check=True
        )
        text = done.stdout
    return text


def main(ruff: str, *options: str) -> None:
    unused = {old for old, _ in PHRASES}
    stale = []
    for name in MODULES:
        made = SOURCES / f"{name.replace('async_', '')}.py"
        text = synchronous(name, ruff, unused)
        if not made.exists() or made.read_text() != text:
            stale.append(made.name)
            if "--check" not in options:
                made.write_text(text)
    if unused:
        sys.exit(f"unasync.py: no module has these phrases: {sorted(unused)}")
    if stale and "--check" in options:
        sys.exit(f"made from older asynchronous modules: {', '.join(stale)}; run `make gen-sync`")


if __name__ == "__main__":
    main(*sys.argv[1:])
