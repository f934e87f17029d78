"""A task of an AsyncClient on its way: to be awaited, or entered at once."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec

from ._frames import shown

if TYPE_CHECKING:
    from .async_task import AsyncTask

P = ParamSpec("P")


class Opening(Awaitable["AsyncTask"]):
    """What `task`, `start_task`, `resume_task` and `fork_task` of an AsyncClient answer.

    task = await client.start_task()
    async with client.start_task() as task: ...
    """

    def __init__(self, made: Coroutine[Any, Any, AsyncTask]) -> None:
        self._made = made
        self._task: AsyncTask | None = None

    def __await__(self) -> Generator[Any, None, AsyncTask]:
        return self._made.__await__()

    async def __aenter__(self) -> AsyncTask:
        self._task = await self._made
        return await self._task.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._task is not None:
            await self._task.__aexit__(kind, error, traceback)


def opening(method: Callable[P, Coroutine[Any, Any, AsyncTask]]) -> Callable[P, Opening]:
    """A coroutine function of a task whose answer can also be entered."""

    made = shown(method)

    def called(*args: P.args, **kwargs: P.kwargs) -> Opening:
        return Opening(made(*args, **kwargs))

    return functools.update_wrapper(called, method)
