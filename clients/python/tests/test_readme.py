"""The examples in the README do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest
from serving import BINARY, REPOSITORY, Server

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize("code", BLOCKS, ids=range(len(BLOCKS)))
def test_example(code: str, chat_server: Server) -> None:
    env = {
        "CONTEXTSTORE_BINARY": str(BINARY),
        "CONTEXTSTORE_DATA_DIR": str(chat_server.data_dir),
        "PYTHONPATH": ":".join(sys.path),
    }
    subprocess.run([sys.executable, "-W", "error", "-c", code], env=env, check=True, timeout=60)


def test_the_quick_start_works_with_nothing_but_the_wheel(tmp_path: Path) -> None:
    """In an empty directory, in under a minute, with what it takes to install it."""
    readme = (REPOSITORY / "README.md").read_text()
    section = readme[readme.index("## From Python") :]
    code = re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)[0]
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path / "wheel")]
    subprocess.run([*pip, *build, REPOSITORY / "clients/python"], check=True, timeout=120)
    (wheel,) = (tmp_path / "wheel").iterdir()
    (tmp_path / "empty").mkdir()

    start = time.monotonic()
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([python, "-m", *pip[2:], "install", wheel], check=True, timeout=300)
    done = subprocess.run(
        [python, "-W", "error", "-c", code],
        cwd=tmp_path / "empty",
        env={"CONTEXTSTORE_BINARY": str(BINARY)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    seconds = time.monotonic() - start
    print(f"{seconds:.1f} s")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("message 1; the context is ") and done.stderr == ""
    assert list((tmp_path / "empty").iterdir()) == []
    assert seconds < 60
