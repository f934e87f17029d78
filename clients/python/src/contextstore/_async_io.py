"""What AsyncClient and its tasks do in words of asyncio; `_io` has the same for threads."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import grpc

from . import _reach
from ._address import Address
from ._async_stream import lost_status
from ._retry import Attempts
from ._upload import Upload
from .errors import ContextStoreError, DeadlineExceeded, Unavailable
from .types import ChatMessage, NewMessage

if TYPE_CHECKING:
    from .async_client import AsyncClient

Messages: TypeAlias = Iterable[NewMessage | ChatMessage] | AsyncIterable[NewMessage | ChatMessage]
"""What `append_many` takes."""


_TICK = 0.05
"""Seconds that grpcio's clock may be off by."""


async def each(messages: Messages) -> AsyncGenerator[NewMessage | ChatMessage, None]:
    """Yields the messages one by one."""
    if isinstance(messages, AsyncIterable):
        async for message in messages:
            yield message
    else:
        for message in messages:
            yield message


async def pause(_: AsyncClient, seconds: float) -> None:
    """Waits before a call is repeated."""
    await asyncio.sleep(seconds)


async def look(address: Address) -> str | None:
    """Returns why nobody answers at an address. A look over the network may take a moment."""
    return _reach.look(address) if address.path else await asyncio.to_thread(_reach.look, address)


def upload_error(error: ContextStoreError, upload: Upload, attempts: Attempts) -> ContextStoreError:
    """Returns what an upload failed with: an answer that grpcio has lost may be asked for again while there is time."""
    if not lost_status(error):
        return error
    if attempts.remaining() < _TICK:
        return DeadlineExceeded("the server has not answered in time", code=grpc.StatusCode.DEADLINE_EXCEEDED)
    if upload.ask_again():
        return Unavailable(error.message, code=grpc.StatusCode.UNAVAILABLE)
    return error


def check_hook(_: Callable[..., object]) -> None:
    """Takes any hook."""


async def call_hook(hook: Callable[[Any], object], ending: Any) -> None:
    """Calls a hook, and awaits what it returns if it can be awaited."""
    answer = hook(ending)
    if inspect.isawaitable(answer):
        await answer
