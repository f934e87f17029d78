"""How much memory an agent has that works through a long history: with contextstore, and with a list.

    python agent_memory.py client 100000      # one agent; prints what it has after each tenth
    python agent_memory.py plot 100000 FILE   # both, as an SVG

The agent appends a message of 10 KB, and now and then reads its whole context, as it would to ask a model. The server
is that of CONTEXTSTORE_ADDRESS, or a private one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

MESSAGE_BYTES = 10_000
READS = 10
"""Reads of the whole context, at even distances."""


def messages(count: int) -> Iterator[dict[str, str]]:
    """Messages that are all different, as those of an agent are."""
    for number in range(count):
        words = f"{number} looked at line {number * 7919 % 100_003} of a file; "
        yield {"role": "user", "content": (words * (MESSAGE_BYTES // len(words) + 1))[:MESSAGE_BYTES]}


def resident() -> int:
    """Bytes of memory that this process has now."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024


def work(count: int, append: Callable[[dict[str, str]], object], read: Callable[[], int]) -> None:
    """The agent. After each read it says how many messages there are, what they are, and what memory it has."""
    step = count // READS
    for number, message in enumerate(messages(count), 1):
        append(message)
        if number % step == 0:
            print(json.dumps([number, read(), resident()]), flush=True)


def with_client(count: int) -> None:
    import contextstore

    with ExitStack() as stack:
        if "CONTEXTSTORE_ADDRESS" in os.environ:
            client = stack.enter_context(contextstore.Client.from_env())
        else:
            client = stack.enter_context(contextstore.spawn())
        # Nothing is compressed: the context is the whole history.
        task = client.start_task(config={"compression": {"enabled": False}})
        work(
            count,
            lambda message: task.append(message, wait=False),
            lambda: sum(len(chunk) for chunk in task.current()),
        )
        task.delete()


def with_list(count: int) -> None:
    history: list[dict[str, str]] = []
    work(count, history.append, lambda: sum(len(json.dumps(message)) + 1 for message in history))


def measure(agent: str, count: int, env: dict[str, str] | None = None) -> list[tuple[int, int, int]]:
    """Runs an agent in a process of its own: messages, bytes of them, bytes of memory."""
    done = subprocess.run(
        [sys.executable, __file__, agent, str(count)],
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=3600,
    )
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def plot(count: int, file: Path) -> None:
    """Both agents, drawn."""
    lines = {"with a list": measure("list", count), "with contextstore": measure("client", count)}
    colours = {"with a list": "#e08a1e", "with contextstore": "#1a6fb4"}
    most = max(memory for points in lines.values() for _, _, memory in points)
    top = -(-most // (200 << 20)) * (200 << 20)
    left, right, up, down = 70, 740, 60, 300

    def x(number: int) -> float:
        return left + (right - left) * number / count

    def y(memory: int) -> float:
        return down - (down - up) * memory / top

    size = lines["with contextstore"][-1][1]
    title = f"Memory of an agent over {count:,} messages ({size / 1e9:.1f} GB)".replace(",", " ")
    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 360" font-family="sans-serif" font-size="12">',
        f"<title>{title}</title>",
        '<rect width="760" height="360" fill="#ffffff"/>',
        f'<text x="{left}" y="24" fill="#222222" font-size="14">{title}</text>',
    ]
    for step in range(5):
        memory = top * step // 4
        out.append(
            f'<line x1="{left}" y1="{y(memory):.0f}" x2="{right}" y2="{y(memory):.0f}" stroke="#dddddd"/>'
            f'<text x="{left - 8}" y="{y(memory) + 4:.0f}" fill="#555555" text-anchor="end">{memory >> 20} MB</text>'
        )
    for step in range(0, READS + 1, 2):
        number = count * step // READS
        words = f"{number:,}".replace(",", " ")
        out.append(
            f'<text x="{x(number):.0f}" y="{down + 20}" fill="#555555" text-anchor="middle">{words}</text>'
        )
    out.append(
        f'<text x="{(left + right) // 2}" y="{down + 42}" fill="#555555" text-anchor="middle">messages</text>'
    )
    for name, points in lines.items():
        path = " ".join(f"{x(number):.1f},{y(memory):.1f}" for number, _, memory in points)
        number, _, memory = points[-1]
        out.append(
            f'<polyline points="{path}" fill="none" stroke="{colours[name]}" stroke-width="2.5"/>'
            f'<text x="{x(number) - 6:.0f}" y="{y(memory) - 8:.0f}" fill="{colours[name]}" text-anchor="end">'
            f"{name}: {memory >> 20} MB</text>"
        )
        print(name, [(number, memory >> 20) for number, _, memory in points])
    file.write_text("\n".join([*out, "</svg>"]) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "plot":
        plot(int(sys.argv[2]), Path(sys.argv[3]))
    else:
        {"client": with_client, "list": with_list}[sys.argv[1]](int(sys.argv[2]))
