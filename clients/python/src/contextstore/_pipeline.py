"""The messages of a task that are appended in the background: what waits, what was sent, and who is told what. No I/O.

They are kept until they are acknowledged, so that a new stream can send them again, in order, under the same
request ids. Callers hand messages over and wait for them; what sends them is not theirs, so that a caller that is
cancelled or interrupted takes nothing away from another.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections import deque
from dataclasses import dataclass

import grpc

from ._calls import appended
from ._retry import StreamAttempts, passes
from .errors import Cancelled, ContextStoreError, DeadlineExceeded, Internal
from .types import Appended, NewMessage
from .v1 import context_store_pb2 as pb

# The server remembers the last 1 024 request ids; half of that leaves room for other calls on the same task.
_MOST_MESSAGES = 512
_MOST_BYTES = 8 << 20
# What is sent at once of what waits: the cost of grpcio is that of a request, hardly that of its bytes.
_TOGETHER_MESSAGES = 64
_TOGETHER_BYTES = 256 << 10

LINGER = 0.5
"""Seconds that a stream stays open with nothing to send."""


def ended_early() -> ContextStoreError:
    """The server ended the stream as if all were well, but has not answered everything."""
    return Internal(
        "the server closed the stream before it acknowledged everything", code=grpc.StatusCode.INTERNAL
    )


def no_answer(timeout: float) -> ContextStoreError:
    """The server took a message and said nothing."""
    return DeadlineExceeded(
        f"no acknowledgement within {timeout:g} s", code=grpc.StatusCode.DEADLINE_EXCEEDED
    )


def client_closed(*requests: pb.AppendMessageRequest) -> ContextStoreError:
    """Messages were handed over, or still on their way, when the client was closed."""
    error = Cancelled("the client is closed", code=grpc.StatusCode.CANCELLED)
    error.not_appended = [again(request) for request in requests]
    return error


def sender_failed(broken: BaseException, closed: bool) -> ContextStoreError:
    """What sends in the background cannot go on; grpcio makes no calls on a channel that is closed."""
    error = (
        client_closed()
        if closed
        else Internal(f"the sender failed: {broken!r}", code=grpc.StatusCode.INTERNAL)
    )
    error.__cause__ = broken
    return error


def again(request: pb.AppendMessageRequest) -> NewMessage:
    """A message as it can be appended again: its request id has the server recognise it."""
    new = request.message
    message = new.fields if new.HasField("fields") else new.json
    return NewMessage(message, new.pinned, new.output_ref, new.request_id)


def keep(error: Exception, given: NewMessage) -> Exception:
    """Puts the message that a failing call was given behind all others that are not appended, whatever it failed with."""
    others: list[NewMessage] = getattr(error, "not_appended", [])
    if given.request_id:
        others = [message for message in others if message.request_id != given.request_id]
    # Also to a ValueError or TypeError of what has no form in JSON; errors of other packages may take no attributes.
    with contextlib.suppress(AttributeError):
        error.not_appended = [*others, given]  # type: ignore[attr-defined]
    return error


def at_index(failure: Exception, index: int) -> Exception:
    """Says for which of many messages something failed before it was sent."""
    if isinstance(failure, ContextStoreError):
        failure.index = index
    elif (add_note := getattr(failure, "add_note", None)) is not None:  # Since Python 3.11.
        add_note(f"messages[{index}] of append_many: those before it are appended")
    return failure


class Batch:
    """Messages whose acknowledgements and errors are for one caller: those of one append_many, or all that are
    appended without waiting."""

    def __init__(self) -> None:
        self.acks: deque[pb.AppendMessageResponse] = deque()
        """The acknowledgements that the caller has not taken."""
        self.acknowledged = 0
        """How many messages were acknowledged."""
        self.pending = 0
        """How many messages are neither acknowledged nor given up."""
        self.error: ContextStoreError | None = None
        """Why the messages behind the acknowledged ones were given up, until it is raised."""

    def refuses(self, request: pb.AppendMessageRequest) -> bool:
        """Whether a message comes too late: one before it was refused, so that it is not appended either."""
        if self.error is not None:
            self.error.not_appended.append(again(request))
        return self.error is not None

    def take(self) -> list[Appended]:
        """Returns the acknowledgements that have arrived; raises the error once there are none."""
        if not self.acks and self.error is not None:
            error, self.error = self.error, None
            raise error
        acks = [appended(ack) for ack in self.acks]
        self.acks.clear()
        return acks


@dataclass(eq=False)
class Waiter:
    """A caller that waits for every message before `target`."""

    target: int
    error: ContextStoreError | None = None


@dataclass(eq=False)
class _Handed:
    """A message that was handed over."""

    request: pb.AppendMessageRequest
    size: int
    number: int
    batch: Batch


class Backlog:
    """The messages of one task that were handed over and are not settled: neither acknowledged nor given up.

    Messages are numbered as they are handed over. Its owner makes sure that one thread at a time is in it.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.alone = False
        """Whether each message is to be sent in a request of its own."""
        self._attempts = StreamAttempts(timeout)
        self._waiting: deque[_Handed] = deque()
        self._sent: deque[_Handed] = deque()
        self._requests: deque[int] = deque()
        """How many messages went with each request whose response has not arrived."""
        self._short = False
        """Whether a response left messages out, so that only an error may follow."""
        self._numbers = 0
        self._bytes = 0
        self._later = Batch()
        self._last: pb.AppendMessageResponse | None = None
        self._waiters: list[Waiter] = []
        self._lost: ContextStoreError | None = None
        self._failing: ContextStoreError | None = None
        self._moved = 0.0

    # What callers do

    def add(self, request: pb.AppendMessageRequest, batch: Batch | None = None) -> None:
        """Takes a message over; without a batch, nobody waits for its acknowledgement."""
        batch = batch or self._later
        handed = _Handed(request, request.ByteSize(), self._numbers, batch)
        # An interruption between these lines leaves counters that are still right enough.
        self._numbers += 1
        self._bytes += handed.size
        batch.pending += 1
        self._waiting.append(handed)

    @property
    def pending(self) -> bool:
        """Whether there are messages that are not settled."""
        return bool(self._waiting or self._sent)

    @property
    def count(self) -> int:
        """How many messages were handed over so far."""
        return self._numbers

    @property
    def full(self) -> bool:
        """Whether callers have to wait before they hand over more."""
        return len(self._waiting) + len(self._sent) >= _MOST_MESSAGES or self._bytes >= _MOST_BYTES

    @property
    def unsaved(self) -> int:
        """How many messages are not saved, as far as is known, without anybody having been told."""
        # Several callers may wait to be told of the same ones, and be cancelled before they are.
        errors = [self._lost, *(waiter.error for waiter in self._waiters)]
        lost = {id(message) for error in errors if error is not None for message in error.not_appended}
        return len(self._waiting) + len(self._sent) + len(lost)

    def waiter(self) -> Waiter:
        """A caller begins to wait for everything that was handed over; it has to `leave`."""
        waiter = Waiter(self._numbers)
        self._waiters.append(waiter)
        return waiter

    def reached(self, waiter: Waiter) -> bool:
        """Whether there is nothing to wait for any more."""
        return waiter.error is not None or self._oldest() >= waiter.target

    def finish(self, waiter: Waiter) -> Appended | None:
        """Returns the last acknowledgement since a caller waited last; raises what was lost and not reported."""
        error = waiter.error or self._lost
        if error is not None:
            if error is self._lost:
                self._lost = None
            waiter.error = None
            raise error
        last, self._last = self._last, None
        if not self._later.pending:
            self._later.acknowledged = 0
        return None if last is None else appended(last)

    def refuse_after_loss(self) -> None:
        """Raises what was lost and not reported; the message that comes behind it is not appended either."""
        if (error := self._lost) is not None:
            self._lost = None
            raise error

    def leave(self, waiter: Waiter) -> None:
        """A caller waits no more. If it was cancelled before it could raise its error, another one will."""
        self._waiters.remove(waiter)
        if waiter.error is not None:
            self._lose(waiter.error, None)

    def abandon(self, batch: Batch) -> None:
        """Nobody takes the acknowledgements of a batch any more: its messages are as if nobody had waited for them."""
        for handed in (*self._sent, *self._waiting):
            if handed.batch is batch:
                handed.batch = self._later
                self._later.pending += 1
        batch.pending = 0
        if batch.error is not None:
            self._lose(batch.error, None)
            batch.error = None

    def patience(self, timeout: float) -> float | None:
        """Seconds until a caller stops waiting for an acknowledgement; None while there is none to wait for, as the
        messages are not sent yet."""
        return self._moved + timeout - time.monotonic() if self._sent else None

    # What the sender does

    @property
    def to_send(self) -> bool:
        """Whether there are messages that are not sent."""
        return bool(self._waiting)

    @property
    def sent(self) -> bool:
        """Whether there are messages that were sent and not acknowledged."""
        return bool(self._sent)

    @property
    def oldest(self) -> pb.AppendMessageRequest | None:
        """The first message that is not settled."""
        first = self._sent or self._waiting
        return first[0].request if first else None

    def take(self) -> pb.AppendMessagesRequest:
        """Returns the first message that waits, and what fits behind it into the same request: they count as sent."""
        first = self._send_first()
        request = pb.AppendMessagesRequest(
            task_uuid=first.request.task_uuid,
            messages=[first.request.message],
            lease_generation=first.request.lease_generation,
        )
        size = first.size
        while self._waiting and not self.alone and len(request.messages) < _TOGETHER_MESSAGES:
            one = self._waiting[0].request
            size += self._waiting[0].size
            # All are under one lease.
            if size > _TOGETHER_BYTES or one.lease_generation != request.lease_generation:
                break
            self._send_first()
            request.messages.append(one.message)
        self._requests.append(len(request.messages))
        return request

    def acknowledge(self, response: pb.AppendMessagesResponse) -> None:
        """A response has arrived: acknowledgements come in the order of the messages."""
        if self._short or not self._requests:
            raise Internal(
                "the server has not acknowledged all messages of a request", code=grpc.StatusCode.INTERNAL
            )
        expected = self._requests.popleft()
        self._short = len(response.responses) < expected
        for ack in response.responses[:expected]:
            self._settle(self._sent, ack)

    def acknowledge_alone(self, response: pb.AppendMessageResponse) -> None:
        """The first message that waits was appended by a call of its own."""
        self._settle(self._waiting, response)

    def restart(self) -> None:
        """What was sent and not acknowledged is to be sent again, on a new stream."""
        self._waiting.extendleft(reversed(self._sent))
        self._sent.clear()
        self._requests.clear()
        self._short = False

    def pause_after(self, error: ContextStoreError) -> float:
        """Returns how many seconds to wait before the next stream; gives messages up if the error does not pass."""
        idle = not self._sent
        self.restart()
        if not self.pending:
            return 0.0
        if error.code is grpc.StatusCode.INVALID_ARGUMENT and not self.alone:
            # All messages of a request were refused for one of them. Alone, those before it are appended, and the
            # error is about itself.
            self.alone = True
            return 0.0
        try:
            pause = self._attempts.pause_after(error, idle=idle)
        except ContextStoreError as final:
            self.give_up(final)
            return 0.0
        self._failing = error
        return pause

    def give_up(self, error: ContextStoreError) -> None:
        """The first message was refused: with it go those behind it that the same caller has handed over. An error
        that would meet every message ends all of them."""
        self.restart()
        _name_fields_as_alone(error)
        about_one = bool(error.reason) and not passes(error)
        self.drop(error, self._waiting[0].batch if about_one and self._waiting else None)

    def drop(self, error: ContextStoreError, batch: Batch | None = None) -> None:
        """Gives up the messages of one batch, or all; no stream may be under way."""
        self.restart()
        self.alone = False
        self._attempts, self._failing = StreamAttempts(self.timeout), None
        lost: dict[Batch, list[_Handed]] = {}
        kept: deque[_Handed] = deque()
        for handed in self._waiting:
            if batch is None or handed.batch is batch:
                lost.setdefault(handed.batch, []).append(handed)
                self._bytes -= handed.size
            else:
                kept.append(handed)
        self._waiting = kept
        for owner, messages in lost.items():
            told = _copy(error)
            told.index = owner.acknowledged
            told.not_appended = [again(handed.request) for handed in messages]
            owner.pending -= len(messages)
            if owner is self._later:
                owner.acknowledged, self._last = 0, None
                self._lose(told, messages[0].number)
            else:
                owner.error = told

    def drop_late(self, limit: float) -> None:
        """Gives up everything, as the time that there was for it is over."""
        self.drop(self._failing or no_answer(limit))

    # Its own

    def _oldest(self) -> int:
        first = self._sent or self._waiting
        return first[0].number if first else self._numbers

    def _send_first(self) -> _Handed:
        if not self._sent:
            self._moved = time.monotonic()
        handed = self._waiting.popleft()
        self._sent.append(handed)
        return handed

    def _settle(self, of: deque[_Handed], ack: pb.AppendMessageResponse) -> None:
        handed = of.popleft()
        self._bytes -= handed.size
        self._moved = time.monotonic()
        self._attempts.progressed()
        self._failing = None
        batch = handed.batch
        batch.pending -= 1
        batch.acknowledged += 1
        if batch is self._later:
            self._last = ack
        else:
            batch.acks.append(ack)
        if not self.pending:
            self.alone = False

    def _lose(self, error: ContextStoreError, number: int | None) -> None:
        """Reports lost messages, the first of them with that number: to every caller that waits for it, or else to the next."""
        heard = [waiter for waiter in self._waiters if number is not None and waiter.target > number]
        for waiter in heard:
            if waiter.error is None:
                waiter.error = _copy(error)
            else:
                waiter.error.not_appended += error.not_appended
        if heard:
            return
        if self._lost is None:
            self._lost = error
        else:
            known = {message.request_id for message in self._lost.not_appended}
            self._lost.not_appended += [
                message for message in error.not_appended if message.request_id not in known
            ]


def _name_fields_as_alone(error: ContextStoreError) -> None:
    """Names the fields of a refused message as AppendMessage does: it was the only one of its request."""
    for name in [name for name in error.fields if name.startswith("messages[0].")]:
        alone = name.replace("messages[0].", "message.", 1)
        error.fields[alone] = error.fields.pop(name)
        error.message = error.message.replace(name, alone)


def _copy(error: ContextStoreError) -> ContextStoreError:
    """The same error for another caller: a raised exception belongs to one."""
    copied = copy.copy(error)
    copied.not_appended = list(error.not_appended)
    copied.__cause__ = error.__cause__
    return copied
