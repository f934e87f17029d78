"""Values as they are sent: ids, JSON, messages, keys; and what was masked, as it is told. No I/O."""

from __future__ import annotations

import json
import math
import os
import time
import uuid
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, Union

from google.protobuf.message import Message

from ._enums import number
from ._fields import items, named
from .types import ChatMessage, NewMessage, TaskKey, Tools
from .types import Message as ChatFields
from .v1 import message_pb2

Key: TypeAlias = Union[TaskKey, Mapping[str, str], str]
"""A key as callers give it; a string is a `task_id`."""
M = TypeVar("M", bound=Message)
_NOTHING_MASKED: Mapping[str, int] = MappingProxyType({})


def new_request_id() -> str:
    """A name for a call."""
    return os.urandom(16).hex()


def new_task_uuid() -> str:
    """A UUIDv7, as the server makes them: ids rise with time."""
    value = time.time_ns() // 1_000_000 << 80 | 7 << 76 | 2 << 62
    value |= int.from_bytes(os.urandom(10), "big") & ((0xFFF << 64) | ((1 << 62) - 1))
    return str(uuid.UUID(int=value))


# Made once: it is a good part of what an append costs on this side.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def dump(value: Any, name: str = "value") -> str:
    """JSON as short as it can be. What has no form in JSON, as NaN, is refused with its place in the value."""
    try:
        return well_formed(_ENCODER.encode(value))
    except (TypeError, ValueError) as problem:
        kind = TypeError if isinstance(problem, TypeError) else ValueError
        raise kind(_culprit(value, name, ()) or f"{name}: {problem}") from None


def _culprit(value: Any, path: str, around: tuple[int, ...]) -> str | None:
    """Finds the first part of a value that has no form in JSON; says what is wrong with it."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{path} must be a finite number, not {value!r}: JSON has no NaN and no infinities"
    if value is None or isinstance(value, (str, int, float)):
        return None
    if id(value) in around:
        return f"{path} contains itself"
    parts: Iterable[tuple[str, Any]]
    if isinstance(value, dict):
        for key in value:
            if not (key is None or isinstance(key, (str, int, float))):
                return f"{path} has a key of the type {type(key).__name__}: the keys of JSON are text"
        parts = ((f"{path}.{key}", part) for key, part in value.items())
    elif isinstance(value, (list, tuple)):
        parts = ((f"{path}[{index}]", part) for index, part in enumerate(value))
    else:
        return f"{path}: {type(value).__name__} has no form in JSON"
    found = (_culprit(part, where, (*around, id(value))) for where, part in parts)
    return next((problem for problem in found if problem), None)


def well_formed(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, which UTF-8 cannot hold; the two halves of a pair become one."""
    try:
        if isinstance(text, str) and not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def new_message(new: NewMessage, request_id: str) -> message_pb2.NewMessage:
    """Returns a message and how it is to be appended, as it is sent."""
    return named(message_pb2.NewMessage)(
        **_body(new.message), pinned=new.pinned, output_ref=new.output_ref, request_id=request_id
    )


def _body(message: ChatMessage) -> dict[str, Any]:
    """Returns a chat message as it is sent: the field of a NewMessage, and its value."""
    if isinstance(message, str):
        return {"json": well_formed(message)}
    if isinstance(message, Mapping):
        return {"json": dump(message if isinstance(message, dict) else dict(message), "message")}
    if isinstance(message, message_pb2.Message):
        return {"fields": message}
    if isinstance(message, ChatFields):
        calls = [
            built(message_pb2.ToolCall, vars(call), f"message.tool_calls[{index}].")
            for index, call in enumerate(message.tool_calls)
        ]
        return {"fields": built(message_pb2.Message, {**vars(message), "tool_calls": calls}, "message.")}
    if hasattr(message, "model_dump"):
        return {"json": dump(message.model_dump(mode="json", exclude_none=True), "message")}
    raise TypeError(
        f"message: an OpenAI chat message as a mapping, as JSON or as a Message, not {type(message).__name__}"
    )


def built(kind: type[M], given: Mapping[str, Any], path: str = "") -> M:
    """A message of these fields. What does not fit is told by its name; protobuf would tell the value alone."""
    message = kind()
    known: Any = kind.DESCRIPTOR.fields_by_name
    for name, value in given.items():
        where = f"{path}{name}"
        if name not in known:
            raise ValueError(f"there is no {where!r}; {kind.DESCRIPTOR.name} has {', '.join(known)}")
        if known[name].enum_type is not None and value is not None:
            value = number(known[name].enum_type, where, value)
        present = getattr(message, name)
        if isinstance(present, Message) and isinstance(value, Mapping):
            value = built(type(present), value, f"{where}.")
        # Protobuf would take it for a list of its characters.
        if isinstance(value, str) and not isinstance(present, (str, bytes, int, float, Message)):
            raise TypeError(f"{where} must be a list, not a str")
        try:
            message.MergeFrom(kind(**{name: value}))
        except (TypeError, ValueError) as problem:
            raise type(problem)(f"{where} = {value!r}: {problem}") from None
    return message


def part(kind: type[M], given: M | Mapping[str, Any] | None) -> M | None:
    """A message that may be given as a mapping, or not at all."""
    return built(kind, given) if isinstance(given, Mapping) else given


def tools_json(tools: Tools | None) -> str:
    """Tools as they are sent."""
    return "" if tools is None else dump(items("tools", tools), "tools")


def masked(told: Iterable[message_pb2.MaskedSecrets]) -> Mapping[str, int]:
    """How often each rule has masked something."""
    return {each.rule: each.count for each in told} or _NOTHING_MASKED


def as_uuid(text: str) -> str | None:
    """The text, if it is a UUID in the usual form."""
    try:
        return text if len(text) == 36 and str(uuid.UUID(text)) == text.lower() else None
    except ValueError:
        return None


def task_key(key: Key | None) -> TaskKey | None:
    if isinstance(key, str):
        return TaskKey(task_id=key)
    if key is None or isinstance(key, TaskKey):
        return key
    if not isinstance(key, Mapping):
        raise TypeError(f"key: must be a str, a mapping or a TaskKey, not {type(key).__name__}")
    parts: Mapping[str, object] = key
    names = TaskKey.DESCRIPTOR.fields_by_name
    for name, value in parts.items():
        if name not in names:
            raise ValueError(f"a key has no {name!r}; it has {', '.join(names)}")
        if not isinstance(value, str):
            raise TypeError(f"key[{name!r}] must be a str, not {type(value).__name__}")
    return TaskKey(**key)


def require_key(key: Key) -> None:
    """Refuses what is no key: without one, a task could not be found again."""
    if task_key(key) is None:
        raise TypeError(
            "key: must be a str, a mapping or a TaskKey, not None; start_task() makes a task without a key"
        )
