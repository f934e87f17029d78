"""How a cell is measured, and what is appended."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

_SENTENCE = "The agent reads the file, runs the tests and looks at what failed.\n"
MESSAGE = {"role": "user", "content": (_SENTENCE * 20)[:1024]}


def rate(count: int, seconds: float, times: list[float]) -> dict[str, Any]:
    """What a cell answers: calls a second, and the median of their times in microseconds."""
    return {"per_second": count / seconds, "p50": statistics.median(times) * 1e6 if times else None}


def repeat(call: Callable[[], object], seconds: float) -> dict[str, Any]:
    """One after the other, for so many seconds."""
    times = _loop(call, seconds)
    return rate(len(times), sum(times), times)


def _loop(call: Callable[[], object], seconds: float) -> list[float]:
    times = []
    now = time.perf_counter()
    end = now + seconds
    while now < end:
        call()
        then, now = now, time.perf_counter()
        times.append(now - then)
    return times


def at_once(calls: list[Callable[[], object]], seconds: float) -> dict[str, Any]:
    """Each in a thread of its own."""
    times: list[float] = []
    start = threading.Barrier(len(calls) + 1)

    def run(call: Callable[[], object]) -> None:
        start.wait()
        times.extend(_loop(call, seconds))

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    start.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return rate(len(times), time.perf_counter() - began, times)
