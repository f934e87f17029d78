"""Calls of one task whose answers come piece by piece and cannot be taken up in the middle. No I/O.

They are repeated as long as nothing has arrived; after that only those of which the server knows what became.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from google.protobuf.message import Message

from ._calls import TaskCalls
from ._enums import number, short_name
from ._fields import mapping, named
from ._values import dump, new_message, new_request_id, tools_json
from .types import (
    ChatDone,
    ChatEvent,
    ChatMessage,
    ChatReasoning,
    ChatStarted,
    ChatText,
    ChatToolCall,
    ChatUsage,
    NewMessage,
    NewMessages,
    Tools,
)
from .types import Message as ChatFields
from .v1 import context_store_pb2 as pb
from .v1 import message_pb2, task_pb2

T = TypeVar("T")


@dataclass(frozen=True)
class Streamed(Generic[T]):
    """One call: a method of the stub, its request, and what each response holds for the caller."""

    method: str
    request: Message
    take: Callable[[Any], Iterator[T]]
    repeats: bool = False
    """Whether the call may be made again after something has arrived: its request id has the server know it."""


def chat(
    calls: TaskCalls,
    messages: NewMessages,
    provider: str,
    model: str,
    params: Mapping[str, Any] | None,
    tools: Tools | None,
    request_id: str | None,
) -> Streamed[ChatEvent]:
    """A turn of a model. It always has a request id, so that a second one is the same turn."""
    request = named(pb.ChatRequest)(
        task_uuid=calls.task_uuid,
        messages=[_new(message) for message in _each(messages)],
        provider=number(task_pb2.Provider.DESCRIPTOR, "provider", provider),
        model=model,
        params_json=_params(params),
        tools_json=tools_json(tools),
        request_id=request_id or new_request_id(),
        lease_generation=calls.lease_generation,
    )
    return Streamed("Chat", request, _event)


def request(
    calls: TaskCalls,
    provider: str,
    model: str,
    params: Mapping[str, Any] | None,
    tools: Tools | None,
    max_bytes: int,
) -> Streamed[bytes]:
    """The body of a request to a provider."""
    wanted = named(pb.RenderContextRequest)(
        task_uuid=calls.task_uuid,
        provider=number(task_pb2.Provider.DESCRIPTOR, "provider", provider),
        model=model,
        params_json=_params(params),
        tools_json=tools_json(tools),
        max_bytes=max_bytes,
    )
    return Streamed("RenderContext", wanted, _data)


def _params(params: Mapping[str, Any] | None) -> str:
    return "" if params is None else dump(mapping("params", params), "params")


def _each(messages: NewMessages) -> Iterable[NewMessage | ChatMessage]:
    one = isinstance(messages, (NewMessage, Mapping, str, ChatFields, message_pb2.Message))
    if one or hasattr(messages, "model_dump"):
        return [cast("NewMessage | ChatMessage", messages)]
    if not isinstance(messages, Iterable):
        raise TypeError(f"messages: must be a chat message or several, not {type(messages).__name__}")
    return messages


def _new(message: NewMessage | ChatMessage) -> message_pb2.NewMessage:
    new = message if isinstance(message, NewMessage) else NewMessage(message)
    return new_message(new, new.request_id or "")


def _data(response: pb.RenderContextResponse) -> Iterator[bytes]:
    if response.data:
        yield response.data


def _event(response: pb.ChatResponse) -> Iterator[ChatEvent]:
    """What the caller is told; nothing for an event that only a newer client knows."""
    kind = response.WhichOneof("event")
    if kind == "started":
        started = response.started
        yield ChatStarted(tuple(started.seqs), short_name(started, "provider"), started.model)
    elif kind == "text":
        yield ChatText(response.text)
    elif kind == "reasoning":
        yield ChatReasoning(response.reasoning)
    elif kind == "tool_call":
        piece = response.tool_call
        yield ChatToolCall(piece.index, piece.id, piece.name, piece.arguments)
    elif kind == "usage":
        usage = response.usage
        yield ChatUsage(
            usage.input_tokens, usage.output_tokens, usage.cache_creation_tokens, usage.cache_read_tokens
        )
    elif kind == "done":
        done = response.done
        message = json.loads(done.message_json)
        yield ChatDone(done.seq, message, done.finish_reason, done.pressure, done.duplicate)
