"""The examples in the README do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from serving import Server

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize("code", BLOCKS, ids=range(len(BLOCKS)))
def test_example(code: str, chat_server: Server) -> None:
    env = {"CONTEXTSTORE_DATA_DIR": str(chat_server.data_dir), "PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-W", "error", "-c", code], env=env, check=True, timeout=60)
