"""What an agent wants done before its task is completed or stopped. No I/O."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

import grpc

from .errors import HookFailed

T = TypeVar("T")

HookErrors: TypeAlias = Literal["continue", "stop"]
"""What a hook that raises does: it is reported and the task ends all the same, or the task goes on."""

_log = logging.getLogger("contextstore")


@dataclass(frozen=True)
class Ending(Generic[T]):
    """What is about to happen to a task."""

    task: T
    status: Literal["completed", "paused", "failed"]
    """What it will be."""
    final_summary: str = ""
    """What is to be remembered of it; empty if the server is to make that."""
    error_message: str = ""
    """Why it failed."""


@dataclass(frozen=True)
class HookFailure:
    """A hook that raised."""

    name: str
    error: Exception


class Hooks(Generic[T]):
    """The hooks of one task, by name, in the order in which the names were first registered."""

    def __init__(self) -> None:
        self._by_status: dict[str, dict[str, Callable[[Ending[T]], object]]] = {}

    def register(self, statuses: tuple[str, ...], name: str, hook: Callable[[Ending[T]], object]) -> None:
        """A second one of the same name takes the place of the first."""
        for status in statuses:
            self._by_status.setdefault(status, {})[name] = hook

    def of(self, status: str) -> Iterator[tuple[str, Callable[[Ending[T]], object]]]:
        """Those that are to be called before a task gets a status."""
        return iter(list(self._by_status.get(status, {}).items()))


def report(uuid: str, status: str, failure: HookFailure, errors: HookErrors) -> None:
    """Says that a hook failed; raises if the task is not to end."""
    name, error = failure.name, failure.error
    _log.error("task %s: the hook %r before %r failed", uuid, name, status, exc_info=error)
    if errors == "stop":
        message = f"the hook {name!r} failed, so the task was not {status}: {error}"
        raise HookFailed(message, code=grpc.StatusCode.ABORTED, metadata={"hook": name}) from error
