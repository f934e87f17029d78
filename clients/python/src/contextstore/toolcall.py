# Made from async_toolcall.py by unasync.py: change that module, then run `make gen-sync`.
"""A call of a tool that is timed and recorded, for threads."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ._toolcall import ToolCallBase
from ._upload import OutputContent

if TYPE_CHECKING:
    from .task import Task


class ToolCall(ToolCallBase[OutputContent]):
    """A call of a tool. Made by `Task.tool`.

        with task.tool("fetch", arguments={"url": url}, call_id=call["id"]) as fetch:
            fetch.output = get(url)

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
