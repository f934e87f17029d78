"""What Client and its tasks do in words of threads; `_async_io` has the same for asyncio."""

from __future__ import annotations

import contextlib
import inspect
import time
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import grpc

from . import _reach
from ._address import Address
from ._channel import HEALTH_CHECK_REQUEST
from ._retry import Attempts
from ._upload import Upload
from .errors import ContextStoreError
from .types import ChatMessage, NewMessage

if TYPE_CHECKING:
    from .client import Client

Messages: TypeAlias = Iterable[NewMessage | ChatMessage]
"""What `append_many` takes."""


def each(messages: Messages) -> Generator[NewMessage | ChatMessage, None, None]:
    """Yields the messages one by one. The caller's generator stays open when this one is closed."""
    for message in messages:
        yield message


def pause(client: Client, seconds: float) -> None:
    """Waits before a call is repeated, and lets the channel connect meanwhile: older versions of grpcio do that only for
    as long as a call waits for it, and else every five seconds."""
    end = time.monotonic() + seconds
    with contextlib.suppress(grpc.RpcError):
        client._health(HEALTH_CHECK_REQUEST, timeout=seconds, wait_for_ready=True)
    time.sleep(max(0.0, end - time.monotonic()))


def look(address: Address) -> str | None:
    """Returns why nobody answers at an address."""
    return _reach.look(address)


def upload_error(error: ContextStoreError, _: Upload, __: Attempts) -> ContextStoreError:
    """Returns what an upload failed with."""
    return error


def check_hook(hook: Callable[..., object]) -> None:
    """Raises TypeError for a coroutine function."""
    if inspect.iscoroutinefunction(hook):
        raise TypeError("the hook is a coroutine function, which only an AsyncTask can await")


def call_hook(hook: Callable[[Any], object], ending: Any) -> None:
    """Calls a hook."""
    hook(ending)
