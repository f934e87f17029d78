"""The examples in the README do what they say."""

from __future__ import annotations

import inspect
import re
import resource
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

import pytest
from serving import BINARY, DEADLINE, LONG, REPOSITORY, Server

from contextstore import Client, Compaction, Outputs, Spawned, Task, ToolCall

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize("kind", [Client, Task, Outputs, Compaction, ToolCall, Spawned])
def test_every_method_is_named(kind: type[Any]) -> None:
    text = README.read_text()
    methods = [name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")]
    assert [name for name in methods if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize("code", BLOCKS, ids=range(len(BLOCKS)))
def test_example(code: str, chat_server: Server) -> None:
    env = {
        "CONTEXTSTORE_BINARY": str(BINARY),
        "CONTEXTSTORE_DATA_DIR": str(chat_server.data_dir),
        "PYTHONPATH": ":".join(sys.path),
    }
    subprocess.run([sys.executable, "-W", "error", "-c", code], env=env, check=True, timeout=5 * DEADLINE)


def test_the_quick_start_works_with_nothing_but_the_wheel(tmp_path: Path) -> None:
    """In an empty directory, in under a minute.

    In `make test-long` in a place of its own: making it and installing the wheel, with what it needs from the index, are
    given the same minute, but of processor time: how long a download and a busy machine take says nothing about it. Else
    with the dependencies that are here; tests/packages has a place of its own each time.
    """
    readme = (REPOSITORY / "README.md").read_text()
    section = readme[readme.index("### Python") :]
    code = re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)[0]
    pip = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
    no_deps = ["--no-deps", "--no-build-isolation"]
    (tmp_path / "empty").mkdir()

    def run(*command: str | Path) -> None:
        subprocess.run(command, check=True, timeout=5 * DEADLINE)

    env = {"CONTEXTSTORE_BINARY": str(BINARY)}
    source, here, python = REPOSITORY / "clients/python", tmp_path / "here", Path(sys.executable)
    if LONG:
        run(python, *pip, "wheel", *no_deps, "--wheel-dir", tmp_path / "wheel", source)
        (wheel,) = (tmp_path / "wheel").iterdir()
    start, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    if LONG:
        venv.create(here, with_pip=True)
        python = here / "bin/python"
        run(python, *pip, "install", wheel)
    else:
        run(python, *pip, "install", *no_deps, "--no-index", "--target", here, source)
        env["PYTHONPATH"] = str(here)
    installed = time.monotonic()
    done = subprocess.run(
        [python, "-W", "error", "-c", code],
        cwd=tmp_path / "empty",
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    end, all_used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = all_used.ru_utime + all_used.ru_stime - used.ru_utime - used.ru_stime
    print(
        f"{end - installed:.1f} s; with its installation {end - start:.1f} s, {processor:.1f} s of processor time"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("message 1; the context is ") and done.stderr == ""
    assert list((tmp_path / "empty").iterdir()) == []
    assert processor < 60
