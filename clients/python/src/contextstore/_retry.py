"""When a failed call is tried again, and after how long."""

from __future__ import annotations

import random
import time

import grpc

from ._fields import seconds
from .errors import ContextStoreError, LeaseHeld, Stalled, Unreachable

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0


def passes(error: ContextStoreError) -> bool:
    """Whether the same call may succeed soon: the server cannot be reached, or says after how long it can do it.

    A task that somebody else works on may take any time, so whether to wait for it is the caller's to decide.
    """
    if error.code is grpc.StatusCode.UNAVAILABLE and not error.reason:
        return not isinstance(error, Unreachable) or error.was_there
    return error.retry_after is not None and not isinstance(error, LeaseHeld)


class Attempts:
    """The tries of one call. `timeout` is for all of them together."""

    def __init__(self, timeout: float) -> None:
        self._end = time.monotonic() + seconds("timeout", timeout)
        self.failures = 0

    def remaining(self) -> float:
        """Seconds until it is given up."""
        return max(0.0, self._end - time.monotonic())

    def pause_after(self, error: ContextStoreError, *, repeatable: bool) -> float:
        """Seconds to wait before the next try; raises the error if there is to be none."""
        longest: float = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(self.failures, 10))
        pause = max(longest * random.uniform(0.5, 1.0), error.retry_after or 0.0)
        self.failures += 1
        error.tries = self.failures
        if not repeatable or not passes(error) or pause >= self.remaining():
            raise error
        return pause


class StreamAttempts:
    """The tries of a stream that can go on where it was cut off. `timeout` is for failing without a break."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._failing: Attempts | None = None
        self._moved = False

    def progressed(self) -> None:
        """Something arrived."""
        self._failing = None
        self._moved = True

    def pause_after(self, error: ContextStoreError, *, idle: bool) -> float:
        """Seconds to wait before the stream is opened again; raises the error if it is not to be.

        A stream whose own deadline passed, or that was read too slowly, just goes on, unless it stands still; one
        that is `idle` may stand still.
        """
        moved, self._moved = self._moved, False
        cut = error.code is grpc.StatusCode.DEADLINE_EXCEEDED or isinstance(error, Stalled)
        if cut and (moved or idle):
            return 0.0
        self._failing = self._failing or Attempts(self._timeout)
        return self._failing.pause_after(error, repeatable=True)
