"""The server of a data directory that programs share: the first one starts it, and it goes when the last one has gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from serving import BINARY, DEADLINE, alive, eventually

from contextstore import (
    Client,
    SpawnFailed,
    Unavailable,
    async_connect_or_spawn,
    connect_or_spawn,
    spawn,
)

USER = {"role": "user", "content": "Hello"}
SOON = ("--stop-when-idle", "2s")
"""Long enough that no server ends while a program connects to it on a busy machine."""


@pytest.fixture(autouse=True)
def binary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTSTORE_BINARY", str(BINARY))
    # It is for other servers.
    monkeypatch.setenv("CONTEXTSTORE_LIMITS__MESSAGE_BYTES", "1")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A data directory; no server of it is left."""
    yield tmp_path / "data"
    pids = servers(tmp_path)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    eventually(lambda: not any(alive(pid) for pid in pids))


def servers(folder: Path) -> list[int]:
    """The processes that serve a directory in this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--stop-when-idle" in command and any(word.startswith(os.fsencode(folder)) for word in command):
            found.append(int(process.name))
    return found


# feature: connect-or-spawn
@pytest.mark.quick
def test_the_first_one_starts_it_and_it_goes_with_the_last_one(folder: Path) -> None:
    first = connect_or_spawn(folder, arguments=SOON, timeout=20)
    assert first.timeout == 20
    server = first.server_info()
    assert server.process_id != os.getpid() and server.data_dir == str(folder)
    assert os.getsid(server.process_id) == server.process_id
    log = folder / "server.log"
    assert "serving" in log.read_text() and stat.S_IMODE(log.stat().st_mode) == 0o600
    task = first.start_task()
    task.append(USER)
    with connect_or_spawn(folder, arguments=SOON) as second:
        assert second.server_info().process_id == server.process_id
        first.close()
        assert second.get_task(task.uuid).task.last_seq == 1
    eventually(lambda: not alive(server.process_id))
    assert "stopped" in log.read_text()
    with connect_or_spawn(folder, arguments=SOON) as third:
        assert third.server_info().process_id != server.process_id
        assert third.get_task(task.uuid).task.last_seq == 1
        assert "stopped" not in log.read_text()


def test_it_stays_while_a_client_that_does_nothing_is_connected(folder: Path) -> None:
    with connect_or_spawn(folder, arguments=("--stop-when-idle", "500ms")) as client:
        server = client.server_info().process_id
        # Another one comes and goes; then longer than an idle server would go on.
        connect_or_spawn(folder).close()
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            assert alive(server)
            time.sleep(0.05)
        assert client.server_info().process_id == server


def test_the_same_for_asyncio(folder: Path) -> None:
    async def story() -> None:
        first, second = await asyncio.gather(
            *(async_connect_or_spawn(folder, arguments=SOON, instance_id=name) for name in ("a", "b"))
        )
        async with first, second:
            assert (first.instance_id, second.instance_id) == ("a", "b")
            pids = [(await client.server_info()).process_id for client in (first, second)]
            assert pids[0] == pids[1]
            async with first.task("x") as task:
                await task.append(USER)

    asyncio.run(story())


def test_programs_that_come_at_once_get_one_server_and_the_first_to_end_does_not_end_it(folder: Path) -> None:
    code = """
import json, os, sys, contextstore
with contextstore.connect_or_spawn(sys.argv[1], arguments=("--stop-when-idle", "1s")) as client:
    pid = client.server_info().process_id
    print(json.dumps(pid), flush=True)
    while sys.stdin.readline():
        client.start_task().append({"role": "user", "content": "Hello"})
        print(json.dumps(client.server_info().process_id), flush=True)
"""
    env = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(folder)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Also one that is killed, or interrupted with all its group, does not end it.
            start_new_session=True,
        )
        for _ in range(4)
    ]

    def told(program: subprocess.Popen[str]) -> int:
        assert program.stdout is not None
        return int(json.loads(program.stdout.readline()))

    pids = {told(program) for program in programs}
    assert len(pids) == 1
    for number, program in enumerate(programs):
        assert program.stdin is not None and program.stdout is not None
        program.stdin.write("go on\n")
        program.stdin.flush()
        assert told(program) in pids
        if number % 2:
            os.killpg(program.pid, signal.SIGKILL)
        program.stdin.close()
        program.wait(timeout=DEADLINE)
        program.stdout.close()
    server = pids.pop()
    eventually(lambda: not alive(server))


# feature: address-any-name
@pytest.mark.quick
@pytest.mark.parametrize(
    "name", ["a%41b", "a#b", "a?b", "a,b", "a b", "ü🦀", "%", "a:b;c&d=e", "-x", b"\xff\xfe", "l" * 120]
)
def test_a_directory_may_have_any_name(
    tmp_path: Path, folder: Path, name: str | bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + os.fsencode(name)))
    with connect_or_spawn(data_dir, arguments=SOON) as client:
        server = client.server_info().process_id
        client.start_task().append(USER)
        assert data_dir.joinpath("running").is_dir()
        # A relative path, by the environment, and as an address; for asyncio too.
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("CONTEXTSTORE_DATA_DIR", os.fsdecode(name))
        with Client.from_env() as other:
            assert other.server_info().process_id == server

        async def asynchronously() -> None:
            async with await async_connect_or_spawn(os.fsdecode(name)) as other:
                assert (await other.server_info()).process_id == server

        asyncio.run(asynchronously())
        with connect_or_spawn(data_dir) as other:
            assert other.server_info().process_id == server


def test_a_server_that_was_killed_is_started_again(folder: Path) -> None:
    with connect_or_spawn(folder, arguments=SOON) as client:
        task = client.start_task()
        task.append(USER)
        os.kill(client.server_info().process_id, signal.SIGKILL)
        with pytest.raises(Unavailable):
            client.server_info(timeout=0.3)
        with connect_or_spawn(folder, arguments=SOON) as again:
            assert again.get_task(task.uuid).task.last_seq == 1
            # A client that was there before goes on, too.
            assert client.server_info().process_id == again.server_info().process_id


def test_a_server_that_somebody_else_started_is_used(folder: Path, tmp_path: Path) -> None:
    for number, listen in enumerate(
        ("unix:contextstore.sock", f"unix:{tmp_path}/other.sock", "tcp:127.0.0.1:0")
    ):
        data_dir = tmp_path / f"other-{number}"
        server = subprocess.Popen(
            [
                BINARY,
                "serve",
                "--data-dir",
                data_dir,
                "--listen",
                listen.replace("unix:c", f"unix:{data_dir}/c"),
            ],
            stderr=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if not name.startswith("CONTEXTSTORE_")},
        )
        try:
            eventually((data_dir / "addresses").exists)
            with connect_or_spawn(data_dir) as client:
                assert client.server_info().process_id == server.pid
                assert not (data_dir / "server.log").exists()
        finally:
            server.terminate()
            server.wait(timeout=DEADLINE)


SERVER_OF_ONE_CONNECTION = f"""#!{sys.executable}
import os, socket, subprocess, sys, threading, time
# The real server behind a socket that somebody listens on at once. It ends in order with the first connection that it has had.
arguments = sys.argv[1:]
place = arguments.index("--listen") + 1
path = arguments[place].removeprefix("unix:")
arguments[place] = f"unix:{{path}}.real"
outside = socket.socket(socket.AF_UNIX)
if os.path.exists(path):
    os.unlink(path)
