"""Reading goes on where it was cut off: nothing is missed, nothing comes twice, wherever the cut is."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import grpc
import pytest

from contextstore import _cursors, errors
from contextstore.v1 import context_store_pb2 as pb

pytestmark = pytest.mark.quick

LOG: list[dict[str, Any]] = [
    {"event": "started", "after": 0},
    {"event": "lease", "after": 0},
    {"seq": 1, "role": "user"},
    {"event": "pin", "after": 1, "seq": 1},
    {"event": "usage", "after": 1},
    {"seq": 2, "role": "assistant"},
    {"seq": 3, "role": "user"},
    {"event": "status", "after": 3},
]


def answer_history(request: pb.StreamMessagesRequest) -> list[bytes]:
    """What a server answers, as the protocol says."""
    lines, inside = [], request.from_seq == 0
    for record in LOG:
        inside = inside or record.get("seq") == request.from_seq and "event" not in record
        kind = record.get("event", "message")
        if inside and (not request.kinds or kind in request.kinds):
            lines.append(json.dumps(record).encode())
    return lines[: request.limit] if request.limit else lines


@pytest.mark.parametrize("kinds", [(), ("message",), ("pin", "usage", "status"), ("lease", "message")])
@pytest.mark.parametrize("from_seq", [0, 1, 2, 3])
@pytest.mark.parametrize("limit", [0, 3])
def test_history_goes_on_after_any_cut(from_seq: int, limit: int, kinds: tuple[str, ...]) -> None:
    def cursor() -> _cursors.HistoryCursor:
        return _cursors.HistoryCursor("t", from_seq, 0, limit, False, kinds)

    whole = [json.loads(line) for line in answer_history(cursor().request())]
    for first in range(len(whole) + 1):
        for second in range(len(whole) - first + 1):
            reader = cursor()
            read: list[Any] = []
            for cut in (first, second + first, len(LOG)):
                # The cursor's own count: a repeated answer begins with records that it has.
                lines = answer_history(reader.request())
                for line in lines:
                    if len(read) >= cut:
                        break
                    read += reader.take(pb.StreamMessagesResponse(records=[line]))
            assert read == whole, (first, second)
            assert reader.done == (limit > 0 and len(whole) == limit)


def answer_numbered(request: Any) -> list[bytes]:
    lines = [json.dumps({"seq": n}).encode() for n in range(max(1, request.from_seq), 6)]
    return lines[: request.limit] if request.limit else lines


@pytest.mark.parametrize("limit", [0, 2])
def test_numbered_records_go_on_after_any_cut(limit: int) -> None:
    for cut in range(6):
        reader = _cursors.tool_calls("t", 2, 0, limit)
        read: list[Any] = []
        for line in answer_numbered(reader.request())[:cut]:
            read += reader.take(pb.StreamToolCallsResponse(records=[line]))
        if not reader.done:
            read += reader.take(pb.StreamToolCallsResponse(records=answer_numbered(reader.request())))
        assert [record["seq"] for record in read] == ([2, 3] if limit else [2, 3, 4, 5])


def test_summaries_go_on_after_a_cut() -> None:
    reader = _cursors.SummaryCursor("t", 0)
    lines = [b'{"id":1}', b'{"id":2}']
    reader.request()
    assert list(reader.take(pb.StreamSummariesResponse(records=lines[:1]))) == [{"id": 1}]
    reader.request()
    assert list(reader.take(pb.StreamSummariesResponse(records=lines))) == [{"id": 2}]


def chunks(data: bytes, size: int, offset: int, generation: int) -> Iterable[pb.StreamCurrentResponse]:
    for at in range(offset, len(data), size):
        yield pb.StreamCurrentResponse(
            data=data[at : at + size], offset=at, generation=generation, total_bytes=len(data)
        )


def test_a_view_that_grew_meanwhile_is_one_snapshot() -> None:
    first, grown = b'{"a":1}\n{"b":2}\n', b'{"a":1}\n{"b":2}\n{"c":3}\n'
    for size in range(1, len(grown) + 1):
        for cut in range(len(first) // size + 1):
            reader = _cursors.CurrentCursor("t", 0, 0)
            read = b""
            for count, chunk in enumerate(chunks(first, size, 0, 4)):
                if count == cut:
                    break
                read += b"".join(reader.take(chunk))
            request = reader.request()
            assert (request.offset, request.generation) == (len(read), 4 if cut else 0)
            for chunk in chunks(grown, size, request.offset, 4):
                read += b"".join(reader.take(chunk))
                if reader.done:
                    break
            assert read == (first if cut else grown)


def test_a_view_that_was_rewritten_meanwhile_is_an_error() -> None:
    stale = errors.StaleView("", code=grpc.StatusCode.ABORTED)
    reader = _cursors.CurrentCursor("t", 0, 0)
    assert reader.refine(stale) is stale
    list(reader.take(pb.StreamCurrentResponse(data=b"x", total_bytes=5)))
    assert isinstance(reader.refine(stale), errors.ViewRewritten)
    assert reader.refine(errors.NotFound("")).__class__ is errors.NotFound


def test_messages_of_a_view_come_whole_however_it_is_cut() -> None:
    view = '{"role":"user","content":"é\\n"}\n{"role":"assistant"}\n'.encode()
    for size in range(1, len(view) + 1):
        lines = _cursors.LinesOfView()
        messages = [m for at in range(0, len(view), size) for m in lines.take(view[at : at + size])]
        assert messages == [{"role": "user", "content": "é\n"}, {"role": "assistant"}]


def test_a_watch_can_be_taken_up_wherever_it_is() -> None:
    reader = _cursors.WatchCursor("t", "")
    reader.begin([("date", "today")])
    assert reader.request().resume_token == ""
    reader.begin([("date", "today"), ("resume-token", "beginning")])
    assert reader.request().resume_token == "beginning"
    list(reader.take(pb.WatchTaskResponse(resume_token="here")))
    assert reader.request().resume_token == "here"
