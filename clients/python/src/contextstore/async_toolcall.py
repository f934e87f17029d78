"""A call of a tool that is timed and recorded, for asyncio."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ._toolcall import ToolCallBase
from ._upload import AsyncOutputContent

if TYPE_CHECKING:
    from .async_task import AsyncTask


class AsyncToolCall(ToolCallBase[AsyncOutputContent]):
    """A call of a tool. Made by `AsyncTask.tool`.

        async with task.tool("fetch", arguments={"url": url}, call_id=call["id"]) as fetch:
            fetch.output = await get(url)

    When the block ends, the call is recorded with how long it took and what came of it: `result` (any JSON), or `output`
    (text, bytes or a file of any size, which is kept whole). With a `call_id` the message that answers the model's
    call is appended. An error in the block is recorded and told to the model, and raised unless `suppress` is set.
    """

    def __init__(
        self,
        task: AsyncTask,
        name: str,
        arguments: Any,
        call_id: str,
        message_seq: int | None,
        suppress: bool,
    ) -> None:
        super().__init__(name, arguments, call_id, message_seq, suppress)
        self._task = task

    async def __aenter__(self) -> AsyncToolCall:
        self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._end(error)
        try:
            await self._save()
        except Exception as problem:
            if self._without_result(error, problem):
                with contextlib.suppress(*self._lesser(error)):
                    await self._save()
            if error is None and not self._suppress:
                raise
        return self._is_told(error)

    def _appender(self) -> Any:
        return self._task._appender

    async def _save(self) -> None:
        if self.output is not None:
            self.stored = await self._task.output.put(self.output, **self._put())
            self.seq = self.stored.seq
            return
        # Before anything is recorded: what cannot be sent is refused here.
        message = self._message() if self.call_id else None
        await self._task.record_tool_call(self.name, **self._record())
        if message is not None:
            self.seq = (await self._task.append(message)).seq
