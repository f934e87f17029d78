"""Leases are kept alive in the background, for as long as somebody has the task and it is his."""

from __future__ import annotations

import asyncio
import gc
import threading
from datetime import timedelta
from typing import Any

import grpc
import pytest
from serving import DEADLINE, eventually
from test_retries import UNAVAILABLE, Scripted, serve
from wire import error_info, status

from contextstore import AsyncClient, Client, StaleLease
from contextstore._base import TaskBase
from contextstore._leases import LeaseBook
from contextstore.v1 import context_store_pb2 as pb
from contextstore.v1 import task_pb2

pytestmark = pytest.mark.quick
TTL = 0.3


class Lender(Scripted):
    """Gives leases of a third of a second, and counts how often they are renewed."""

    def __init__(self) -> None:
        super().__init__()
        self.renewed: list[str] = []

    def StartTask(self, request: Any, context: Any) -> Any:
        response = pb.StartTaskResponse(
            task=task_pb2.Task(uuid=request.task_uuid, status=task_pb2.TASK_STATUS_RUNNING),
            lease_generation=3,
        )
        response.lease_ttl.FromTimedelta(timedelta(seconds=TTL))
        return response

    def PauseTask(self, request: Any, context: Any) -> Any:
        return pb.PauseTaskResponse(
            task=task_pb2.Task(uuid=request.task_uuid, status=task_pb2.TASK_STATUS_PAUSED)
        )

    def RenewLease(self, request: Any, context: Any) -> Any:
        self._take(request, context)
        self.renewed.append(request.task_uuid)
        response = pb.RenewLeaseResponse()
        response.lease_ttl.FromTimedelta(timedelta(seconds=TTL))
        return response


def threads() -> int:
    return sum(thread.name == "contextstore-leases" for thread in threading.enumerate())


# feature: leases-renewed
def test_a_lease_is_renewed_until_the_task_is_put_aside() -> None:
    lender = Lender()  # type: ignore[abstract]
    with serve(scripted=lender) as (_, address), Client(address) as client:
        tasks = [client.start_task(), client.start_task()]
        first, second = (task.uuid for task in tasks)
        eventually(lambda: lender.renewed.count(first) > 2 and lender.renewed.count(second) > 2)
        tasks[0].pause()
        lender.renewed.clear()
        eventually(lambda: lender.renewed.count(second) > 2)
        assert lender.renewed.count(first) <= 1
        # A task that nobody has any more.
        tasks.clear()
        gc.collect()
        eventually(lambda: threads() == 0)


def test_a_server_that_is_away_for_a_moment_does_not_matter() -> None:
    lender = Lender()  # type: ignore[abstract]
    with serve(scripted=lender) as (_, address), Client(address) as client:
        task = client.start_task()
        lender.failures = [UNAVAILABLE] * 3
        eventually(lambda: len(lender.renewed) > 2)
        assert task.lease_lost is None


# feature: lease-lost
def test_a_lease_that_is_gone_is_told(caplog: pytest.LogCaptureFixture) -> None:
    stale = (grpc.StatusCode.ABORTED, status(error_info("ERROR_REASON_STALE_LEASE", {})))
    lender = Lender()  # type: ignore[abstract]
    lender.failures = [stale]
    with serve(scripted=lender) as (_, address), Client(address) as client:
        task = client.start_task()
        eventually(lambda: task.lease_lost is not None)
        assert isinstance(task.lease_lost, StaleLease)
        eventually(lambda: "could not be renewed" in caplog.text)
        eventually(lambda: threads() == 0)
        assert lender.renewed == []


def test_a_task_that_is_being_ended_is_no_loss(caplog: pytest.LogCaptureFixture) -> None:
    lender = Lender()  # type: ignore[abstract]
    lender.failures = [
        (grpc.StatusCode.FAILED_PRECONDITION, status(error_info("ERROR_REASON_WRONG_STATUS", {})))
    ]
    with serve(scripted=lender) as (_, address), Client(address) as client:
        task = client.start_task()
        eventually(lambda: threads() == 0)
        assert task.lease_lost is None and caplog.text == "" and lender.failures == []


def test_who_does_not_want_it_renews_by_himself() -> None:
    lender = Lender()  # type: ignore[abstract]
    with serve(scripted=lender) as (_, address), Client(address, renew_leases=False) as client:
        # Those of other tests may need a moment to end.
        eventually(lambda: threads() == 0)
        task = client.start_task()
        assert threads() == 0
        assert task.renew_lease() == timedelta(seconds=TTL)
        assert len(lender.renewed) == 1


def test_a_closed_client_renews_nothing() -> None:
    lender = Lender()  # type: ignore[abstract]
    with serve(scripted=lender) as (_, address):
        with Client(address) as client:
            task = client.start_task()
        eventually(lambda: threads() == 0)
        assert task.lease_lost is None


def test_the_same_for_asyncio() -> None:
    lender = Lender()  # type: ignore[abstract]

    async def story(address: str) -> None:
        async with AsyncClient(address) as client:
            first, second = await client.start_task(), await client.start_task()
            while lender.renewed.count(first.uuid) < 3 or lender.renewed.count(second.uuid) < 3:
                await asyncio.sleep(0.01)
            await first.pause()
            lender.renewed.clear()
            while lender.renewed.count(second.uuid) < 3:
                await asyncio.sleep(0.01)
            assert lender.renewed.count(first.uuid) <= 1
        names = [task.get_name() for task in asyncio.all_tasks()]
        assert "contextstore-leases" not in names

    with serve(scripted=lender) as (_, address):
        asyncio.run(asyncio.wait_for(story(address), timeout=DEADLINE))


def test_what_is_due() -> None:
    book: LeaseBook[TaskBase] = LeaseBook()
    assert book.wait(0.0) is None
    task = TaskBase(task_pb2.Task(uuid="a"), 1, timedelta(seconds=30))
    none = TaskBase(task_pb2.Task(uuid="b"), 0, None)
    book.add(task, 100.0)
    book.add(none, 100.0)
    assert book.wait(100.0) == 10.0 and book.take_due(109.0) == []
    assert book.wait(111.0) == 0.0 and book.take_due(111.0) == [task] and book.wait(111.0) is None
    book.add(task, 111.0)
    task._without_lease(task.info)
    assert book.take_due(111.0) == [] and book.wait(111.0) is None
