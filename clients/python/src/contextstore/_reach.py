"""Says in plain words why a server cannot be reached, from a look at its address. Knows nothing of gRPC's own words."""

from __future__ import annotations

import os
import shlex
import socket

import grpc

from ._address import Address
from .errors import ContextStoreError, Unavailable, Unreachable

_LOOK = 1.0
"""Seconds that a look at the address may take."""


def is_lost(error: ContextStoreError) -> bool:
    """Whether the server has said nothing about the call: the connection could not be made, or broke."""
    return error.code is grpc.StatusCode.UNAVAILABLE and not error.reason


def look(address: Address) -> str | None:
    """Why nothing can be reached at an address; None if something listens there. May take a second, over TCP."""
    try:
        if address.path:
            _connect_unix(address.path)
        else:
            socket.create_connection((address.host, address.port), timeout=_LOOK).close()
    except FileNotFoundError:
        folder = os.path.dirname(os.path.abspath(address.path))
        if not os.path.isdir(folder):
            return f"there is no directory {folder}"
        return f"there is no such socket{_seen_from(address.path)}"
    except ConnectionRefusedError:
        if address.path:
            return "the socket is there, but its server has ended"
        return "nothing listens on that port"
    except PermissionError:
        return "this user may not connect to it: a socket is for the user of its server"
    except socket.gaierror as error:
        return f"the name of the host is not known ({error.strerror})"
    except (TimeoutError, socket.timeout):
        return f"nobody answered within {_LOOK:g} s"
    except OSError as error:
        return error.strerror or str(error)
    return None


def explain(
    address: Address, error: ContextStoreError, problem: str | None, was_there: bool
) -> ContextStoreError:
    """The error of a call that was lost, with what a look at the address has found."""
    if problem is None:
        said = f"the connection to the server at {address.shown} failed: {error.message}"
        lost: Unavailable = Unavailable(said, code=error.code, metadata=error.metadata)
    else:
        lost = Unreachable(
            f"there is no server at {address.shown}: {problem}. "
            + ("" if was_there else _hint(address))
            + "wait_until_ready() waits for a server that is being started",
            code=error.code,
            metadata=error.metadata,
        )
        lost.was_there = was_there
    lost.retry_after = error.retry_after
    lost.__cause__ = error.__cause__
    return lost


def _hint(address: Address) -> str:
    if address.path:
        folder = os.path.dirname(address.path) or "."
        return (
            f"`contextstore serve --data-dir {shlex.quote(folder)}` starts one, contextstore.connect_or_spawn({folder!r}) "
            "uses or starts one, contextstore.spawn() starts a private one; "
        )
    serve = f"`contextstore serve --listen {address.shown}` starts one; " if address.tls is None else ""
    return f"Is the address right, and the server running? {serve}"


def _seen_from(path: str) -> str:
    return "" if os.path.isabs(path) else f" (seen from {os.getcwd()})"


def _connect_unix(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_LOOK)
        probe.connect(path)
