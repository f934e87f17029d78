"""What is under way in append_many: messages that were sent and not acknowledged. No I/O.

They are kept until they are acknowledged, so that a new stream can send them again, in order, under the same
request ids.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol, Union

import grpc
from google.protobuf import json_format

from ._calls import appended
from ._retry import StreamAttempts
from .errors import ContextStoreError, Internal
from .types import Appended
from .v1 import context_store_pb2 as pb

# The server remembers the last 1 024 request ids; half of that leaves room for other calls on the same task.
_MOST_MESSAGES = 512
_MOST_BYTES = 8 << 20
# What is sent at once of what waits: the cost of grpcio is that of a request, hardly that of its bytes.
_TOGETHER_MESSAGES = 64
_TOGETHER_BYTES = 256 << 10

Ack = Union[pb.AppendMessagesResponse, pb.AppendMessageResponse]
"""What acknowledges one message."""


class Waiting(Protocol):
    """Messages that wait to be sent, in a queue of either kind; None is the end of them."""

    def empty(self) -> bool: ...
    def get_nowait(self) -> pb.AppendMessageRequest | None: ...
    def put_nowait(self, item: None, /) -> None: ...


def together(
    first: pb.AppendMessageRequest, waiting: Waiting, alone: bool
) -> tuple[pb.AppendMessagesRequest, pb.AppendMessageRequest | None]:
    """A message and what waits behind it as one request, and the one that did not fit in any more."""
    # The first is in the same fields as one that is sent alone.
    request = pb.AppendMessagesRequest.FromString(first.SerializeToString())
    size = first.ByteSize()
    while not alone and len(request.more) < _TOGETHER_MESSAGES and not waiting.empty():
        one = waiting.get_nowait()
        if one is None:
            waiting.put_nowait(None)
            break
        size += one.ByteSize()
        if size > _TOGETHER_BYTES:
            return request, one
        # All are of one task, under one lease.
        more = request.more.add(pinned=one.pinned, output_ref=one.output_ref, request_id=one.request_id)
        if one.HasField("message"):
            more.message.CopyFrom(one.message)
        else:
            more.message_json = one.message_json
    return request, None


class Tally:
    """How many messages went with each request of a stream, so that no message is taken for acknowledged that the
    server has not seen: one that does not know `more` would answer the first alone."""

    def __init__(self) -> None:
        self._sizes: deque[int] = deque()
        self._short = False

    def sent(self, request: pb.AppendMessagesRequest) -> None:
        """A request that is being sent."""
        self._sizes.append(1 + len(request.more))

    def acks(self, response: pb.AppendMessagesResponse) -> Iterator[Ack]:
        """What a response says, message by message. If it leaves some out, only an error may follow."""
        if self._short or not self._sizes:
            raise Internal(
                "the server has not acknowledged all messages of a request", code=grpc.StatusCode.INTERNAL
            )
        self._short = 1 + len(response.more) < self._sizes.popleft()
        yield response
        yield from response.more


class Pipeline:
    """Messages that were sent and not acknowledged, in order."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._attempts = StreamAttempts(timeout)
        self._sent: deque[tuple[pb.AppendMessageRequest, int]] = deque()
        self._bytes = 0
        self._acknowledged = 0
        self._finished = False
        self.alone = False
        """Whether each message is to be sent in a request of its own."""

    def __iter__(self) -> Iterator[pb.AppendMessageRequest]:
        return (request for request, _ in self._sent)

    @property
    def done(self) -> bool:
        """Whether everything was sent and acknowledged."""
        return self._finished and not self._sent

    @property
    def wait(self) -> float | None:
        """How long to wait for an acknowledgement before more is done; None: not at all."""
        full = len(self._sent) >= _MOST_MESSAGES or self._bytes >= _MOST_BYTES
        return self._timeout if full or (self._finished and self._sent) else None

    def add(self, request: pb.AppendMessageRequest) -> None:
        """A message that is being sent."""
        size = request.ByteSize()
        self._sent.append((request, size))
        self._bytes += size

    def finish(self) -> None:
        """There are no more messages."""
        self._finished = True

    @property
    def finished(self) -> bool:
        """Whether there are no more messages."""
        return self._finished

    @property
    def oldest(self) -> pb.AppendMessageRequest | None:
        """The first one that is not acknowledged."""
        return self._sent[0][0] if self._sent else None

    def acknowledge(self, response: Ack) -> Appended:
        """The oldest one is on disk: acknowledgements come in the order of the messages."""
        _, size = self._sent.popleft()
        self._bytes -= size
        self._acknowledged += 1
        self._attempts.progressed()
        return appended(response)

    def pause_after(self, error: ContextStoreError) -> float:
        """Seconds to wait before all that is not acknowledged is sent on a new stream; or raises the error."""
        if error.code is grpc.StatusCode.INVALID_ARGUMENT and not self.alone:
            # All messages of a request were refused for one of them. Alone, those before it are appended, and the
            # error is about itself.
            self.alone = True
            return 0.0
        try:
            return self._attempts.pause_after(error, idle=not self._sent)
        except ContextStoreError as final:
            raise self.ended(final) from final.__cause__

    def ended(self, error: ContextStoreError) -> ContextStoreError:
        """An error that nothing is appended after, and what that is about."""
        error.index = self._acknowledged
        error.not_appended = [_json(request) for request in self]
        return error


def _json(request: pb.AppendMessageRequest) -> str:
    if request.HasField("message"):
        return json_format.MessageToJson(request.message, preserving_proto_field_name=True, indent=None)
    return request.message_json
