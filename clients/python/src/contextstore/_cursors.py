"""Reading in streams: each cursor knows where its reader is and how to ask for the rest. No I/O.

A stream that is cut off (the server was restarted, a deadline passed) is asked for again from where it was.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from ._enums import many
from ._fields import named
from .errors import ContextStoreError, StaleView, ViewRewritten
from .types import Event, Record
from .v1 import context_store_pb2 as pb

T = TypeVar("T")


class Cursor(ABC, Generic[T]):
    """A place in a stream."""

    method: str
    follows = False
    """Whether the stream goes on for as long as the reader wants."""
    done = False
    """Whether the reader has everything, although the stream may not have ended."""

    @abstractmethod
    def request(self) -> Message:
        """Asks for all that has not been read yet."""

    @abstractmethod
    def take(self, response: Any) -> Iterable[T]:
        """What a response holds for the reader."""

    def begin(self, header: Iterable[tuple[str, str | bytes]]) -> None:
        """The stream is open."""

    def refine(self, error: ContextStoreError) -> ContextStoreError:
        """The error in terms of what the reader is doing."""
        return error


class CurrentCursor(Cursor[bytes]):
    """The view, in chunks. It ends where it ended when the first chunk was made, so it is one snapshot."""

    method = "StreamCurrent"

    def __init__(self, task_uuid: str, chunk_bytes: int, as_of_seq: int) -> None:
        self._request = named(pb.StreamCurrentRequest)(
            task_uuid=task_uuid, chunk_bytes=chunk_bytes, as_of_seq=as_of_seq
        )
        self._total: int | None = None

    def request(self) -> pb.StreamCurrentRequest:
        return self._request

    def take(self, response: pb.StreamCurrentResponse) -> Iterator[bytes]:
        if self._total is None:
            self._total = response.total_bytes
            self._request.generation = response.generation
        data = response.data[: self._total - self._request.offset]
        self._request.offset += len(data)
        # The view may have grown between two requests; the rest is not part of this snapshot.
        self.done = self._request.offset == self._total < response.total_bytes
        if data:
            yield data

    def refine(self, error: ContextStoreError) -> ContextStoreError:
        if self._request.offset and isinstance(error, StaleView):
            return ViewRewritten(
                f"the view was rewritten after {self._request.offset} of {self._total} bytes were read",
                code=error.code,
                reason=error.reason,
                metadata=error.metadata,
            )
        return error


class LinesOfView:
    """Puts the chunks of a view together into its messages; holds one message at a time."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def take(self, chunk: bytes) -> Iterator[Record]:
        """The messages that end in this chunk. Every line ends with a line feed."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._parts.append(chunk[start:end])
            line = b"".join(self._parts)
            self._parts.clear()
            start = end + 1
            yield json.loads(line)
        if start < len(chunk):
            self._parts.append(chunk[start:])


class HistoryCursor(Cursor[Record]):
    """Lines of messages.jsonl: messages and events."""

    method = "StreamMessages"

    def __init__(
        self,
        task_uuid: str,
        from_seq: int,
        to_seq: int,
        limit: int,
        follow: bool,
        kinds: Iterable[str] | str,
    ) -> None:
        self._request = named(pb.StreamMessagesRequest)(
            task_uuid=task_uuid,
            from_seq=from_seq,
            to_seq=to_seq,
            limit=limit,
            follow=follow,
            kinds=many(pb.RecordKind.DESCRIPTOR, "kinds", kinds),
        )
        self.follows = follow
        self._limit = limit
        self._read = 0
        # The message at or behind which the reader is, and how many records it has from there on: an event has
        # no number of its own.
        self._at: int | None = None
        self._since = 0
        self._skip = 0

    def request(self) -> pb.StreamMessagesRequest:
        if self._at is not None:
            self._skip = self._since
            self._request.from_seq = self._at
            if self._limit:
                self._request.limit = self._limit - self._read + self._skip
        return self._request

    def take(self, response: pb.StreamMessagesResponse) -> Iterator[Record]:
        for line in response.records:
            if self._skip:
                self._skip -= 1
                continue
            record = json.loads(line)
            # A pin event has a seq too: that of the message it speaks of.
            at = record["after"] if "event" in record else record["seq"]
            self._since = self._since + 1 if at == self._at else 1
            self._at = at
            self._read += 1
            yield record
        self.done = bool(self._limit) and self._read >= self._limit


class NumberedCursor(Cursor[Record]):
    """Lines that are numbered: tools.jsonl, planning.jsonl."""

    def __init__(
        self, method: str, request: pb.StreamToolCallsRequest | pb.StreamPlansRequest, number: str
    ) -> None:
        self.method = method
        self._request = request
        self._number = number
        self._limit = request.limit
        self._read = 0

    def request(self) -> Message:
        if self._limit:
            self._request.limit = self._limit - self._read
        return self._request

    def take(self, response: pb.StreamToolCallsResponse | pb.StreamPlansResponse) -> Iterator[Record]:
        for line in response.records:
            record = json.loads(line)
            setattr(self._request, f"from_{self._number}", record[self._number] + 1)
            self._read += 1
            yield record
        self.done = bool(self._limit) and self._read >= self._limit


def tool_calls(task_uuid: str, from_seq: int, to_seq: int, limit: int) -> NumberedCursor:
    """Lines of tools.jsonl."""
    request = named(pb.StreamToolCallsRequest)(
        task_uuid=task_uuid, from_seq=from_seq, to_seq=to_seq, limit=limit
    )
    return NumberedCursor("StreamToolCalls", request, "seq")


def plans(task_uuid: str, from_id: int, to_id: int, limit: int) -> NumberedCursor:
    """Lines of planning.jsonl."""
    request = named(pb.StreamPlansRequest)(task_uuid=task_uuid, from_id=from_id, to_id=to_id, limit=limit)
    return NumberedCursor("StreamPlans", request, "id")


class SummaryCursor(Cursor[Record]):
    """Lines of summaries.jsonl. They are few and are asked for again from the first."""

    method = "StreamSummaries"

    def __init__(self, task_uuid: str, limit: int) -> None:
        self._request = named(pb.StreamSummariesRequest)(task_uuid=task_uuid, limit=limit)
        self._read = 0
        self._skip = 0

    def request(self) -> pb.StreamSummariesRequest:
        self._skip = self._read
        return self._request

    def take(self, response: pb.StreamSummariesResponse) -> Iterator[Record]:
        for line in response.records:
            if self._skip:
                self._skip -= 1
                continue
            self._read += 1
            yield json.loads(line)


class WatchCursor(Cursor[Event]):
    """What happens to a task. The header tells where it begins, so nothing is missed before the first event."""

    method = "WatchTask"
    follows = True

    def __init__(self, task_uuid: str, resume_token: str) -> None:
        self._request = named(pb.WatchTaskRequest)(task_uuid=task_uuid, resume_token=resume_token)

    def request(self) -> pb.WatchTaskRequest:
        return self._request

    def begin(self, header: Iterable[tuple[str, str | bytes]]) -> None:
        for key, value in header:
            if key == "resume-token" and isinstance(value, str):
                self._request.resume_token = value

    def take(self, response: pb.WatchTaskResponse) -> Iterator[Event]:
        self._request.resume_token = response.resume_token
        yield response
