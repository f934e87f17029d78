# Made from _async_task_records.py by unasync.py: change that module, then run `make gen-sync`.
"""What a task of a Client records besides its messages: tool calls, plans, summaries, usage."""

from __future__ import annotations

from collections.abc import Generator
from datetime import timedelta
from typing import Any

from . import _cursors
from ._task_life import TaskLife
from .types import (
    Plan,
    PlanAppended,
    Pressure,
    Record,
    Summary,
    TaskStatistics,
    ToolCallRecorded,
)


class TaskRecords(TaskLife):
    """A task and what it records."""

    def record_tool_call(
        self,
        tool_name: str,
        *,
        arguments: Any = None,
        result: Any = None,
        output_ref: str = "",
        error: str | None = None,
        duration: timedelta | float | None = None,
        message_seq: int | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> ToolCallRecorded:
        """Records that a tool was executed. `arguments` and `result` are any JSON; with an `error` it failed.

        `duration` is how long it took: a timedelta, or seconds.
        """
        call = self._calls.record_tool_call(
            tool_name, arguments, result, output_ref, error, duration, message_seq, request_id
        )
        return self._run(call, timeout)

    def tool_calls(
        self, *, from_seq: int = 0, to_seq: int = 0, limit: int = 0
    ) -> Generator[Record, None, None]:
        """Lines of tools.jsonl."""
        return self._read(_cursors.tool_calls(self.uuid, from_seq, to_seq, limit))

    def append_plan(
        self,
        content: Any,
        *,
        plan_type: str = "",
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> PlanAppended:
        """Appends a plan: any JSON. `plan_type` is `initial`, `revision` or another word."""
        return self._run(self._calls.append_plan(content, plan_type, request_id), timeout)

    def latest_plan(self, *, timeout: float | None = None) -> Plan | None:
        """The newest plan; None if there is none."""
        return self._run(self._calls.latest_plan(), timeout)

    def plans(self, *, from_id: int = 0, to_id: int = 0, limit: int = 0) -> Generator[Record, None, None]:
        """Lines of planning.jsonl."""
        return self._read(_cursors.plans(self.uuid, from_id, to_id, limit))

    def latest_summary(self, *, timeout: float | None = None) -> Summary | None:
        """The newest summary that the view has; None if there is none."""
        return self._run(self._calls.latest_summary(), timeout)

    def summaries(self, *, limit: int = 0) -> Generator[Record, None, None]:
        """Lines of summaries.jsonl. Those that were taken back have `undone`."""
        return self._read(_cursors.SummaryCursor(self.uuid, limit))

    def record_usage(
        self,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_creation_tokens: int = 0,
        cache_read_tokens: int = 0,
        tools_tokens: int = 0,
        timeout: float | None = None,
    ) -> Pressure:
        """Reports one call of the LLM. The four are disjoint: take cached tokens out of OpenAI's input.

        `tools_tokens` are those of the tools that were sent, as `context_usage` counts them: so counts are compared
        with like.
        """
        call = self._calls.record_usage(
            input_tokens, output_tokens, cache_creation_tokens, cache_read_tokens, tools_tokens
        )
        return self._run(call, timeout)

    def update_statistics(
        self,
        *,
        llm_calls: int = 0,
        tool_calls: int = 0,
        tokens: int = 0,
        compressions: int = 0,
        timeout: float | None = None,
    ) -> TaskStatistics:
        """Adds to the task's counters."""
        call = self._calls.update_statistics(llm_calls, tool_calls, tokens, compressions)
        return self._run(call, timeout)
