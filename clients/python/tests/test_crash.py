"""The server is killed and started again: the client goes on, nothing is lost and nothing is there twice."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest
from serving import DEADLINE, LONG, Server

from contextstore import AsyncClient, Client, Task, ViewRewritten, errors, short_name

MANY = 10_000 if LONG else 3_000
"""Several times what is under way at once."""
PIECES = 40 if LONG else 24
"""Megabytes of a view that no buffer on the way holds as a whole."""


def said(number: int) -> dict[str, str]:
    return {"role": "user", "content": f"message {number}"}


def expect_all(task: Task, count: int) -> None:
    """Every message is there once, in order."""
    assert list(task.current_messages()) == [said(number) for number in range(1, count + 1)]
    assert [record["seq"] for record in task.messages(kinds=["message"])] == list(range(1, count + 1))


class Killer(threading.Thread):
    """Kills and starts the server each time that a step of work was done, whatever is under way then."""

    def __init__(self, server: Server, at: Iterator[int]) -> None:
        super().__init__()
        self._server = server
        self._at = at
        self.done = 0

    def run(self) -> None:
        for number in self._at:
            deadline = time.monotonic() + DEADLINE
            while self.done < number and time.monotonic() < deadline:
                time.sleep(0.001)
            self._server.kill()
            self._server.start_without_waiting()


def test_appends_go_on_through_crashes(server: Server, transport: str) -> None:
    address, token_file = server.client_args(transport)
    with Client(address, token_file=token_file) as client:
        task = client.start_task()
        killer = Killer(server, iter(range(20, 100, 20)))
        killer.start()
        for number in range(1, 121):
            assert task.append(said(number)).seq == number
            killer.done = number
        killer.join()
        expect_all(task, 120)


def test_async_appends_go_on_through_crashes(server: Server, transport: str) -> None:
    async def story() -> str:
        address, token_file = server.client_args(transport)
        async with AsyncClient(address, token_file=token_file) as client:
            task = await client.start_task()
            killer = Killer(server, iter(range(20, 100, 20)))
            killer.start()
            for number in range(1, 121):
                assert (await task.append(said(number))).seq == number
                killer.done = number
            killer.join()
            return task.uuid

    uuid = asyncio.run(story())
    with Client(server.unix) as client:
        expect_all(client.task(uuid), 120)


def test_thousands_of_pipelined_messages(server: Server, transport: str) -> None:
    address, token_file = server.client_args(transport)
    with Client(address, token_file=token_file) as client:
        task = client.start_task()
        numbers = iter(range(1, MANY + 1))
        for ack in task.append_many(said(number) for number in numbers):
            if ack.seq in (MANY * 3 // 10, MANY * 7 // 10) and not ack.duplicate:
                server.kill()
                server.start_without_waiting()
        assert ack.seq == MANY and ack.pressure.tokens > MANY
        expect_all(task, MANY)


def test_thousands_of_async_pipelined_messages(server: Server, transport: str) -> None:
    async def story() -> str:
        address, token_file = server.client_args(transport)
        async with AsyncClient(address, token_file=token_file) as client:
            task = await client.start_task()
            seqs = []
            async for ack in task.append_many(said(number) for number in range(1, MANY + 1)):
                seqs.append(ack.seq)
                if ack.seq in (MANY * 3 // 10, MANY * 7 // 10):
                    server.kill()
                    server.start_without_waiting()
            assert seqs == list(range(1, MANY + 1))
            return task.uuid

    uuid = asyncio.run(story())
    with Client(server.unix) as client:
        expect_all(client.task(uuid), MANY)


def large_view(client: Client) -> Task:
    """A view of messages of a megabyte."""
    task = client.start_task()
    for _ in task.append_many(
        {"role": "user", "content": str(number) * (1 << 19)} for number in range(10, 10 + PIECES)
    ):
        pass
    return task


def test_a_read_goes_on_where_it_was(server: Server) -> None:
    with Client(server.unix) as client:
        task = large_view(client)
        view = (server.data_dir / "running" / task.uuid / "current.jsonl").read_bytes()
        chunks = task.current()
        read = [next(chunks)]
        server.kill()
        server.start_without_waiting()
        task.append({"role": "user", "content": "not part of the snapshot"})
        read += chunks
        assert b"".join(read) == view

        lines = task.messages(kinds=["message"])
        seqs = [next(lines)["seq"]]
        server.kill()
        server.start_without_waiting()
        seqs += [record["seq"] for record in lines]
        assert seqs == list(range(1, PIECES + 2))


def test_a_read_does_not_go_on_in_another_view(server: Server) -> None:
    with Client(server.unix) as client:
        task = large_view(client)
        chunks = task.current()
        next(chunks)
        server.kill()
        server.start_without_waiting()
        task.rewind(PIECES - 1)
        with pytest.raises(ViewRewritten):
            for _ in chunks:
                pass


def test_watchers_miss_nothing(server: Server) -> None:
    with Client(server.unix) as client:
        task = client.start_task()
        task.append(said(1))
        records = task.messages(follow=True)
        first = [next(records) for _ in range(3)]
        assert [record.get("event") for record in first] == ["started", "lease", None]
        events = task.watch(resume_token="v1.0.0.0")
        assert short_name(next(events).status_changed, "status") == "running"
        assert next(events).message_appended.seq == 1
        server.kill()
        server.start_without_waiting()
        task.pin(1)
        task.append(said(2))
        assert next(events).message_appended.seq == 2
        assert [next(records).get("event") for _ in range(2)] == ["pin", None]
        assert server.stop() == 0
        server.start_without_waiting()
        task.append(said(3))
        assert next(events).message_appended.seq == 3 and next(records)["seq"] == 3
        task.delete()
        with pytest.raises(errors.TaskNotFound):
            next(events)
        with pytest.raises(errors.TaskNotFound):
            next(records)
