"""What a task of an AsyncClient is made of: how its calls are made, its lease, its hooks, and how it ends."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from . import _unsaved
from ._async_io import call_hook, check_hook
from ._async_stream import AsyncAppender
from ._base import TaskBase, ended_by
from ._calls import Call
from ._chat import Streamed
from ._cursors import Cursor
from ._hooks import Ending, HookFailure, Hooks, report
from .errors import ContextStoreError
from .types import Appended, TaskConfig, TaskInfo

if TYPE_CHECKING:
    from typing_extensions import Self

    from .async_client import AsyncClient
    from .async_task import AsyncTask

T = TypeVar("T")

Hook: TypeAlias = "Callable[[Ending[AsyncTask]], object]"
"""Called before a task ends; it may answer something to await."""


class AsyncTaskLife(TaskBase):
    """A task and this client's lease of it: its beginning and its end."""

    def __init__(
        self, client: AsyncClient, info: TaskInfo, lease_generation: int, lease_ttl: timedelta | None
    ) -> None:
        super().__init__(info, lease_generation, lease_ttl)
        self._hooks: Hooks[AsyncTask] = Hooks()
        self._appender = AsyncAppender(client, info.uuid)
        self.client = client
        """The client it belongs to."""
        self._keep_lease()

    def _keep_lease(self) -> None:
        if self.client._renew_leases and self.lease_generation:
            self.client._renewer.add(self)

    # Calls, each behind what was appended without waiting

    async def _run(self, call: Call[T], timeout: float | None) -> T:
        await self.flush()
        return await self.client._run(call, timeout)

    async def _read(self, cursor: Cursor[T]) -> AsyncGenerator[T, None]:
        await self.flush()
        async with contextlib.aclosing(self.client._read(cursor)) as items:
            async for item in items:
                yield item

    async def _stream(self, streamed: Streamed[T], timeout: float | None) -> AsyncGenerator[T, None]:
        await self.flush()
        async with contextlib.aclosing(self.client._stream(streamed, timeout)) as items:
            async for item in items:
                yield item

    async def flush(self) -> Appended | None:
        """Waits until everything that was appended with `wait=False` is on disk; answers the last of it, if no call has
        waited for it before.

        Every other call of the task does this first. What failed is raised by the first call that waits, and here:
        `not_appended` of the error has the messages that are not on disk, to be appended again as they are. `index` counts from
        the first message behind the last flush. A call that is interrupted while it waits takes nothing back: the messages
        are sent all the same.
        """
        return await self._appender.flush()

    # Its life

    async def update(
        self, config: TaskConfig | Mapping[str, Any], *, timeout: float | None = None
    ) -> TaskInfo:
        """Replaces the configuration as a whole."""
        return self._now(await self._run(self._calls.update(config), timeout))

    async def renew_lease(self, *, timeout: float | None = None) -> timedelta:
        """Keeps the lease alive; answers for how long. The client does it by itself, unless `renew_leases` is false."""
        return await self.client._run(self._calls.renew_lease(), timeout)

    # Hooks

    def on_complete(self, name: str, hook: Hook) -> None:
        """Has a hook called before the task is completed, behind those that were registered before it.

        It is called with an Ending by `complete` of this object, in the agent's own process. One of the same name takes
        the place of the first. `hook_errors` says what an error does. If `complete` has to be called again, so are they. What it answers is awaited, if it can be.
        """
        check_hook(hook)
        self._hooks.register(("completed",), name, hook)

    def on_stop(self, name: str, hook: Hook) -> None:
        """The same before the task is paused or failed."""
        check_hook(hook)
        self._hooks.register(("paused", "failed"), name, hook)

    async def _before(self, ending: Ending[AsyncTask]) -> None:
        await self.flush()
        self.hook_failures = []
        for name, hook in self._hooks.of(ending.status):
            try:
                await call_hook(hook, ending)
            except Exception as error:
                self.hook_failures.append(HookFailure(name, error))
                report(self.uuid, ending.status, self.hook_failures[-1], self.hook_errors)

    # Its end

    async def pause(self, *, timeout: float | None = None) -> TaskInfo:
        """Puts the task aside; the lease ends."""
        await self._before(Ending(cast("AsyncTask", self), "paused"))
        return self._without_lease(await self._run(self._calls.pause(), timeout))

    async def resume(self, *, timeout: float | None = None) -> TaskInfo:
        """Goes on with the task after a pause, under a new lease; StaleLease if somebody else did meanwhile."""
        resumed = await self.client.resume_task(self.uuid, lease_generation=self._had, timeout=timeout)
        info = self._with_lease_of(resumed)
        self._keep_lease()
        return info

    async def complete(self, final_summary: str = "", *, timeout: float | None = None) -> TaskInfo:
        """Ends the task well. `final_summary` is what is to be remembered of it; without one, the server makes it."""
        await self._before(Ending(cast("AsyncTask", self), "completed", final_summary))
        return self._without_lease(await self._run(self._calls.complete(final_summary), timeout))

    async def fail(
        self, error_message: str, *, final_summary: str = "", timeout: float | None = None
    ) -> TaskInfo:
        """Ends the task badly."""
        await self._before(Ending(cast("AsyncTask", self), "failed", final_summary, error_message))
        return self._without_lease(await self._run(self._calls.fail(error_message, final_summary), timeout))

    async def delete(self, *, timeout: float | None = None) -> None:
        """Removes the task with everything in it. Cannot be undone."""
        await self._run(self._calls.delete(), timeout)
        self._gone()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends the task as the block ended: completed, failed with the error, or paused if the program was told to end.

        A block that has paused or ended the task itself is left alone.
        """
        if not self._is_ours:
            return
        if error is None:
            await self.complete()
            return
        # What went wrong in the block is what the caller has to hear.
        for step in (self.flush, lambda: self._stop(error)):
            try:
                await step()
            except ContextStoreError as lesser:
                _unsaved.warn_if_lost(self._appender, lesser)

    async def _stop(self, error: BaseException) -> None:
        if (message := ended_by(error)) is None:
            await self.pause()
        else:
            await self.fail(message)
