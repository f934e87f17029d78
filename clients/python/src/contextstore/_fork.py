"""What a process that was forked has from its parent, and must leave to it: connections, leases, messages on their way.

Only the thread that forks lives on in the child. grpcio works there if no other thread was calling a server at that moment, so
a fork waits for such calls, for a moment.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from abc import ABC, abstractmethod

import grpc

from .errors import ForkUnsafe

_PATIENCE = 1.0
"""Seconds that a fork waits for calls of other threads."""


class Forkable(ABC):
    """Something that is otherwise in a forked child."""

    def _before_fork(self, end: float) -> bool:
        """Begins no call from now on; whether none is under way, which it waits for until the time `end`."""
        return True

    def _is_connected(self) -> bool:
        """Whether calls can be under way; it takes no lock, which a thread of the parent may hold."""
        return False

    def _after_fork_in_parent(self) -> None:
        """Goes on."""
        return None

    @abstractmethod
    def _after_fork_in_child(self) -> None:
        """Leaves to the parent what is the parent's."""


class _State:
    """What this process knows about the forks that led to it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.known: weakref.WeakSet[Forkable] = weakref.WeakSet()
        self.forking: list[Forkable] | None = None
        """What has been told of the fork that is under way. C code may fork without telling: then there is none, even in the
        child."""
        self.quiet = True
        self.safe = True
        self.of_parent: list[object] = []


_state = _State()


def register(known: Forkable) -> None:
    """Has it called around each fork, for as long as it lives."""
    with _state.lock:
        _state.known.add(known)


def leave(thing: object) -> None:
    """Keeps something of the parent from being closed in this process: that would close it for the parent, too."""
    _state.of_parent.append(thing)


def require_safe() -> None:
    """Raises ForkUnsafe in a child whose parent was in the middle of a call, as grpcio can crash there."""
    if not _state.safe:
        raise ForkUnsafe(
            "this process was forked while another thread of its parent, or an AsyncClient, was connected and at work, and "
            "grpcio does not work in such a child: fork before the first call, or start the process with "
            'multiprocessing.get_context("spawn")',
            code=grpc.StatusCode.FAILED_PRECONDITION,
        )


def _before() -> None:
    _state.lock.acquire()
    end = time.monotonic() + _PATIENCE
    _state.forking = list(_state.known)
    _state.quiet = all([known._before_fork(end) for known in _state.forking])


def _after_in_parent() -> None:
    forking, _state.forking = _state.forking, None
    if forking is None:
        return
    for known in forking:
        known._after_fork_in_parent()
    _state.lock.release()


def _after_in_child() -> None:
    forking, _state.forking = _state.forking, None
    # Threads of the parent may have waited for the old one, or held it.
    _state.lock = threading.RLock()
    known_here = list(_state.known)
    # Without a word before the fork, nobody has waited for the calls.
    quiet = _state.quiet if forking is not None else not any(known._is_connected() for known in known_here)
    _state.safe = _state.safe and quiet
    for known in known_here:
        known._after_fork_in_child()


os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
