# Made from async_outputs.py by unasync.py: change that module, then run `make gen-sync`.
"""The outputs of a task's tools, for threads: put, read, search."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from . import _outputs
from ._outputs import StoredOutput
from ._upload import OutputContent, Upload
from .streams import OutputStream
from .types import GrepLine, OutputInfo, Trimmed
from .v1 import tool_outputs_pb2 as pb

if TYPE_CHECKING:
    from .task import Task


class Grep(Iterator[GrepLine]):
    """Lines that match, and those near them, as they are found; see `Outputs.grep`.

    for line in task.output.grep("error"):
        print(line.ref_id, line.line_number, line.text)
    """

    def __init__(self, responses: Generator[pb.GrepToolOutputResponse, None, None]) -> None:
        self._responses = responses
        self._lines: Iterator[GrepLine] = iter(())
        self.matches: int | None = None
        """How many lines matched in all; known at the end."""
        self.limited = False
        """Whether it ended at `max_matches`."""

    def __next__(self) -> GrepLine:
        while (line := next(self._lines, None)) is None:
            response = next(self._responses)
            self._lines = iter(response.lines)
            if response.HasField("matches"):
                self.matches, self.limited = response.matches, response.limited
        return line

    def close(self) -> None:
        """Looks no further."""
        self._responses.close()


class Outputs:
    """The outputs of a task's tools, kept whole however large they are: `task.output`.

        stored = task.output.put(log, tool_name="pytest", tool_call_id=call["id"], append=True)
        for line in task.output.grep("FAILED", stored.ref, after=3):
            print(line.line_number, line.text)
        print(task.output.read(stored.ref, offset=1000, limit=50).text())

    The model is shown a cut view that names the ref. What it may ask for more is in `contextstore.tools`.
    """

    def __init__(self, task: Task) -> None:
        self._task = task

    def put(
        self,
        content: OutputContent,
        *,
        tool_name: str = "",
        tool_call_id: str = "",
        media_type: str = "",
        append: bool = False,
        record: bool = False,
        arguments: Any = None,
        error: str | None = None,
        duration: timedelta | float | None = None,
        max_line_length: int = 0,
        max_message_bytes: int = 0,
        tail_bytes: int | None = None,
        as_parts: bool = False,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> StoredOutput:
        """Stores an output of any size: text, bytes, a path, an open file or an iterator of pieces, which is streamed.

        `append` appends the tool message that answers `tool_call_id` with the view of it. `record` records the tool
        call, with its `arguments`, its `error` and its `duration` (a timedelta, or seconds). It is on disk when this returns. The call is
        repeated like others; of an iterator only as long as it has given no more than 8 MiB.
        """
        self._task.flush()
        header = _outputs.header(
            self._task._calls,
            tool_name=tool_name,
            tool_call_id=tool_call_id,
            media_type=media_type,
            append=append,
            record=record,
            arguments=arguments,
            error=error,
            length=duration,
            max_line_length=max_line_length,
            max_message_bytes=max_message_bytes,
            tail_bytes=tail_bytes,
            as_parts=as_parts,
            request_id=request_id,
        )
        return _outputs.stored(self._task.client._upload(Upload(header, content), timeout))

    def read(
        self, ref: str, *, offset: int = 0, limit: int = 0, raw: bool = False, max_line_length: int = 0
    ) -> OutputStream:
        """Lines of an output, each with its number as tools that read files print them; with `raw`, its bytes.

        `offset` are lines to skip, `limit` is how many to read (0: all), or bytes with `raw`. Lines longer than
        `max_line_length` are cut.
        """
        calls = self._task._calls
        cursor = _outputs.OutputCursor(calls.task_uuid, ref, offset, limit, raw, max_line_length)
        return OutputStream(self._task._read(cursor))

    def grep(
        self,
        pattern: str,
        ref: str = "",
        *,
        ignore_case: bool = False,
        fixed: bool = False,
        before: int = 0,
        after: int = 0,
        max_matches: int = 0,
        max_line_length: int = 0,
    ) -> Grep:
        """Lines that match a regular expression, as ripgrep takes it, of one output or of all of the task.

        `fixed`: the pattern is plain text. `before` and `after` are lines to show around each match.
        """
        call = _outputs.grep(
            self._task._calls,
            pattern,
            ref,
            ignore_case,
            fixed,
            before,
            after,
            max_matches,
            max_line_length,
        )
        return Grep(self._task._stream(call, self._task.client.stream_timeout))

    def stat(self, ref: str, *, timeout: float | None = None) -> OutputInfo:
        """What is known of an output; OutputNotFound if there is none."""
        return self._task._run(_outputs.stat(self._task._calls, ref), timeout)

    def list(self, *, page_size: int = 0, timeout: float | None = None) -> Generator[OutputInfo, None, None]:
        """The outputs of the task, by their refs."""
        token = ""
        while True:
            page = self._task._run(_outputs.page(self._task._calls, page_size, token), timeout)
            yield from page.outputs
            token = page.next_page_token
            if not token:
                return

    def trim(
        self,
        budget_tokens: int | None = None,
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Trimmed:
        """Makes the oldest outputs in the view placeholders that name their refs, until the rest fits the budget.

        It happens by itself too. Without a budget it is the task's own; 0: as few as can be.
        """
        return self._task._run(_outputs.trim(self._task._calls, budget_tokens, request_id), timeout)
