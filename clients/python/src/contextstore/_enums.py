"""The short names of enum values: `running` stands for TASK_STATUS_RUNNING. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.message import Message


@cache
def numbers(enum: EnumDescriptor) -> dict[str, int]:
    """Returns the values of an enum by their short names; the value 0, which stands for nothing, has none."""
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    return {value.name.removeprefix(prefix).lower(): value.number for value in enum.values if value.number}


def number(enum: EnumDescriptor, name: str, value: object) -> Any:
    """Returns the number of a value, which is a short name, a number of the enum, or empty: that is the value 0.

    `name` is the field that an error names.
    """
    known = numbers(enum)
    if isinstance(value, str):
        found = known.get(value) if value else 0
    elif isinstance(value, int) and not isinstance(value, bool):
        found = value if value in enum.values_by_number else None
    else:
        raise TypeError(f"{name}: must be {_one_of(known)}, not {type(value).__name__} {value!r}")
    if found is None:
        raise ValueError(f"{name}: must be {_one_of(known)}, not {value!r}")
    return found


def many(enum: EnumDescriptor, name: str, values: Iterable[object] | str) -> list[Any]:
    """Returns the numbers of several values; a string is one."""
    if isinstance(values, (bytes, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"{name}: must be a list of names, not {type(values).__name__}")
    return [number(enum, name, value) for value in ([values] if isinstance(values, str) else values)]


def short_name(message: Message, field: str) -> str:
    """Returns the short name of the value that an enum field of a message has: `short_name(info, "status") == "running"`.

    It is empty if the field is not set. A value that only a newer server knows is its number, as text.
    """
    described: Any = message.DESCRIPTOR.fields_by_name.get(field)
    if described is None or described.enum_type is None:
        raise ValueError(f"field: {message.DESCRIPTOR.name} has no enum {field!r}")
    value = getattr(message, field)
    known = numbers(described.enum_type)
    return next((name for name in known if known[name] == value), str(value) if value else "")


def _one_of(known: dict[str, int]) -> str:
    return "one of " + ", ".join(map(repr, known))
