"""A private server: found, started, ready, and gone with its program, however that ends."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from serving import BINARY, DEADLINE, alive

from contextstore import Client, SpawnFailed, find_binary, short_name, spawn

USER = {"role": "user", "content": "Hello"}


@pytest.fixture(autouse=True)
def binary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTSTORE_BINARY", str(BINARY))
    # It is for other servers.
    monkeypatch.setenv("CONTEXTSTORE_LIMITS__MESSAGE_BYTES", "1")


def gone(pid: int) -> bool:
    deadline = time.monotonic() + DEADLINE
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


# feature: spawn
@pytest.mark.quick
def test_a_private_server() -> None:
    server = spawn(timeout=40)
    with server as client:
        assert isinstance(client, Client) and client.timeout == 40 and str(server.pid) in repr(server)
        with client.task("hello") as task:
            task.append(USER)
        with Client(server.address) as other:
            assert short_name(other.get_task(task.uuid).task, "status") == "completed"
        data_dir = server.data_dir
        assert (data_dir / "completed" / task.uuid).is_dir()
    assert gone(server.pid) and not data_dir.exists() and not server.log.exists()
    server.stop()


def test_the_same_for_asyncio() -> None:
    async def story() -> int:
        server = spawn()
        async with server as client:
            async with client.task("hello") as task:
                await task.append(USER)
        return server.pid

    assert gone(asyncio.run(story()))


def test_a_directory_that_stays(tmp_path: Path) -> None:
    # Too long for a socket.
    for folder in (tmp_path / "data", tmp_path / ("x" * 100)):
        with spawn(folder) as client:
            task = client.start_task()
            task.append(USER)
            task.pause()
        with spawn(folder) as client:
            assert client.task(task.uuid).current().to_list() == [USER]


def test_a_program_that_was_killed_goes_on_at_once(tmp_path: Path) -> None:
    code = """
import os, signal, sys, contextstore
with contextstore.spawn(sys.argv[1]) as client, client.task("hello") as task:
    ack = task.append({"role": "user", "content": "Go on."})
    print(ack.seq, task.resumed, flush=True)
    if ack.seq < 3:
        os.kill(os.getpid(), signal.SIGKILL)
"""
    env = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", code, str(tmp_path / "data")]
    runs = [subprocess.run(command, env=env, stdout=subprocess.PIPE, timeout=5 * DEADLINE) for _ in range(3)]
    assert [run.stdout.split() for run in runs] == [[b"1", b"False"], [b"2", b"True"], [b"3", b"True"]]


# feature: spawn-dies-with-parent
@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM", "os._exit", "exit", "thread"])
def test_it_ends_with_its_program(end: str) -> None:
    code = """
import os, signal, sys, threading, contextstore
made = []
def make():
    made.append(contextstore.spawn())
if sys.argv[1] == "thread":
    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    made[0].client.server_info()
else:
    make()
print(made[0].pid, flush=True)
if sys.argv[1].startswith("SIG"):
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
elif sys.argv[1] == "os._exit":
    os._exit(3)
"""
    env = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, end], env=env, stdout=subprocess.PIPE, timeout=5 * DEADLINE
    )
    assert gone(int(done.stdout)), done


def test_a_program_that_is_killed_at_once_leaves_no_server(tmp_path: Path) -> None:
    """Between the start of the server and whatever would come next there."""
    code = """
import os, signal, subprocess, sys, contextstore

class Killed(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        os.write(1, str(self.pid).encode())
        os.kill(os.getpid(), signal.SIGKILL)

subprocess.Popen = Killed
contextstore.spawn(sys.argv[1])
"""
    env = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", code, str(tmp_path / "data")]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, timeout=5 * DEADLINE)
    assert gone(int(done.stdout)), done
    assert (tmp_path / "data/tasks.db").exists(), "the server has not run"


# feature: spawn-ctrl-c
def test_ctrl_c_leaves_time_to_put_things_aside(tmp_path: Path) -> None:
    code = """
import os, signal, sys, contextstore
# Whoever runs the tests in the background has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
with contextstore.spawn(sys.argv[1]) as client, client.task("x") as task:
    os.killpg(0, signal.SIGINT)
    signal.pause()
"""
    env = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path],
        env=env,
        capture_output=True,
        timeout=5 * DEADLINE,
        start_new_session=True,
    )
    assert b"KeyboardInterrupt" in done.stderr and len(list((tmp_path / "paused").iterdir())) == 1


def test_a_server_that_cannot_start(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a directory")
    with pytest.raises(SpawnFailed, match="(?s)ended at once.*data"):
        spawn(tmp_path / "data")
    with spawn() as client:
        with pytest.raises(SpawnFailed, match="ended at once"):
            spawn(client.server_info().data_dir)
    with pytest.raises(SpawnFailed, match="cannot be run"):
        spawn(binary=tmp_path / "none")


@pytest.mark.quick
def test_where_the_binary_is_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert find_binary() == BINARY
    monkeypatch.setenv("CONTEXTSTORE_BINARY", str(tmp_path / "none"))
    with pytest.raises(SpawnFailed, match="CONTEXTSTORE_BINARY is .*none"):
        find_binary()
    monkeypatch.delenv("CONTEXTSTORE_BINARY")
    packaged = SimpleNamespace(binary=lambda: tmp_path / "packaged")
    monkeypatch.setitem(sys.modules, "contextstore_bin", packaged)
    assert find_binary() == tmp_path / "packaged"
    monkeypatch.setitem(sys.modules, "contextstore_bin", None)
    program = tmp_path / "contextstore"
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_binary() == program
    program.unlink()
    with pytest.raises(SpawnFailed) as missing:
        find_binary()
    assert str(missing.value).startswith("the server's binary was not found: CONTEXTSTORE_BINARY is not set")
