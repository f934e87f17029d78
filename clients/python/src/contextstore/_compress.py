"""Calls that make the context of one task smaller, and that take it back. No I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

import grpc

from ._calls import Call, TaskCalls, nothing
from ._chat import Streamed
from ._fields import named
from ._values import built, well_formed
from .errors import CompactionNotFound, ContextStoreError, Internal
from .types import (
    CompressionConfig,
    CompressProgress,
    CompressResult,
    PruneConfig,
    Record,
    Undone,
    WindowConfig,
)
from .v1 import context_store_pb2 as pb


def compress(
    calls: TaskCalls,
    strategy: str | None,
    target_tokens: int | None,
    overrides: CompressionConfig | Mapping[str, Any] | None,
    prune: PruneConfig | Mapping[str, Any] | None,
    window: WindowConfig | Mapping[str, Any] | None,
    request_id: str | None,
) -> Streamed[CompressProgress | CompressResult]:
    """Compresses now. The server remembers the request id, so a call that was cut off can be made again."""
    asked = {
        "strategy": strategy or "",
        "overrides": overrides,
        "prune": prune,
        "window": window,
        "target_tokens": target_tokens,
    }
    request = built(pb.CompressRequest, {**asked, **calls.mutation(request_id)})
    return Streamed("Compress", request, _event, repeats=True)


class Outcome:
    """Follows a compression to its end."""

    def __init__(self, on_progress: Callable[[CompressProgress], object] | None) -> None:
        self._on_progress = on_progress
        self._done: CompressResult | None = None

    def take(self, event: CompressProgress | CompressResult) -> None:
        """The next thing that was told."""
        if isinstance(event, CompressResult):
            self._done = event
        elif self._on_progress is not None:
            self._on_progress(event)

    def result(self) -> CompressResult:
        """What became of it, once all was told."""
        if self._done is None:
            raise cut_off("before it told what the compression did")
        return self._done


def begin(
    calls: TaskCalls,
    strategy: str | None,
    target_tokens: int | None,
    overrides: CompressionConfig | Mapping[str, Any] | None,
) -> Streamed[pb.BeginCompactionResponse]:
    """Asks for what to summarise."""
    asked = {
        "task_uuid": calls.task_uuid,
        "strategy": strategy or "",
        "overrides": overrides,
        "target_tokens": target_tokens,
        "lease_generation": calls.lease_generation,
    }
    request = built(pb.BeginCompactionRequest, asked)
    return Streamed("BeginCompaction", request, lambda response: iter((response,)))


def commit(
    calls: TaskCalls,
    token: str,
    summary: str,
    retain: str,
    keep_seqs: Iterable[int],
    model: str,
    request_id: str | None,
) -> Call[CompressResult]:
    """Puts the agent's summary in the place of what it was told."""
    request = named(pb.CommitCompactionRequest)(
        token=token,
        summary=well_formed(summary),
        retain=well_formed(retain),
        keep_seqs=keep_seqs,
        model=model,
        **calls.mutation(request_id),
    )
    return Call("CommitCompaction", request, lambda response: response.done)


def abort(calls: TaskCalls, token: str) -> Call[None]:
    """Gives a token back; one that is gone is given back already."""
    request = named(pb.AbortCompactionRequest)(
        task_uuid=calls.task_uuid, token=token, lease_generation=calls.lease_generation
    )
    return Call(
        "AbortCompaction",
        request,
        nothing,
        reads=True,
        none_if=lambda error, repeated: isinstance(error, CompactionNotFound),
    )


def undo(calls: TaskCalls, request_id: str | None) -> Call[Undone]:
    """Takes the newest compaction in force back."""
    request = named(pb.UndoCompactionRequest)(**calls.mutation(request_id))
    return Call("UndoCompaction", request, lambda response: response)


def cut_off(when: str) -> ContextStoreError:
    """The server ended a stream as if all were well, but has not said what it had to."""
    return Internal(f"the server closed the stream {when}", code=grpc.StatusCode.INTERNAL)


class CompactionBase:
    """What an agent is to summarise, and with which words; it reads on and commits in a subclass."""

    def __init__(self, calls: TaskCalls, begun: pb.BeginCompactionResponse.Begun) -> None:
        self._calls = calls
        self._open = True
        self.token = begun.token
        """Names the compaction."""
        self.expire_time: datetime = begun.expire_time.ToDatetime(timezone.utc)
        """Until when it can be committed."""
        self.start_seq = begun.start_seq
        """The first message that is to be summarised."""
        self.end_seq = begun.end_seq
        """The last one."""
        self.message_count = begun.messages
        """How many they are."""
        self.tokens = begun.tokens
        """How many tokens they have."""
        self.budget = begun.summary_tokens
        """Most tokens of the summary."""
        self.prompt = begun.prompt
        """What a model would be asked."""
        self.previous_summary = begun.previous_summary
        """The summary so far, which the new one has to take in; empty if there is none."""
        self.retained = begun.retained
        """What was kept word for word so far: it stays, unless the `retain` of the commit takes its place."""
        self.output_refs = tuple(begun.output_refs)
        """Refs that the summary has to name."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.token}, {self.message_count} messages>"


def lines(rest: bytes, data: bytes) -> tuple[list[Record], bytes]:
    """The messages that are whole now, and what is left of the bytes."""
    *whole, rest = (rest + data).split(b"\n")
    return [json.loads(line) for line in whole], rest


def _event(response: pb.CompressResponse) -> Iterator[CompressProgress | CompressResult]:
    """What the caller is told; nothing for an event that only a newer client knows."""
    kind = response.WhichOneof("event")
    if kind == "progress":
        yield response.progress
    elif kind == "done":
        yield response.done
