"""Messages that were appended without waiting, at the end: of a client, of the interpreter, and in a forked child."""

from __future__ import annotations

import atexit
import os
import threading
import time
import warnings
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Union

from .errors import ContextStoreError

if TYPE_CHECKING:
    from ._async_stream import AsyncAppender
    from ._stream import Appender

    Either = Union[Appender, AsyncAppender]

_known: weakref.WeakSet[Either] = weakref.WeakSet()
_unsaved: set[Either] = set()
"""Those that have messages that are not saved: held, whoever forgets the task."""


class UnsavedWarning(RuntimeWarning):
    """Messages that were appended with `wait=False` are not saved, and there is nobody whom an error could reach."""


def know(appender: Either) -> None:
    """An appender was made."""
    _known.add(appender)


def add(appender: Either) -> None:
    """An appender has messages that are not saved."""
    _unsaved.add(appender)


def drop(appender: Either) -> None:
    """An appender has no more messages that are not saved."""
    _unsaved.discard(appender)


def of(client: object) -> list[Either]:
    """Returns the appenders of a client that have messages that are not saved, or have just saved them."""
    return [appender for appender in list(_unsaved) if appender.client is client]


def warn(appender: Either, count: int, why: object) -> None:
    """Reports lost messages where no error can be raised."""
    message = f"{count} messages that were appended to task {appender.task_uuid} with wait=False are not saved: {why}"
    warnings.warn(UnsavedWarning(message), stacklevel=2)


def warn_if_lost(appender: Either, error: ContextStoreError) -> None:
    """Reports the messages of an error that is not raised, as another one is."""
    if error.not_appended:
        warn(appender, len(error.not_appended), error)


def report(lost: list[tuple[Either, ContextStoreError]], *, may_raise: bool) -> None:
    """Raises the first error, which has the messages of its task; warns of what else was lost."""
    first = lost.pop(0) if lost and may_raise else None
    for appender, error in lost:
        warn(appender, len(error.not_appended), error)
    if first is not None:
        appender, error = first
        error.message = (
            f"task {appender.task_uuid}: {len(error.not_appended)} messages are not saved: {error.message}"
        )
        raise error


def flush(appenders: Iterable[Appender]) -> list[tuple[Either, ContextStoreError]]:
    """Waits until all is saved, as long as their clients allow for all of them together; returns what is not."""
    start = time.monotonic()
    lost: list[tuple[Either, ContextStoreError]] = []
    try:
        for appender in appenders:
            try:
                appender.flush(max(0.0, start + appender.client.flush_timeout - time.monotonic()))
            except ContextStoreError as error:
                lost.append((appender, error))
    except BaseException:
        # Ctrl-C, with errors in hand that are not raised any more.
        report(lost, may_raise=False)
        raise
    return lost


def _at_exit() -> None:
    from ._stream import Appender

    unsaved = list(_unsaved)
    try:
        lost = flush(appender for appender in unsaved if isinstance(appender, Appender))
        report(lost, may_raise=False)
    finally:
        # What is left of threads was interrupted, by Ctrl-C. The event loops of the others are gone.
        for appender in unsaved:
            if count := appender.unsaved:
                appender.discard()
                drop(appender)
                warn(appender, count, appender.END)


def _in_child() -> None:
    for appender in list(_known):
        appender.forget()
    _unsaved.clear()


# Before the interpreter waits for threads, while it still starts some; and after that, for what those have appended.
getattr(threading, "_register_atexit", atexit.register)(_at_exit)
atexit.register(_at_exit)
os.register_at_fork(after_in_child=_in_child)
