"""Outputs of tools: what is sent for them, and how answers are read. No I/O; what is put is in `_upload`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from ._calls import Call, TaskCalls, tool_call_status
from ._chat import Streamed
from ._cursors import Cursor
from ._fields import duration, named
from ._values import dump, masked, well_formed
from .types import GarbageCollected, OutputInfo, OutputRef, Pressure, Record, Trimmed
from .v1 import tool_outputs_pb2 as pb


@dataclass(frozen=True)
class StoredOutput:
    """An output of a tool that is on disk, and what the model is to be shown of it.

    stored = task.output.put(log, tool_name="pytest", tool_call_id=call["id"], append=True)
    print(stored.ref, stored.truncated, stored.view)
    """

    ref: str
    """Names it within its task, for `read` and `grep`."""
    view: str
    """What the model is to be shown: the content of the tool message. Empty with `view_parts`."""
    view_parts: list[Record] | None
    """The same as content parts, if `as_parts` made it some."""
    truncated: bool
    """Whether the view leaves something out."""
    seq: int
    """With `append`: the number of the message; else 0."""
    tool_seq: int
    """With `record`: the number of the record; else 0."""
    tokens: int
    """Tokens of the message, or of the view."""
    duplicate: bool
    """Whether a call with the same request id had done it before."""
    info: OutputRef
    """Its size, lines, media type and hash."""
    pressure: Pressure | None
    """With `append`: how full the context is."""
    masked: Mapping[str, int] = field(default_factory=dict)
    """Secrets that were replaced before it was written: how often, by the rule that found them."""


def stored(response: pb.PutToolOutputResponse) -> StoredOutput:
    """What the answer to a put says."""
    return StoredOutput(
        ref=response.ref.id,
        view=response.view,
        view_parts=json.loads(response.view_json) if response.view_json else None,
        truncated=response.truncated,
        seq=response.seq,
        tool_seq=response.tool_seq,
        tokens=response.tokens,
        duplicate=response.duplicate,
        info=response.ref,
        pressure=response.pressure if response.HasField("pressure") else None,
        masked=masked(response.masked),
    )


def header(
    calls: TaskCalls,
    *,
    tool_name: str,
    tool_call_id: str,
    media_type: str,
    append: bool,
    record: bool,
    arguments: Any,
    error: str | None,
    length: timedelta | float | None,
    max_line_length: int,
    max_message_bytes: int,
    tail_bytes: int | None,
    as_parts: bool,
    request_id: str | None,
) -> pb.PutToolOutputHeader:
    """What goes ahead of an output."""
    recorded = named(pb.OutputRecord)(
        arguments_json="" if arguments is None else dump(arguments, "arguments"),
        status=tool_call_status(error),
        error=well_formed(error or ""),
        duration=duration("duration", length),
    )
    return named(pb.PutToolOutputHeader)(
        tool_name=tool_name,
        tool_call_id=tool_call_id,
        media_type=media_type,
        append=append,
        record=recorded if record else None,
        max_line_length=max_line_length,
        max_message_bytes=max_message_bytes,
        tail_bytes=tail_bytes,
        as_parts=as_parts,
        **calls.mutation(request_id),
    )


class OutputCursor(Cursor[bytes]):
    """A place in an output: behind so many bytes, or so many whole lines and a part of the next."""

    method = "ReadToolOutput"

    def __init__(
        self, task_uuid: str, ref: str, offset: int, limit: int, raw: bool, max_line_length: int
    ) -> None:
        self._request = named(pb.ReadToolOutputRequest)(
            task_uuid=task_uuid,
            ref_id=ref,
            offset=offset,
            limit=limit,
            raw=raw,
            max_line_length=max_line_length,
        )
        self._limit = limit
        self._read = 0
        self._part = 0
        """Bytes of the line that is not whole yet."""
        self._skip = 0

    def request(self) -> pb.ReadToolOutputRequest:
        request = deepcopy(self._request)
        request.offset += self._read
        if self._limit:
            request.limit = self._limit - self._read
        self._skip = self._part
        return request

    def take(self, response: pb.ReadToolOutputResponse) -> Iterator[bytes]:
        data = response.data
        if self._skip:
            skipped, data = data[: self._skip], data[self._skip :]
            self._skip -= len(skipped)
        if self._request.raw:
            self._read += len(data)
        else:
            self._read += data.count(b"\n")
            last = data.rfind(b"\n")
            self._part = self._part + len(data) if last < 0 else len(data) - last - 1
        self.done = bool(self._limit) and self._read >= self._limit
        if data:
            yield data


def grep(
    calls: TaskCalls,
    pattern: str,
    ref: str,
    ignore_case: bool,
    fixed: bool,
    before: int,
    after: int,
    max_matches: int,
    max_line_length: int,
) -> Streamed[pb.GrepToolOutputResponse]:
    """Looks for lines."""
    request = named(pb.GrepToolOutputRequest)(
        task_uuid=calls.task_uuid,
        ref_id=ref,
        pattern=pattern,
        ignore_case=ignore_case,
        fixed=fixed,
        before=before,
        after=after,
        max_matches=max_matches,
        max_line_length=max_line_length,
    )
    return Streamed("GrepToolOutput", request, lambda response: iter((response,)))


def stat(calls: TaskCalls, ref: str) -> Call[OutputInfo]:
    """What is known of an output."""
    request = named(pb.StatToolOutputRequest)(task_uuid=calls.task_uuid, ref_id=ref)
    return Call("StatToolOutput", request, lambda response: response.output, reads=True)


def page(calls: TaskCalls, page_size: int, token: str) -> Call[pb.ListToolOutputsResponse]:
    """Some of the outputs of a task."""
    request = named(pb.ListToolOutputsRequest)(
        task_uuid=calls.task_uuid, page_size=page_size, page_token=token
    )
    return Call("ListToolOutputs", request, lambda response: response, reads=True)


def trim(calls: TaskCalls, budget_tokens: int | None, request_id: str | None) -> Call[Trimmed]:
    """Makes old outputs in the view placeholders."""
    request = named(pb.TrimToolOutputsRequest)(budget_tokens=budget_tokens, **calls.mutation(request_id))
    return Call("TrimToolOutputs", request, lambda response: response)


def collect_garbage(
    task_uuid: str, dry_run: bool, min_age: timedelta | float | None
) -> Call[GarbageCollected]:
    """Removes outputs that nobody names; may be repeated."""
    request = named(pb.CollectGarbageRequest)(
        task_uuid=task_uuid, dry_run=dry_run, min_age=duration("min_age", min_age)
    )
    return Call("CollectGarbage", request, lambda response: response, reads=True, least=300.0)
