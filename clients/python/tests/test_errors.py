"""Errors: the class follows from what the server says, and nothing that it says can break the client."""

from __future__ import annotations

import grpc
import pytest
from wire import bad_request, error_info, retry_info, status

from contextstore import _details, errors
from contextstore._retry import Attempts, StreamAttempts
from contextstore.v1.error_reason_pb2 import ErrorReason

pytestmark = pytest.mark.quick


def test_every_reason_has_a_class() -> None:
    names = {errors.short_reason(name) for name in ErrorReason.keys()}
    assert set(errors.BY_REASON) == names - {"UNSPECIFIED"}


def test_details_are_read() -> None:
    details = _details.parse(
        status(
            error_info("ERROR_REASON_LEASE_HELD", {"instance_id": "me", "hostname": "hüben"}),
            bad_request({"config.model": "is too long"}),
            retry_info(1, 500_000_000),
        )
    )
    assert (details.reason, details.domain) == ("ERROR_REASON_LEASE_HELD", "contextstore")
    assert details.metadata == {"instance_id": "me", "hostname": "hüben"}
    assert details.fields == {"config.model": "is too long"}
    assert details.retry_after == 1.5


def test_details_that_cannot_be_read_are_left_out() -> None:
    whole = status(error_info("ERROR_REASON_IO", {"action": "reading"}), retry_info(1, 0))
    for length in range(len(whole)):
        _details.parse(whole[:length])
        _details.parse(whole[:length] + b"\xff" * 12)
    assert _details.parse(b"\x0b") == _details.Details()


def transient(
    kind: type[errors.ContextStoreError], code: str, retry_after: float | None = None, reason: str = ""
) -> errors.ContextStoreError:
    return kind("", code=grpc.StatusCode[code], retry_after=retry_after, reason=reason)


def test_what_passes_is_tried_again_until_the_time_is_up() -> None:
    attempts = Attempts(timeout=60)
    unavailable = transient(errors.Unavailable, "UNAVAILABLE")
    pauses = [attempts.pause_after(unavailable, repeatable=True) for _ in range(12)]
    assert 0.025 <= pauses[0] <= 0.05 and 1.0 <= pauses[-1] <= 2.0
    overloaded = transient(errors.Overloaded, "RESOURCE_EXHAUSTED", retry_after=7.0)
    assert attempts.pause_after(overloaded, repeatable=True) == 7.0
    read_only = transient(errors.ReadOnly, "UNAVAILABLE", retry_after=7.0, reason="ERROR_REASON_READ_ONLY")
    assert attempts.pause_after(read_only, repeatable=True) == 7.0
    for error in (
        transient(errors.Overloaded, "RESOURCE_EXHAUSTED", retry_after=61.0),
        transient(errors.QuotaExceeded, "RESOURCE_EXHAUSTED"),
        transient(errors.ReadOnly, "UNAVAILABLE", reason="ERROR_REASON_READ_ONLY"),
        transient(errors.LeaseHeld, "ABORTED", retry_after=1.0),
        transient(errors.DeadlineExceeded, "DEADLINE_EXCEEDED"),
    ):
        with pytest.raises(type(error)):
            attempts.pause_after(error, repeatable=True)
    with pytest.raises(errors.Unavailable):
        Attempts(timeout=60).pause_after(unavailable, repeatable=False)
    with pytest.raises(errors.Unavailable):
        Attempts(timeout=0).pause_after(unavailable, repeatable=True)


def test_a_stream_goes_on_as_long_as_it_moves() -> None:
    cut = transient(errors.DeadlineExceeded, "DEADLINE_EXCEEDED")
    attempts = StreamAttempts(timeout=60)
    attempts.progressed()
    assert attempts.pause_after(cut, idle=False) == 0.0
    assert attempts.pause_after(cut, idle=True) == 0.0
    with pytest.raises(errors.DeadlineExceeded):
        attempts.pause_after(cut, idle=False)
