"""Processes that fork: each child is another client, and what belongs to the parent stays with it. Real processes, as grpcio
has threads of its own: each story is told by a program that forks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from serving import BINARY, DEADLINE, Server, alive, eventually, free_port

from contextstore import Client, LeaseHeld

pytestmark = pytest.mark.quick
USER = {"role": "user", "content": "Hello"}
PRELUDE = """
import asyncio, contextlib, json, os, signal, sys, threading, time, traceback
import contextstore
from contextstore import AsyncClient, Client, ForkUnsafe, LeaseHeld, short_name
USER = {"role": "user", "content": "Hello"}

def child(work):
    # What it answers, or the error it raises; it ends as programs do.
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        try:
            try:
                said = work()
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
            os.write(write, json.dumps(said).encode())
        finally:
            sys.exit(0)
    os.close(write)
    with open(read) as answer:
        said = json.load(answer)
    assert os.waitpid(pid, 0)[1] == 0
    return said
"""


def tell(code: str, *arguments: str, code_of_exit: int = 0) -> Any:
    """What a program prints at its end, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code), *arguments],
        env={**os.environ, "PYTHONPATH": ":".join(sys.path), "CONTEXTSTORE_BINARY": str(BINARY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=5 * DEADLINE,
    )
    assert done.returncode == code_of_exit, done.stderr.decode()
    return json.loads(done.stdout.splitlines()[-1])


# feature: fork-safe
def test_a_child_that_ends_leaves_the_server_and_the_directory_of_its_parent() -> None:
    there = tell("""
        with contextstore.spawn() as client, client.task("x") as task:
            task.append(USER)
            server = os.path.dirname(client.address.removeprefix("unix:"))
            child(lambda: None)
            child(lambda: short_name(client.get_task(task.uuid).task, "status"))
            def leave():
                with contextlib.suppress(KeyError), client:
                    raise KeyError
            child(leave)
            task.append(USER)
            print(json.dumps([os.path.isdir(f"{server}/running/{task.uuid}"), task.get().task.last_seq]))
    """)
    assert there == [True, 2]


def test_a_child_that_lives_on_does_not_keep_the_server_of_a_killed_parent() -> None:
    pids = tell(
        """
        # A connection that the child has too does not make it wait for long.
        server = contextstore.spawn(env={"CONTEXTSTORE_SERVER__DRAIN": "1s"})
        server.client.server_info()
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(write, b"x")
            # Not the output of the parent, whose end is waited for.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            signal.alarm(300)
            signal.pause()
        os.read(read, 1)
        print(json.dumps([server.pid, pid]), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        code_of_exit=-signal.SIGKILL,
    )
    server, child = pids
    try:
        eventually(lambda: not alive(server))
        assert alive(child)
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("use", ["made", "used", "closed"])
@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_each_child_is_another_client(shared_server: Server, use: str, kind: str) -> None:
    told = tell(
        """
        address, use, kind = sys.argv[1:]
        def info(client):
            if kind == "threads":
                return client.server_info().process_id
            async def ask():
                try:
                    return (await client.server_info()).process_id
                finally:
                    await client.close()
            return asyncio.run(ask())
        make = Client if kind == "threads" else AsyncClient
        client, fixed = make(address), make(address, instance_id="mine")
        if use != "made":
            info(client)
        if use == "closed" and kind == "threads":
            client.close()
        if use != "made" and kind == "asyncio" or use == "closed":
            client = make(address)
        def work():
            held = client._calls.holder
            return [info(client), info(client if kind == "threads" else make(address)), client.instance_id,
                    held.process_id == os.getpid(), fixed.instance_id]
        first, second = child(work), child(work)
        mine = client.instance_id
        if kind == "threads":
            info(client)
        print(json.dumps([mine, first, second]))
        """,
        shared_server.unix,
        use,
        kind,
    )
    mine, first, second = told
    with Client(shared_server.unix) as client:
        server = client.server_info().process_id
    assert first[:2] == second[:2] == [server, server]
    assert len({mine, first[2], second[2]}) == 3
    assert first[3:] == second[3:] == [True, "mine"]


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_fork_follows_the_close_of_the_last_client(shared_server: Server, kind: str) -> None:
    """grpcio would shut down with its last channel, in a thread that a fork interrupts."""
    answers = tell(
        """
        address, kind = sys.argv[1:]
        def ask():
            if kind == "threads":
                with Client(address) as client:
                    return client.server_info().process_id > 0
            async def ask():
                async with AsyncClient(address) as client:
                    return (await client.server_info()).process_id > 0
            return asyncio.run(ask())
        print(json.dumps([ask() and child(ask) for _ in range(40)]))
        """,
        shared_server.unix,
        kind,
    )
    assert answers == [True] * 40


def test_a_lease_protects_from_other_children_and_is_renewed_in_them() -> None:
    server = Server({"CONTEXTSTORE_LEASE__TTL": "2s"})
    try:
        told = tell(
            """
            client = Client(sys.argv[1])
            of_parent = client.start_task()  # Its leases are being renewed by a thread.
            def renewed():
                task = client.start_task()
                first = task.get().task.lease.renew_time.ToNanoseconds()
                while task.get().task.lease.renew_time.ToNanoseconds() == first:
                    time.sleep(0.05)
                return "renewed"
            def take():
                client.start_task(task_uuid=of_parent.uuid)
            print(json.dumps([child(take), child(renewed), of_parent.append(USER).seq]))
            """,
            server.unix,
        )
    finally:
        server.remove()
    assert told[0].startswith("LeaseHeld: ")
    assert told[1:] == ["renewed", 1]


def test_a_task_of_the_parent_can_be_read_and_is_changed_by_the_parent_only(shared_server: Server) -> None:
    told = tell(
        """
        client = Client(sys.argv[1])
        with client.start_task() as task:
            task.append(USER)
            def work():
                said = [len(task.current().to_list())]
                def append_many():
                    list(task.append_many([USER]))
                for change in (lambda: task.append(USER), lambda: task.append(USER, wait=False), append_many,
                               task.complete, task.renew_lease, lambda: task.output.put("x")):
                    try:
                        change()
                        said.append("changed")
                    except ForkUnsafe as error:
                        said.append(str(error))
                return said
            def leave():
                with task:
                    pass
                return short_name(task.get().task, "status")
            def own():
                with client.start_task() as mine:
                    mine.append(USER)
                return short_name(client.get_task(mine.uuid).task, "status")
            said = [child(work), child(leave), child(own), task.append(USER).seq]
        print(json.dumps([os.getpid(), task.uuid, said, short_name(client.get_task(task.uuid).task, "status")]))
        """,
        shared_server.unix,
    )
    pid, uuid, (work, left, own, seq), status = told
    assert work[0] == 1 and len(work) == 7
    for words in work[1:]:
        assert f"the task {uuid} belongs to process {pid}, which forked this one" in words
        assert "client.task(key)" in words
    assert (left, own, seq, status) == ("running", "completed", 2, "completed")


def test_messages_on_their_way_are_sent_by_the_parent(shared_server: Server) -> None:
    told = tell(
        """
        client = Client(sys.argv[1])
        task = client.start_task()
        for _ in range(100):
            task.append(USER, wait=False)
        child(lambda: None)
        for _ in range(100):
            task.append(USER, wait=False)
        task.flush()
        print(json.dumps(task.get().task.last_seq))
        """,
        shared_server.unix,
    )
    assert told == 200


def test_a_fork_in_the_middle_of_calls(shared_server: Server) -> None:
    """It waits for short calls of other threads. Under a stream, the child is told that grpcio does not work in it."""
    told = tell(
        """
        client = Client(sys.argv[1])
        task = client.start_task()
        stop, counts = threading.Event(), [0, 0, 0, 0]
        def ask(n):
            while not stop.is_set():
                client.server_info()
                counts[n] += 1
        threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        def work():
            return client.server_info().process_id and "works"
        short = [child(work) for _ in range(4)]
        before = list(counts)
        while not all(now > was for now, was in zip(counts, before)):
            time.sleep(0.01)
        stop.set()
        for thread in threads:
            thread.join()

        seen = []
        def follow():
            for record in task.messages(follow=True, kinds=["message"]):
                seen.append(record["seq"])
                if len(seen) == 2:
                    return
        follower = threading.Thread(target=follow)
        follower.start()
        task.append(USER)
        while not seen:
            time.sleep(0.01)
        long = child(work)
        task.append(USER)
        follower.join()
        print(json.dumps([short, long, seen, child(work)]))
        """,
        shared_server.unix,
    )
    short, long, seen, afterwards = told
    assert short == ["works"] * 4
    assert long.startswith("ForkUnsafe: this process was forked while ")
    assert seen == [1, 2] and afterwards == "works"


def test_a_fork_under_an_open_async_client(shared_server: Server) -> None:
    told = tell(
        """
        async def story():
            async with AsyncClient(sys.argv[1]) as client:
                await client.server_info()
                read, write = os.pipe()
                pid = os.fork()
                if pid == 0:
                    try:
                        Client(sys.argv[1]).server_info()
                    except ForkUnsafe as error:
                        os.write(write, str(error).encode())
                    os._exit(0)
                os.close(write)
                said = os.read(read, 1000).decode()
                os.waitpid(pid, 0)
                return [said, (await client.server_info()).process_id > 0]
        told = asyncio.run(story())
        print(json.dumps([*told, child(lambda: Client(sys.argv[1]).server_info().process_id > 0)]))
        """,
        shared_server.unix,
    )
    assert "AsyncClient" in told[0] and told[1:] == [True, True]


def test_a_fork_from_c_that_tells_only_the_child(shared_server: Server) -> None:
    """As uWSGI does."""
    told = tell(
        """
        import ctypes
        def fork():
            # A C program runs no bytecode between the two calls. Python does, and waits there for ever if another thread has
            # asked for the interpreter: so none may ask. Those that have asked get it while this one sleeps.
            interval = sys.getswitchinterval()
            sys.setswitchinterval(3600)
            time.sleep(0.05)
            pid = ctypes.PyDLL(None).fork()
            if pid == 0:
                ctypes.pythonapi.PyOS_AfterFork_Child()
            sys.setswitchinterval(interval)
            return pid
        os.fork, fork_of_python = fork, os.fork
        client = Client(sys.argv[1])
        mine = client.instance_id
        made = child(lambda: [client.instance_id, client.server_info().process_id > 0])
        task = client.start_task()
        for _ in range(50):
            task.append(USER, wait=False)
        def work():
            said = [client.instance_id]
            for change in (client.server_info, lambda: task.append(USER)):
                try:
                    said.append(change() and "worked")
                except ForkUnsafe as error:
                    said.append(str(error))
            return said
        connected = child(work)
        os.fork = fork_of_python
        told = child(lambda: client.server_info().process_id > 0)
        task.flush()
        print(json.dumps([mine, made, connected, told, task.get().task.last_seq]))
        """,
        shared_server.unix,
    )
    mine, (made, works), (connected, info, change), told_before, seq = told
    assert len({mine, made, connected}) == 3 and works
    assert "this process was forked while" in info and "belongs to process" in change
    assert told_before and seq == 50


def test_multiprocessing(shared_server: Server, tmp_path: Path) -> None:
    """A pool of processes that fork, each ending after a job, as those of Celery do: they are forked by a thread while
    others make calls."""
    told = tell(
        """
        import multiprocessing
        client = Client(sys.argv[1])
        client.server_info()
        def job(number):
            signal.alarm(60)
            with client.start_task() as task:
                task.append(USER)
                for _ in range(20):
                    task.append(USER, wait=False)
            return [client.instance_id, client.get_task(task.uuid).task.last_seq]
        with multiprocessing.get_context("fork").Pool(2, maxtasksperchild=1) as pool:
            jobs = pool.map_async(job, range(8), chunksize=1)
            while not jobs.ready():
                client.server_info()
            answers = jobs.get(60)
        print(json.dumps([client.instance_id, answers]))
        """,
        shared_server.unix,
    )
    mine, answers = told
    assert [seq for _, seq in answers] == [21] * 8
    assert len({mine, *(name for name, _ in answers)}) == 9


APP = """
import json, os, contextstore

client = contextstore.Client(os.environ["ADDRESS"])
of_master = client.start_task()  # It is used before the fork, and has a lease to renew.
tasks = {}

def app(environ, start_response):
    uuid = environ["PATH_INFO"].strip("/")
    try:
        if uuid not in tasks:
            tasks[uuid] = client.start_task(task_uuid=uuid)
        said = tasks[uuid].append({"role": "user", "content": "Hello"}).seq
    except contextstore.LeaseHeld as error:
        said = error.metadata["instance_id"]
    except contextstore.ForkUnsafe as error:
        said = str(error)
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps([os.getpid(), client.instance_id, said, of_master.uuid]).encode()]
"""


@contextmanager
def gunicorn(address: str, folder: Path) -> Iterator[str]:
    """Two workers, forked from a process that has loaded the application."""
    (folder / "app.py").write_text(APP)
    port = free_port()
    command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "2", "--no-control-socket"]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [*command, "--bind", f"127.0.0.1:{port}", "app:app"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": ":".join(sys.path), "ADDRESS": address},
            stdout=log,
            stderr=log,
        )
    try:
        yield f"http://127.0.0.1:{port}"
    except BaseException:
        print((folder / "log").read_text())
        raise
    finally:
        process.terminate()
        process.wait(timeout=DEADLINE)


def test_gunicorn(shared_server: Server, tmp_path: Path) -> None:
    pytest.importorskip("gunicorn")
    uuid = "018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f11"
    answers: dict[int, Any] = {}

    def ask(path: str) -> None:
        with urllib.request.urlopen(path, timeout=DEADLINE) as response:
            pid, *answer = json.load(response)
            answers.setdefault(pid, answer)

    with gunicorn(shared_server.unix, tmp_path) as url:

        def both() -> bool:
            try:
                ask(f"{url}/{uuid}")
            except OSError:
                return False
            return len(answers) == 2

        eventually(both)
        # One has the task, the other is told who has it.
        (first, said_first, of_master), (second, said_second, _) = answers.values()
        assert first != second and said_first == 1 and said_second == first
        with Client(shared_server.unix) as client:
            with pytest.raises(LeaseHeld) as held:
                client.start_task(task_uuid=of_master)
            assert held.value.metadata["instance_id"] not in (first, second)
