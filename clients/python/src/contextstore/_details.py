"""Reads `grpc-status-details-bin`: the google.rpc messages that come with an error.

Parsed by hand: the package with these messages would narrow the versions of grpcio that the client runs under,
and a copy of them could clash with that package in protobuf's one pool of names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

_TYPES = "type.googleapis.com/google.rpc."


@dataclass
class Details:
    """What an error says besides its code and its words."""

    reason: str = ""
    domain: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)
    retry_after: float | None = None


def parse(status: bytes) -> Details:
    """Reads a google.rpc.Status. What cannot be read is left out: the gRPC code is always there to go by."""
    details = Details()
    try:
        for packed in _all(status, 3):
            kind = _text(packed, 1).removeprefix(_TYPES)
            for value in _all(packed, 2):
                _take(details, kind, value)
    except (IndexError, ValueError):
        pass
    return details


def _take(details: Details, kind: str, value: bytes) -> None:
    if kind == "ErrorInfo":
        details.reason, details.domain = _text(value, 1), _text(value, 2)
        details.metadata.update((_text(entry, 1), _text(entry, 2)) for entry in _all(value, 3))
    elif kind == "BadRequest":
        details.fields.update((_text(bad, 1), _text(bad, 2)) for bad in _all(value, 1))
    elif kind == "RetryInfo":
        for delay in _all(value, 1):
            details.retry_after = max(0.0, _number(delay, 1) + _number(delay, 2) / 1e9)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of an encoded message: number, and the bytes or the number that it holds."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        wire = tag & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        if wire == 2:
            size, at = _varint(message, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if at + size > len(message):
            raise ValueError("cut off")
        yield tag >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
    raise ValueError("a number of more than ten bytes")


def _all(message: bytes, number: int) -> Iterator[bytes]:
    return (value for at, value in _fields(message) if at == number and isinstance(value, bytes))


def _text(message: bytes, number: int) -> str:
    return b"".join(_all(message, number)).decode("utf-8", "replace")


def _number(message: bytes, number: int) -> int:
    value = next((value for at, value in _fields(message) if at == number and isinstance(value, int)), 0)
    return value - (1 << 64) if value >> 63 else value
