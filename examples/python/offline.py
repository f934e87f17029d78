"""What the coding agent needs without a network: a small project with a bug, and a model that is a script.

The model answers through `fake-llm`, the strict fake of the providers of this repository (`cargo build -p
contextstore-providers`), so everything else is as with a real one. `CONTEXTSTORE_FAKE_LLM` is its path.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from contextstore import Task

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("CONTEXTSTORE_FAKE_LLM") or REPOSITORY / "target/debug/fake-llm")

CODE = '''"""Prices."""


def discounted(price: float, percent: float) -> float:
    """The price less so many per cent."""
    return price - percent
'''
FIXED = CODE.replace("price - percent", "price * (1 - percent / 100)")
TESTS = """import unittest

from prices import discounted


class TestPrices(unittest.TestCase):
    def test_nothing_off(self):
        for number in range(3000):
            print(f"checked the price {number} with nothing off, and it was as it should be")
            self.assertEqual(discounted(number, 0), number)

    def test_a_quarter_off(self):
        self.assertEqual(discounted(200, 25), 150)
"""
ADDED = """
    def test_half_off(self):
        self.assertEqual(discounted(10, 50), 5)
"""


def make_project(folder: Path) -> Path:
    """A project whose tests fail, and say so in the middle of much else."""
    (folder / "prices.py").write_text(CODE)
    (folder / "test_prices.py").write_text(TESTS)
    return folder


Line = tuple[str, list[tuple[str, dict[str, Any]]]]


def lines(task: Task) -> Iterator[Line]:
    """What the model says, turn by turn: words, and calls of tools. It looks at the context as a model does."""
    yield "I make a plan.", [("plan", {"steps": ["look", "run the tests", "fix it", "run them again"]})]
    yield "I look around.", [("list_files", {}), ("read_file", {"path": "prices.py"})]
    yield "I run the tests.", [("run_tests", {})]
    yield (
        "That is long. I search it.",
        [("tool_output_cache_grep", {"pattern": "Error: |^FAILED", "before": 3})],
    )
    yield "I look at its end.", [("tool_output_cache", {"ref_id": ref(task), "offset": 3000, "limit": 40})]
    yield "Per cent are taken for money. I fix it.", [("write_file", {"path": "prices.py", "content": FIXED})]
    yield "I run the tests again.", [("run_tests", {})]
    yield "`discounted` took per cent for money; it multiplies now. All tests pass.", []


def more_lines(task: Task) -> Iterator[Line]:
    """What it says to the follow-up, with what it knows of the first task."""
    known = "took per cent for money" in json.dumps(task.current().to_list())
    yield (
        f"{'As I know' if known else 'I do not know'}, per cent were taken for money. I add a test.",
        [("write_file", {"path": "test_prices.py", "content": TESTS + ADDED})],
    )
    yield "I run the tests.", [("run_tests", {})]
    yield "A test for half off would have found it; it is there now, and passes.", []


def ref(task: Task) -> str:
    """The newest output that the context names."""
    found = re.findall(r"out-[0-9a-f]{32}", json.dumps(task.current().to_list()))
    return str(found[-1]) if found else "out-none"


class Model:
    """`fake-llm`, which says what it is told to."""

    def __init__(self) -> None:
        if not PROGRAM.exists():
            raise SystemExit(f"there is no {PROGRAM}: `cargo build -p contextstore-providers` makes it")
        self._process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._url = f"http://{self._process.stdout.readline().split()[1]}"
        self._turns: dict[str, int] = {}

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *error: object) -> None:
        # It ends when its input does.
        self._process.communicate()

    def environment(self) -> dict[str, str]:
        """For a server that is to ask it."""
        prefix = "CONTEXTSTORE_LLM__PROVIDERS__OPENAI__"
        return {
            "CONTEXTSTORE_LLM__PROVIDER": "openai",
            f"{prefix}BASE_URL": f"{self._url}/v1",
            f"{prefix}MODEL": "fake",
            f"{prefix}API_KEY_ENV": "FAKE_API_KEY",
            "FAKE_API_KEY": "any",
        }

    def before(self, task: Task) -> None:
        """Says what the model is to answer next."""
        number = self._turns.get(task.uuid, 0)
        self._turns[task.uuid] = number + 1
        script = more_lines(task) if task.inherited_from else lines(task)
        for at, (text, calls) in enumerate(script):
            if at == number:
                wanted = [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in calls]
                self._post({"text": text, "tool_calls": wanted})
                return

    def _post(self, script: dict[str, Any]) -> None:
        request = urllib.request.Request(f"{self._url}/control", data=json.dumps(script).encode())
        urllib.request.urlopen(request, timeout=30).close()
