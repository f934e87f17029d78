"""Keeps leases alive in the background: which are due, and a thread or an asyncio task that renews them.

Tasks are held weakly: the lease of a task that nobody has any more is left to expire.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import weakref
from typing import TYPE_CHECKING, Generic, TypeVar

from ._background import background
from ._base import TaskBase
from ._retry import passes
from .errors import ContextStoreError, DeadlineExceeded, NotFound, WrongStatus

if TYPE_CHECKING:
    from .async_client import AsyncClient
    from .client import Client

_log = logging.getLogger("contextstore")

T = TypeVar("T", bound=TaskBase)

_OFTEN = 3
"""A lease is renewed this often within its life."""


class LeaseBook(Generic[T]):
    """Who holds a lease, and when each is to be renewed."""

    def __init__(self) -> None:
        self._due: dict[weakref.ref[T], tuple[int, float]] = {}

    def add(self, task: T, now: float) -> None:
        """A lease that was just got or renewed."""
        if task.lease_ttl and task.lease_generation:
            due = now + task.lease_ttl.total_seconds() / _OFTEN
            self._due[weakref.ref(task)] = (task.lease_generation, due)

    def drop(self, task: T) -> None:
        """A lease that is not to be renewed any more."""
        self._due.pop(weakref.ref(task), None)

    def take_due(self, now: float) -> list[T]:
        """The tasks whose leases are to be renewed now; to be added again once that is done."""
        taken = []
        for reference, (generation, due) in list(self._due.items()):
            task = reference()
            if task is None or task.lease_generation != generation:
                del self._due[reference]
            elif due <= now:
                del self._due[reference]
                taken.append(task)
        return taken

    def wait(self, now: float) -> float | None:
        """Seconds until something is due; None if nothing ever is."""
        return max(0.0, min(due for _, due in self._due.values()) - now) if self._due else None


def _failed(task: TaskBase, generation: int, error: ContextStoreError) -> bool:
    """Whether to try again later; tells the task if its lease is gone."""
    if task.lease_generation != generation:
        return False
    if passes(error) or isinstance(error, DeadlineExceeded):
        return True
    if isinstance(error, (WrongStatus, NotFound)):
        # It has ended: most likely by a call of this client that is not answered yet.
        return False
    task.lease_lost = error
    _log.warning("task %s: its lease could not be renewed: %s", task.uuid, error)
    return False


def _timeout(task: TaskBase) -> float:
    ttl = task.lease_ttl
    return 1.0 if ttl is None else max(1.0, ttl.total_seconds() / _OFTEN)


class Renewer:
    """A thread, for as long as there is a lease to renew."""

    def __init__(self, client: Client) -> None:
        self._client = weakref.ref(client)
        self._changed = threading.Condition()
        self._book: LeaseBook[TaskBase] = LeaseBook()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, task: TaskBase) -> None:
        """Keeps the lease of a task alive from now on."""
        with self._changed:
            if self._closed:
                return
            self._book.add(task, time.monotonic())
            if self._thread is None:
                self._thread = threading.Thread(target=self._renew, name="contextstore-leases", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Renews nothing any more."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _renew(self) -> None:
        while True:
            with self._changed:
                wait = self._book.wait(time.monotonic())
                if wait is None or self._closed:
                    self._thread = None
                    return
                if wait > 0:
                    self._changed.wait(wait)
                tasks = [] if self._closed else self._book.take_due(time.monotonic())
            while tasks:
                self._renew_one(tasks.pop())

    def _renew_one(self, task: TaskBase) -> None:
        client, generation = self._client(), task.lease_generation
        if client is None or not generation:
            return
        try:
            client._run(task._calls.renew_lease(), _timeout(task))
        except ContextStoreError as error:
            if self._closed or not _failed(task, generation, error):
                return
        except ValueError:  # What grpcio says of a channel that was closed.
            return
        with self._changed:
            self._book.add(task, time.monotonic())


class AsyncRenewer:
    """A task of the event loop, for as long as there is a lease to renew."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = weakref.ref(client)
        self._changed = asyncio.Event()
        self._book: LeaseBook[TaskBase] = LeaseBook()
        self._running: asyncio.Task[None] | None = None
        self._closed = False

    def add(self, task: TaskBase) -> None:
        """Keeps the lease of a task alive from now on."""
        if self._closed:
            return
        self._book.add(task, time.monotonic())
        self._changed.set()
        if self._running is None:
            self._running = background(self._renew(), "contextstore-leases")

    async def close(self) -> None:
        """Renews nothing any more."""
        self._closed = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _renew(self) -> None:
        while not self._closed and (wait := self._book.wait(time.monotonic())) is not None:
            self._changed.clear()
            timer = asyncio.get_running_loop().call_later(wait, self._changed.set)
            await self._changed.wait()
            timer.cancel()
            tasks = self._book.take_due(time.monotonic())
            while tasks:
                await self._renew_one(tasks.pop())
        self._running = None

    async def _renew_one(self, task: TaskBase) -> None:
        client, generation = self._client(), task.lease_generation
        if client is None or not generation:
            return
        try:
            await client._run(task._calls.renew_lease(), _timeout(task))
        except ContextStoreError as error:
            if not _failed(task, generation, error):
                return
        self._book.add(task, time.monotonic())