outside.bind(path)
outside.listen()
server = subprocess.Popen([{str(BINARY)!r}, *arguments])

def pump(source, target):
    while data := source.recv(65536):
        target.sendall(data)
    end()

def end():
    os.unlink(path)
    server.kill()
    server.wait()
    os._exit(0)

def serve(client):
    if not (first := client.recv(65536)):
        return
    inside = socket.socket(socket.AF_UNIX)
    while inside.connect_ex(path + ".real"):
        time.sleep(0.01)
    inside.sendall(first)
    threading.Thread(target=pump, args=(inside, client)).start()
    pump(client, inside)

while True:
    threading.Thread(target=serve, args=(outside.accept()[0],)).start()
"""


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_the_connection_that_got_an_answer_is_the_one_of_the_client(
    folder: Path, tmp_path: Path, kind: str
) -> None:
    program = tmp_path / "one-connection"
    program.write_text(SERVER_OF_ONE_CONNECTION)
    program.chmod(0o700)

    async def story() -> None:
        async with await async_connect_or_spawn(folder, binary=program, start_timeout=20) as client:
            assert (await client.server_info()).data_dir == str(folder)

    if kind == "asyncio":
        asyncio.run(story())
    else:
        with connect_or_spawn(folder, binary=program, start_timeout=20) as client:
            assert client.server_info().data_dir == str(folder)


def test_a_server_that_was_idle_too_early_is_started_again(folder: Path, tmp_path: Path) -> None:
    program = tmp_path / "idle-at-first"
    program.write_text(
        f'#!/bin/sh\necho start >> {tmp_path}/starts\n[ $(wc -l < {tmp_path}/starts) -gt 5 ] && exec {BINARY} "$@"\nexit 0\n'
    )
    program.chmod(0o700)
    with connect_or_spawn(folder, binary=program, arguments=SOON) as client:
        assert client.server_info().data_dir == str(folder)


def test_the_log_is_that_of_the_server_that_answers(folder: Path, tmp_path: Path) -> None:
    loser = tmp_path / "loser"
    loser.write_text("#!/bin/sh\necho the loser\nwhile :; do sleep 0.05; done\n")
    loser.chmod(0o700)
    with ThreadPoolExecutor() as pool:
        late = pool.submit(connect_or_spawn, folder, binary=loser, start_timeout=DEADLINE)
        eventually(lambda: any("the loser" in log.read_text() for log in folder.glob(".server.log-*")))
        with connect_or_spawn(folder, arguments=SOON) as client, late.result(DEADLINE) as other:
            assert other.server_info().process_id == client.server_info().process_id
            assert "serving" in (folder / "server.log").read_text()
            assert not list(folder.glob(".server.log-*"))


def test_a_server_that_cannot_start(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        SpawnFailed, match="(?s)^data_dir: .*data cannot be used: its server ended at once.*--no-such"
    ):
        connect_or_spawn(folder, arguments=["--no-such"])
    (tmp_path / "file").touch()
    with pytest.raises(SpawnFailed, match="^data_dir: .*file cannot be used: "):
        connect_or_spawn(tmp_path / "file")
    with pytest.raises(SpawnFailed, match="cannot be run"):
        connect_or_spawn(folder, binary=tmp_path / "none")
    with pytest.raises(TypeError, match="^data_dir: must be a path, not int"):
        connect_or_spawn(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="^data_dir: "):
        connect_or_spawn("a\0b")
    # One that holds the directory and does not answer.
    with spawn(tmp_path / "held") as client:
        os.kill(client.server_info().process_id, signal.SIGSTOP)
        with pytest.raises(SpawnFailed, match="no server of it answers"):
            connect_or_spawn(tmp_path / "held", start_timeout=0.5)
        os.kill(sharing_server(tmp_path / "held"), signal.SIGCONT)


def sharing_server(data_dir: Path) -> int:
    """The process that holds a directory, by what it has written into the lock."""
    return int((data_dir / "LOCK").read_text().split()[0])
