"""The demo runs to its end, and says what it promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from serving import BINARY, DEADLINE

DEMO = Path(__file__).parents[1] / "examples/demo.py"


def test_the_demo_runs_to_its_end() -> None:
    env = {**os.environ, "CONTEXTSTORE_BIN": str(BINARY), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-W", "error", DEMO], env=env, capture_output=True, text=True, timeout=5 * DEADLINE
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for promised in (
        "killed with SIGKILL",
        "the lease is still ours",
        "The API is",
        "compressed in the background, by the built-in summariser",
        "messages again",
        "and a second one goes on with what is known",
        "[Summary of messages",
        "exit code 0",
        "── Done",
    ):
        assert promised in done.stdout
