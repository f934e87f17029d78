"""Appending in the background, on an event loop: one sender per task, whose stream all callers of the task share.

Callers put messages into the backlog and wait there; what happens to a caller does not happen to the sender.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

import grpc

from . import _unsaved
from ._background import background
from ._calls import append_alone
from ._fork import leave
from ._pipeline import LINGER, Backlog, Batch, client_closed, ended_early, no_answer, sender_failed
from .errors import ContextStoreError, Unavailable
from .types import Appended
from .v1 import context_store_pb2 as pb

if TYPE_CHECKING:
    from ._channel import AsyncConnection
    from ._leases import AsyncRenewer
    from .async_client import AsyncClient


def lost_status(error: ContextStoreError) -> bool:
    """Whether a stream ended for a reason that nobody knows.

    grpcio replaces the server's status by INTERNAL if the stream ends while it is being written to
    (https://github.com/grpc/grpc/issues/36066). The server's own errors have a reason.
    """
    return error.code is grpc.StatusCode.INTERNAL and not error.reason and error.__cause__ is not None


class _Stream:
    """A stream of AppendMessages, for as long as it is the one that the sender uses."""

    def __init__(self) -> None:
        self.open = True
        self.call: Any = None
        self.more = asyncio.Event()
        """There is something to send, or nothing more will be."""
        self.idle = False
        """Whether nothing was sent for so long that it ends, as soon as the server agrees."""
        self.watched = False
        """Whether somebody looks whether it is idle."""

    def end(self) -> None:
        """Nothing is sent or taken any more."""
        self.open = False
        self.more.set()
        if self.call is not None:
            self.call.cancel()


class AsyncAppender:
    """The background appends of one task. A task of the event loop sends them, for as long as there are any."""

    END = "the event loop has ended, and the client was not closed in it"
    """Why messages are left when the program ends."""

    def __init__(self, client: AsyncClient, task_uuid: str) -> None:
        self.client = client
        self.task_uuid = task_uuid
        self._backlog = Backlog(client.timeout)
        self._sender: asyncio.Task[None] | None = None
        self._taking: asyncio.Task[None] | None = None
        self._stream: _Stream | None = None
        self._changes: set[asyncio.Future[None]] = set()
        """Callers that wait for something to happen."""
        _unsaved.know(self)

    # For callers

    async def append(self, request: pb.AppendMessageRequest) -> None:
        """Hands a message over. Waits, then, if too many are not acknowledged; raises what earlier ones failed with."""
        try:
            self._backlog.refuse_after_loss()
        finally:
            self._note()
        self._add(request, None)
        if not self._backlog.full:
            return
        waiter = self._backlog.waiter()
        try:
            while self._backlog.full and waiter.error is None:
                await self._wait(self.client.timeout)
            if waiter.error is not None:
                self._backlog.finish(waiter)
        finally:
            self._backlog.leave(waiter)
            self._note()

    async def flush(self, limit: float | None = None) -> Appended | None:
        """Waits until everything that was handed over is acknowledged, or given up: that is raised.

        With a limit, in seconds, what is not acknowledged by then is given up.
        """
        end = None if limit is None else time.monotonic() + limit
        waiter = self._backlog.waiter()
        try:
            while not self._backlog.reached(waiter):
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    self._end_stream()
                    self._backlog.drop_late(limit or 0.0)
                    self._notify()
                    break
                await self._wait(self.client.timeout, left)
            return self._backlog.finish(waiter)
        finally:
            self._backlog.leave(waiter)
            self._note()

    async def send(
        self, request: pb.AppendMessageRequest, batch: Batch, timeout: float
    ) -> AsyncIterator[Appended]:
        """Hands over a message of a batch; yields the acknowledgements that are here, and waits for some if too many are
        missing."""
        if not batch.refuses(request):
            self._add(request, batch)
        while True:
            while self._backlog.full and not batch.acks and batch.error is None:
                await self._wait(timeout, batch=batch)
            acks = batch.take()
            for ack in acks:
                yield ack
            if not acks:
                return

    async def finish(self, batch: Batch, timeout: float) -> AsyncIterator[Appended]:
        """Yields the acknowledgements that are missing."""
        while True:
            while batch.pending and not batch.acks and batch.error is None:
                await self._wait(timeout, batch=batch)
            acks = batch.take()
            for ack in acks:
                yield ack
            if not acks:
                return

    def abandon(self, batch: Batch) -> None:
        """Nobody iterates any more: the messages go on as if they had been appended without waiting."""
        self._backlog.abandon(batch)
        self._note()

    @property
    def unsaved(self) -> int:
        """How many messages are not saved, as far as is known, without anybody having been told."""
        return self._backlog.unsaved

    async def stop(self) -> None:
        """Ends the stream and the sender; nothing more is sent."""
        self._end_stream()
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait({self._sender})

    def discard(self) -> None:
        """The event loop is gone: what it had not begun is not begun any more."""
        for task in (self._sender, self._taking):
            work = None if task is None else task.get_coro()
            if inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
                work.close()

    def forget(self) -> None:
        """In a forked child: the messages and their sender are those of the parent."""
        self._backlog = Backlog(self.client.timeout)
        leave((self._sender, self._stream))
        self._sender = self._stream = None

    def _note(self) -> None:
        """Has the end of the client and of the program ask for it, as long as it has messages that nobody knows the fate of."""
        if self._backlog.unsaved:
            _unsaved.add(self)
        elif self._sender is None:
            _unsaved.drop(self)

    def _add(self, request: pb.AppendMessageRequest, batch: Batch | None) -> None:
        if self.client._closed:
            raise client_closed(request)
        self._backlog.add(request, batch)
        _unsaved.add(self)
        if self._sender is None:
            self._sender = background(self._send(), "contextstore-appends")
        if self._stream is not None and self._stream.idle:
            # A server that hangs would not end it before its deadline.
            self._stream.end()
        elif self._stream is not None:
            self._stream.more.set()

    async def _wait(self, timeout: float, longest: float | None = None, batch: Batch | None = None) -> None:
        """Waits for something to happen; gives messages up if the server has not answered for so long."""
        left = self._backlog.patience(timeout)
        if left is not None and left <= 0:
            self._end_stream()
            self._backlog.drop(no_answer(timeout), batch)
            self._notify()
            return
        # What is not sent yet may be sent meanwhile, and then its time runs.
        left = timeout if left is None else left
        change = asyncio.get_running_loop().create_future()
        self._changes.add(change)
        try:
            await asyncio.wait({change}, timeout=min(left, LINGER if longest is None else longest, LINGER))
        finally:
            self._changes.discard(change)

    def _notify(self) -> None:
        for change in self._changes:
            if not change.done():
                change.set_result(None)

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream.end()

    # The sender

    async def _send(self) -> None:
        try:
            await self._send_all()
        except asyncio.CancelledError:
            if not self.client._closed:
                # The event loop is ending, and asyncio.run cancels every task: so long it goes on.
                await self._send_the_rest()
        except BaseException as broken:
            self._backlog.drop(sender_failed(broken, self.client._closed))
        finally:
            self._end_stream()
            self._sender = self._stream = None
            self._note()
            self._notify()

    async def _send_all(self) -> None:
        while self._backlog.pending:
            stream = self._stream = _Stream()
            error = await self._follow(stream)
            stream.end()
            if error is None:
                self._backlog.restart()
                continue
            if lost_status(error) and await self._send_oldest():
                continue
            pause = self._backlog.pause_after(error)
            self._notify()
            if pause:
                await asyncio.sleep(pause)

    async def _send_oldest(self) -> bool:
        """What the stream ended with, its oldest message is answered with; returns whether there was one."""
        self._backlog.restart()
        if (oldest := self._backlog.oldest) is None:
            return False
        try:
            response = await self.client._run(append_alone(oldest), None)
        except ContextStoreError as final:
            if self._backlog.oldest is oldest:
                self._backlog.give_up(final)
        else:
            if self._backlog.oldest is oldest:
                self._backlog.acknowledge_alone(response)
        self._notify()
        return True

    async def _send_the_rest(self) -> None:
        self._end_stream()
        self._backlog.restart()
        limit = self.client.flush_timeout
        end = time.monotonic() + limit
        sending = background(self._send_all(), "contextstore-appends")
        while self._backlog.pending and (left := end - time.monotonic()) > 0 and not sending.done():
            await self._wait(self.client.timeout, left)
        sending.cancel()
        await asyncio.wait({sending})
        if self._backlog.pending:
            self._end_stream()
            self._backlog.drop_late(limit)

    async def _follow(self, stream: _Stream) -> ContextStoreError | None:
        """Sends and takes answers until the stream ends; returns why, if that was not what this side wanted."""
        # In a task of its own: a call that was cancelled looks like the cancellation of who waits for it.
        taking = self._taking = background(self._take(stream), "contextstore-acks")
        try:
            await asyncio.wait({taking})
        except asyncio.CancelledError:
            taking.cancel()
            await asyncio.wait({taking})
            raise
        if taking.cancelled():
            return self._cut_off() if stream.open else None
        error = taking.exception()
        if isinstance(error, grpc.RpcError):
            return await self.client._failed(error, method="AppendMessages") if stream.open else None
        if error is None:
            return ended_early() if stream.open and self._backlog.sent else None
        if isinstance(error, ContextStoreError):
            return error
        raise error

    async def _take(self, stream: _Stream) -> None:
        stream.call = self.client.stub.AppendMessages(self._feed(stream), timeout=self.client.stream_timeout)
        async for response in stream.call:
            if not stream.open:
                return
            self.client._reached = True
            self._backlog.acknowledge(response)
            self._notify()
            if not self._backlog.pending and not stream.watched:
                self._watch(stream)

    def _watch(self, stream: _Stream) -> None:
        stream.watched = True
        asyncio.get_running_loop().call_later(LINGER, self._rest, stream, self._backlog.count)

    def _rest(self, stream: _Stream, count: int) -> None:
        """Ends a stream on which nothing was sent for a while."""
        stream.watched = False
        if not stream.open or self._backlog.pending:
            return
        if self._backlog.count != count:
            return self._watch(stream)
        stream.idle = True
        stream.more.set()

    def _cut_off(self) -> ContextStoreError:
        """The call was cancelled on this side, and not by the sender."""
        if self.client._closed:
            return client_closed()
        return Unavailable("the stream was cancelled", code=grpc.StatusCode.UNAVAILABLE)

    async def _feed(self, stream: _Stream) -> AsyncIterator[pb.AppendMessagesRequest]:
        """Yields requests as there are messages; ends if there are none for a while."""
        while stream.open:
            if self._backlog.to_send:
                yield self._backlog.take()
            elif stream.idle:
                return
            else:
                stream.more.clear()
                await stream.more.wait()


async def close_all(
    appenders: Iterable[AsyncAppender], renewer: AsyncRenewer, connection: AsyncConnection
) -> None:
    """Ends everything that a client does in the background, and its connection."""
    for appender in appenders:
        await appender.stop()
    await renewer.close()
    await connection.close()


async def flush_all(
    appenders: Iterable[AsyncAppender],
) -> list[tuple[Any, ContextStoreError]]:
    """Waits until all is saved, as long as their client allows; returns what is not."""

    lost: list[tuple[Any, ContextStoreError]] = []

    async def flush(appender: AsyncAppender) -> None:
        try:
            await appender.flush(appender.client.flush_timeout)
        except ContextStoreError as error:
            lost.append((appender, error))

    try:
        await asyncio.gather(*map(flush, appenders))
    except BaseException:
        # A cancellation, with errors in hand that are not raised any more.
        _unsaved.report(lost, may_raise=False)
        raise
    return lost
