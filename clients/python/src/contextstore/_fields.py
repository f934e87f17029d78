"""Checks values that callers give: an error names the field, and says what is allowed. No I/O."""

from __future__ import annotations


def seconds(name: str, value: float) -> float:
    """A time that a call may take."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{name}: must be a number of seconds, not {type(value).__name__}")
    if not value >= 0:
        raise ValueError(f"{name}: must be a number of seconds from 0, not {value!r}")
    return value
