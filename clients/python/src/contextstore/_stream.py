"""Appending in the background, with threads: one sender per task, whose stream all callers of the task share.

Callers put messages into the backlog and wait there; what happens to a caller does not happen to the sender.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import grpc

from . import _unsaved
from ._calls import append_alone
from ._fork import leave
from ._io import pause
from ._pipeline import LINGER, Backlog, Batch, client_closed, ended_early, no_answer, sender_failed
from .errors import ContextStoreError
from .types import Appended
from .v1 import context_store_pb2 as pb

if TYPE_CHECKING:
    from ._channel import Connection
    from ._leases import Renewer
    from .client import Client


class _Stream:
    """A stream of AppendMessages, for as long as it is the one that the sender uses."""

    def __init__(self) -> None:
        self.open = True
        self.call: grpc.Call | None = None
        self.idle = False
        """Whether nothing was sent for so long that it ends, as soon as the server agrees."""

    def end(self) -> None:
        """Nothing is sent or taken any more."""
        self.open = False
        if self.call is not None:
            self.call.cancel()


class Appender:
    """The background appends of one task. A thread sends them, for as long as there are any."""

    END = "the program was interrupted while it saved them"
    """Why messages are left when the program ends."""

    def __init__(self, client: Client, task_uuid: str) -> None:
        self.client = client
        self.task_uuid = task_uuid
        self._backlog = Backlog(client.timeout)
        self._thread: threading.Thread | None = None
        self._stream: _Stream | None = None
        self._make_locks()
        _unsaved.know(self)

    def _make_locks(self) -> None:
        # Reentrant: the garbage collector may end an append_many in the middle of anything.
        self._lock = threading.RLock()
        self._to_send = threading.Condition(self._lock)
        self._changed = threading.Condition(self._lock)

    # For callers

    def append(self, request: pb.AppendMessageRequest) -> None:
        """Hands a message over. Waits, then, if too many are not acknowledged; raises what earlier ones failed with."""
        with self._lock:
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
                    self._wait(self.client.timeout)
                if waiter.error is not None:
                    self._backlog.finish(waiter)
            finally:
                self._backlog.leave(waiter)
                self._note()

    def flush(self, limit: float | None = None) -> Appended | None:
        """Waits until everything that was handed over is acknowledged, or given up: that is raised.

        With a limit, in seconds, what is not acknowledged by then is given up.
        """
        end = None if limit is None else time.monotonic() + limit
        with self._lock:
            waiter = self._backlog.waiter()
            try:
                while not self._backlog.reached(waiter):
                    left = None if end is None else end - time.monotonic()
                    if left is not None and left <= 0:
                        self._end_stream()
                        self._backlog.drop_late(limit or 0.0)
                        self._changed.notify_all()
                        break
                    self._wait(self.client.timeout, left)
                return self._backlog.finish(waiter)
            finally:
                self._backlog.leave(waiter)
                self._note()

    def send(self, request: pb.AppendMessageRequest, batch: Batch, timeout: float) -> Iterator[Appended]:
        """Hands over a message of a batch; yields the acknowledgements that are here, and waits for some if too many are
        missing."""
        with self._lock:
            if not batch.refuses(request):
                self._add(request, batch)
        while True:
            with self._lock:
                while self._backlog.full and not batch.acks and batch.error is None:
                    self._wait(timeout, batch=batch)
                acks = batch.take()
            yield from acks
            if not acks:
                return

    def finish(self, batch: Batch, timeout: float) -> Iterator[Appended]:
        """Yields the acknowledgements that are missing."""
        while True:
            with self._lock:
                while batch.pending and not batch.acks and batch.error is None:
                    self._wait(timeout, batch=batch)
                acks = batch.take()
            yield from acks
            if not acks:
                return

    def abandon(self, batch: Batch) -> None:
        """Nobody iterates any more: the messages go on as if they had been appended without waiting."""
        with self._lock:
            self._backlog.abandon(batch)
            self._note()

    @property
    def unsaved(self) -> int:
        """How many messages are not saved, as far as is known, without anybody having been told."""
        with self._lock:
            return self._backlog.unsaved

    def stop(self, timeout: float) -> None:
        """Ends the stream and the thread; nothing more is sent."""
        with self._lock:
            self._end_stream()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def discard(self) -> None:
        """Its messages were reported: nobody waits for them any more, though its thread may still save some."""

    def forget(self) -> None:
        """In a forked child: the messages and their thread are those of the parent."""
        self._make_locks()
        self._backlog = Backlog(self.client.timeout)
        leave(self._stream)
        self._thread = self._stream = None

    def _note(self) -> None:
        """Has the end of the client and of the program ask for it, as long as it has messages that nobody knows the fate of."""
        if self._backlog.unsaved:
            _unsaved.add(self)
        elif self._thread is None:
            _unsaved.drop(self)

    def _add(self, request: pb.AppendMessageRequest, batch: Batch | None) -> None:
        if self.client._closed:
            raise client_closed(request)
        self._backlog.add(request, batch)
        _unsaved.add(self)
        if self._stream is not None and self._stream.idle:
            # A server that hangs would not end it before its deadline.
            self._stream.end()
        if self._thread is None:
            thread = threading.Thread(target=self._send, name="contextstore-appends", daemon=True)
            self._thread = thread
            try:
                thread.start()
            except RuntimeError:
                # The interpreter is ending, and starts no more threads.
                self._send_alone()
        self._to_send.notify_all()

    def _wait(self, timeout: float, longest: float | None = None, batch: Batch | None = None) -> None:
        """Waits for something to happen; gives messages up if the server has not answered for so long."""
        left = self._backlog.patience(timeout)
        if left is not None and left <= 0:
            self._end_stream()
            self._backlog.drop(no_answer(timeout), batch)
            self._changed.notify_all()
            return
        # What is not sent yet may be sent meanwhile, and then its time runs.
        left = timeout if left is None else left
        self._changed.wait(min(left, LINGER if longest is None else longest, LINGER))

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream.end()
            self._to_send.notify_all()

    # The sender

    def _send(self) -> None:
        try:
            while (stream := self._next_stream()) is not None:
                error = self._follow(stream)
                with self._lock:
                    stream.end()
                    # The grpcio thread that feeds it.
                    self._to_send.notify_all()
                    if error is None:
                        self._backlog.restart()
                        continue
                    seconds = self._backlog.pause_after(error)
                    self._changed.notify_all()
                if seconds:
                    pause(self.client, seconds)
        except BaseException as broken:
            self._give_up(broken)

    def _next_stream(self) -> _Stream | None:
        with self._lock:
            if not self._backlog.pending:
                self._thread = self._stream = None
                self._note()
                return None
            self._stream = _Stream()
            return self._stream

    def _follow(self, stream: _Stream) -> ContextStoreError | None:
        """Sends and takes answers until the stream ends; returns why, if that was not what this side wanted."""
        try:
            call = self.client.stub.AppendMessages(self._feed(stream), timeout=self.client.stream_timeout)
            with self._lock:
                stream.call = call
                if not stream.open:
                    call.cancel()
            for response in call:
                with self._lock:
                    if not stream.open:
                        return None
                    self.client._reached = True
                    self._backlog.acknowledge(response)
                    self._changed.notify_all()
        except ContextStoreError as error:
            return error
        except grpc.RpcError as raised:
            return self.client._failed(raised, method="AppendMessages") if stream.open else None
        with self._lock:
            return ended_early() if stream.open and self._backlog.sent else None

    def _feed(self, stream: _Stream) -> Iterator[pb.AppendMessagesRequest]:
        """Yields requests as there are messages; ends if there are none for a while."""
        while True:
            with self._lock:
                while stream.open and not self._backlog.to_send:
                    if not self._to_send.wait(LINGER) and not self._backlog.pending:
                        stream.idle = True
                        return
                if not stream.open:
                    return
                request = self._backlog.take()
            yield request

    def _give_up(self, broken: BaseException) -> None:
        """The sender cannot go on."""
        with self._lock:
            self._thread = self._stream = None
            self._backlog.drop(sender_failed(broken, self.client._closed))
            self._note()
            self._changed.notify_all()

    def _send_alone(self) -> None:
        """Sends what waits by calls of their own, in this thread."""
        self._thread = None
        while (request := self._backlog.oldest) is not None:
            try:
                self._backlog.acknowledge_alone(self.client._run(append_alone(request), None))
            except ContextStoreError as error:
                self._backlog.give_up(error)
        self._note()


def close_all(appenders: Iterable[Appender], renewer: Renewer, connection: Connection) -> None:
    """Ends everything that a client does in the background, and its connection, which interrupts the threads that wait for it."""
    renewer.close()
    connection.close()
    end = time.monotonic() + 1.0
    for appender in appenders:
        appender.stop(max(0.0, end - time.monotonic()))


def flush_all(appenders: Iterable[Appender]) -> list[tuple[Any, ContextStoreError]]:
    """Waits until all is saved, as long as their client allows; returns what is not."""
    return _unsaved.flush(appenders)
