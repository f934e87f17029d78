"""Checks values that callers give: an error names the field, and says what is allowed. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, ParamSpec, TypeVar, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

M = TypeVar("M", bound=Message)
P = ParamSpec("P")

_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_KINDS = {
    FieldDescriptor.CPPTYPE_STRING: "a str",
    FieldDescriptor.CPPTYPE_BOOL: "a bool",
    FieldDescriptor.CPPTYPE_DOUBLE: "a number",
    FieldDescriptor.CPPTYPE_FLOAT: "a number",
}
_LONGEST = 315_576_000_000
"""The longest Duration of protobuf, in seconds."""
# What callers know by another name than the protocol does.
_NAMES = {
    "ref_id": "ref",
    "params_json": "params",
    "arguments_json": "arguments",
}


def seconds(name: str, value: float) -> float:
    """A time that a call may take."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{name}: must be a number of seconds, not {type(value).__name__}")
    if not value >= 0:
        raise ValueError(f"{name}: must be a number of seconds from 0, not {value!r}")
    return value


def path(name: str, value: object) -> None:
    """Refuses what is no path of a file."""
    if not isinstance(value, (str, bytes)) and not hasattr(value, "__fspath__") or isinstance(value, bytes):
        raise TypeError(f"{name}: must be a path, not {type(value).__name__}")
    if "\0" in str(value):
        raise ValueError(f"{name}: a path has no zero bytes: {value!r}")


def moment(name: str, value: datetime) -> datetime:
    """A point in time."""
    if not isinstance(value, datetime):
        raise TypeError(f"{name}: must be a datetime, not {type(value).__name__}")
    return value


def duration(name: str, value: timedelta | float | None) -> Duration | None:
    """Returns a length of time, which is a timedelta or a number of seconds, as it is sent."""
    if value is None:
        return None
    length = value.total_seconds() if isinstance(value, timedelta) else value
    if not isinstance(length, (int, float)) or isinstance(length, bool):
        raise TypeError(f"{name}: must be a timedelta or a number of seconds, not {type(value).__name__}")
    if not 0 <= length <= _LONGEST:
        raise ValueError(f"{name}: must be a length of time from 0 to {_LONGEST} seconds, not {value!r}")
    sent = Duration()
    sent.FromTimedelta(timedelta(seconds=length))
    return sent


def mapping(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Fields by their names."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name}: must be a mapping, not {type(value).__name__}")
    return dict(value)


def items(name: str, value: Iterable[Any]) -> list[Any]:
    """Several values; not the letters of a text."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"{name}: must be a list, not {type(value).__name__}")
    return list(value)


_MADE: dict[Any, Callable[..., Any]] = {}


def named(kind: Callable[P, M]) -> Callable[P, M]:
    """A kind of message as a function that makes one. What does not fit is told by its field; protobuf tells the value alone."""

    if (made := _MADE.get(kind)) is None:
        made = _MADE[kind] = _maker(kind)
    return cast("Callable[P, M]", made)


def _maker(kind: Any) -> Callable[..., Any]:
    fields = kind.DESCRIPTOR.fields_by_name

    def make(**kwargs: Any) -> Any:
        for name, value in kwargs.items():
            # Protobuf takes None for what is left out, also where nothing can be.
            if value is None and not fields[name].has_presence:
                raise _refused(kind, name, value, TypeError())
        try:
            return kind(**kwargs)
        except (TypeError, ValueError):
            for name, value in kwargs.items():
                try:
                    # The field alone.
                    kind(**{name: value})
                except (TypeError, ValueError) as problem:
                    raise _refused(kind, name, value, problem) from None
            raise

    return make


def _refused(kind: Any, name: str, value: Any, problem: Exception) -> Exception:
    field = kind.DESCRIPTOR.fields_by_name.get(name)
    shown = _NAMES.get(name, name)
    if field is None:
        return type(problem)(f"{shown}: {problem}")
    wanted, got = _wanted(field), f"{type(value).__name__} {value!r}"
    if value is None or field.cpp_type in _INTEGERS and isinstance(value, int):
        got = repr(value)
    return (TypeError if isinstance(problem, TypeError) else ValueError)(
        f"{shown}: must be {wanted}, not {got[:200]}"
    )


def _wanted(field: Any) -> str:
    if field.cpp_type in _INTEGERS:
        low, high = _INTEGERS[field.cpp_type]
        one = f"an int from {low} to {high}"
    elif field.message_type is not None:
        one = f"a {field.message_type.name} or a mapping of its fields"
    else:
        one = _KINDS.get(field.cpp_type, "another value")
    is_many = getattr(field, "is_repeated", None)
    many = field.label == FieldDescriptor.LABEL_REPEATED if is_many is None else is_many
    return f"a list, each of it {one}" if many else one
