"""What a call of a tool is, for threads and for asyncio."""

from __future__ import annotations

import logging
import time
from typing import Any, Generic, TypeVar

from . import _unsaved
from ._base import ended_by
from ._outputs import StoredOutput
from ._values import dump
from .errors import ContextStoreError
from .types import Record

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
        self.duration = 0.0
        """How long the block took, in seconds."""
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
        self.duration = time.perf_counter() - self._start
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
            "duration": self.duration,
        }

    def _record(self) -> dict[str, Any]:
        return {
            "arguments": self.arguments,
            "result": self.result,
            "error": self.error,
            "duration": self.duration,
            "message_seq": self._message_seq,
        }

    def _message(self) -> Record:
        if self.error is not None and self.result is None:
            content = f"Error: {self.error}"
        else:
            content = self.result if isinstance(self.result, str) else dump(self.result, "result")
        return {"role": "tool", "tool_call_id": self.call_id, "content": content}
