"""Writes google.rpc messages, so that tests need no package that has them."""

from __future__ import annotations

from google.protobuf import any_pb2


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, value: str | bytes | int) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _packed(kind: str, value: bytes) -> bytes:
    return any_pb2.Any(type_url=f"type.googleapis.com/google.rpc.{kind}", value=value).SerializeToString()


def error_info(reason: str, metadata: dict[str, str]) -> bytes:
    """A google.rpc.ErrorInfo of this service."""
    entries = (_field(3, _field(1, key) + _field(2, value)) for key, value in metadata.items())
    return _packed("ErrorInfo", _field(1, reason) + _field(2, "contextstore") + b"".join(entries))


def bad_request(fields: dict[str, str]) -> bytes:
    """A google.rpc.BadRequest."""
    violations = (_field(1, _field(1, field) + _field(2, problem)) for field, problem in fields.items())
    return _packed("BadRequest", b"".join(violations))


def retry_info(seconds: int, nanos: int) -> bytes:
    """A google.rpc.RetryInfo."""
    return _packed("RetryInfo", _field(1, _field(1, seconds) + _field(2, nanos)))


def status(*details: bytes) -> bytes:
    """A google.rpc.Status, as it comes with an error."""
    return _field(1, 14) + _field(2, "words") + b"".join(_field(3, detail) for detail in details)
