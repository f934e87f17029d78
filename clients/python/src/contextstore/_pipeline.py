"""What is under way in append_many: messages that were sent and not acknowledged. No I/O.

They are kept until they are acknowledged, so that a new stream can send them again, in order, under the same
request ids.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ._calls import appended
from ._retry import StreamAttempts
from .errors import ContextStoreError
from .types import Appended
from .v1 import context_store_pb2 as pb

# The server remembers the last 1 024 request ids; half of that leaves room for other calls on the same task.
_MOST_MESSAGES = 512
_MOST_BYTES = 8 << 20


class Pipeline:
    """Messages that were sent and not acknowledged, in order."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._attempts = StreamAttempts(timeout)
        self._sent: deque[tuple[pb.AppendMessagesRequest, int]] = deque()
        self._bytes = 0
        self._finished = False

    def __iter__(self) -> Iterator[pb.AppendMessagesRequest]:
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

    def add(self, request: pb.AppendMessagesRequest) -> None:
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
    def oldest(self) -> pb.AppendMessagesRequest | None:
        """The first one that is not acknowledged."""
        return self._sent[0][0] if self._sent else None

    def acknowledge(self, response: pb.AppendMessagesResponse | pb.AppendMessageResponse) -> Appended:
        """The oldest one is on disk: acknowledgements come in the order of the messages."""
        _, size = self._sent.popleft()
        self._bytes -= size
        self._attempts.progressed()
        return appended(response)

    def pause_after(self, error: ContextStoreError) -> float:
        """Seconds to wait before all that is not acknowledged is sent on a new stream; or raises the error."""
        return self._attempts.pause_after(error, idle=not self._sent)
