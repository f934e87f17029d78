"""A call of a tool that is timed and recorded, for threads and for asyncio."""

from __future__ import annotations

import contextlib
import logging
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from . import _unsaved
from ._base import ended_by
from ._outputs import StoredOutput
from ._upload import AsyncOutputContent, OutputContent
from ._values import dump
from .errors import ContextStoreError
from .types import Record

if TYPE_CHECKING:
    from .async_task import AsyncTask
    from .task import Task

C = TypeVar("C")

_log = logging.getLogger("contextstore")


class ToolCallBase(Generic[C]):
    """What a call of a tool is, apart from how it is recorded."""

    def __init__(
        self, name: str, arguments: Any, call_id: str, message_seq: int | None, suppress: bool
    ) -> None:
        if arguments is not None:
            dump(arguments, "arguments")
        self.name = name
        """The tool."""
        self.arguments = arguments
        """What it was called with: any JSON."""
        self.call_id = call_id
        """The model's call that it answers; empty: none."""
        self.result: Any = None
        """What came of it, any JSON: to be set in the block. It stands in the record and, whole, in the message."""
        self.output: C | None = None
        """What came of it, of any size: to be set in the block instead of `result`. It is kept whole, and the model is
        shown a cut view of it."""
        self.error: str | None = None
        """Why it failed: set by an error in the block, or in the block."""
        self.duration_ms = 0
        """How long the block took."""
        self.seq = 0
        """The number of the message, if one was appended."""
        self.stored: StoredOutput | None = None
        """What became of `output`."""
        self._message_seq = message_seq
        self._suppress = suppress
        self._start = 0.0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}, {self.error or 'no error'}>"

    def _begin(self) -> None:
        self._start = time.perf_counter()

    def _end(self, error: BaseException | None) -> None:
        self.duration_ms = round((time.perf_counter() - self._start) * 1000)
        if error is not None:
            self.error = ended_by(error) or f"{type(error).__name__}: the agent was stopped"

    def _is_told(self, error: BaseException | None) -> bool:
        """Whether an error of the block is told to the model, and not raised."""
        return self._suppress and isinstance(error, Exception)

    def _without_result(self, error: BaseException | None, problem: Exception) -> bool:
        """Decides what becomes of a call that could not be recorded; returns whether to record it without what came of it.

        What cannot be sent is an error of the tool. What the server says is raised, unless the error of the block is:
        that is what the caller has to hear.
        """
        if isinstance(problem, ContextStoreError):
            if not self._lesser(error):
                raise problem
            _log.error("the call of the tool %r could not be recorded: %s", self.name, problem)
            _unsaved.warn_if_lost(self._appender(), problem)
            return False
        if error is None:
            self.error = ended_by(problem)
        self.result = self.output = None
        return True

    def _lesser(self, error: BaseException | None) -> tuple[type[Exception], ...]:
        """Errors that the error of the block goes before, if it is raised."""
        return (Exception,) if error is not None and not self._is_told(error) else ()

    def _appender(self) -> Any:
        raise NotImplementedError

    def _put(self) -> dict[str, Any]:
        return {
            "tool_name": self.name,
            "tool_call_id": self.call_id,
            "append": bool(self.call_id),
            "record": True,
            "arguments": self.arguments,
            "error": self.error,
            "duration_ms": self.duration_ms,
        }

    def _record(self) -> dict[str, Any]:
        return {
            "arguments": self.arguments,
            "result": self.result,
            "error": self.error,
            "duration_ms": self.duration_ms,
            "message_seq": self._message_seq,
        }

    def _message(self) -> Record:
        if self.error is not None and self.result is None:
            content = f"Error: {self.error}"
        else:
            content = self.result if isinstance(self.result, str) else dump(self.result, "result")
        return {"role": "tool", "tool_call_id": self.call_id, "content": content}


class ToolCall(ToolCallBase[OutputContent]):
    """A call of a tool. Made by `Task.tool`.

        with task.tool("run_tests", arguments={"path": "tests"}, call_id=call["id"]) as run:
            run.output = subprocess.run(command, capture_output=True).stdout

    When the block ends, the call is recorded with how long it took and what came of it: `result` (any JSON), or `output`
    (text, bytes or a file of any size, which is kept whole). With a `call_id` the message that answers the model's
    call is appended. An error in the block is recorded and told to the model, and raised unless `suppress` is set.
    """

    def __init__(
        self,
        task: Task,
        name: str,
        arguments: Any,
        call_id: str,
        message_seq: int | None,
        suppress: bool,
    ) -> None:
        super().__init__(name, arguments, call_id, message_seq, suppress)
        self._task = task

    def __enter__(self) -> ToolCall:
        self._begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._end(error)
        try:
            self._save()
        except Exception as problem:
            if self._without_result(error, problem):
                with contextlib.suppress(*self._lesser(error)):
                    self._save()
            if error is None and not self._suppress:
                raise
        return self._is_told(error)

    def _appender(self) -> Any:
        return self._task._appender

    def _save(self) -> None:
        if self.output is not None:
            self.stored = self._task.output.put(self.output, **self._put())
            self.seq = self.stored.seq
            return
        # Before anything is recorded: what cannot be sent is refused here.
        message = self._message() if self.call_id else None
        self._task.record_tool_call(self.name, **self._record())
        if message is not None:
            self.seq = (self._task.append(message)).seq


class AsyncToolCall(ToolCallBase[AsyncOutputContent]):
    """A call of a tool, for asyncio; see ToolCall.

    async with task.tool("fetch", arguments={"url": url}, call_id=call["id"]) as fetch:
        fetch.output = await get(url)
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
