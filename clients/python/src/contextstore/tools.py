"""Tools for the model: what it can call to see the rest of an output of which its context shows only a part.

    from contextstore import tools

    for event in task.chat(question, tools=[*my_tools, *tools.OPENAI]): ...
    for call in done.tool_calls:
        if (answer := tools.dispatch(task, call)) is not None:
            task.append(answer)

`OPENAI` has the form of OpenAI's chat completions (which `task.chat` takes, whoever is asked), `OPENAI_RESPONSES` that of
its Responses API, `ANTHROPIC` that of Anthropic's Messages API. `dispatch` takes a call as each of them makes it and
answers what each wants to have back; `async_dispatch` does it for an AsyncTask.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._frames import shown
from .errors import ContextStoreError
from .types import GrepLine, Record

if TYPE_CHECKING:
    from .async_task import AsyncTask
    from .task import Task

READ = "tool_output_cache"
"""Reads lines of an output."""
GREP = "tool_output_cache_grep"
"""Searches outputs."""

_LINES = 200
_MOST_LINES = 2000
_MOST_BYTES = 32 << 10
_LINE_LENGTH = 2000
_MATCHES = 50
_MOST_MATCHES = 1000

_SCHEMAS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    READ: (
        "Reads lines of an output of a tool that was too large to be shown whole. The output is named by the ref_id "
        "that stands where it was cut. Lines are numbered.",
        {
            "ref_id": {"type": "string", "description": "The ref of the output: out-…, or seq=14"},
            "offset": {"type": "integer", "minimum": 0, "description": "Lines to skip. Default 0"},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": _MOST_LINES,
                "description": f"Most lines to read. Default {_LINES}",
            },
        },
        ["ref_id"],
    ),
    GREP: (
        "Searches outputs of tools that were too large to be shown whole for lines that match a regular expression.",
        {
            "pattern": {"type": "string", "description": "A regular expression, as ripgrep takes it"},
            "ref_id": {"type": "string", "description": "The ref of one output. Default: all outputs"},
            "ignore_case": {"type": "boolean", "description": "Default false"},
            "before": {
                "type": "integer",
                "minimum": 0,
                "description": "Lines to show before each match. Default 0",
            },
            "after": {
                "type": "integer",
                "minimum": 0,
                "description": "Lines to show after each match. Default 0",
            },
            "max_matches": {
                "type": "integer",
                "minimum": 1,
                "maximum": _MOST_MATCHES,
                "description": f"Default {_MATCHES}",
            },
        },
        ["pattern"],
    ),
}


def _parameters(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


OPENAI: list[Record] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": words,
            "parameters": _parameters(properties, required),
        },
    }
    for name, (words, properties, required) in _SCHEMAS.items()
]
"""For OpenAI's chat completions, for what speaks like it, and for `task.chat`."""
OPENAI_RESPONSES: list[Record] = [
    {
        "type": "function",
        "name": name,
        "description": words,
        "parameters": _parameters(properties, required),
        "strict": False,
    }
    for name, (words, properties, required) in _SCHEMAS.items()
]
"""For OpenAI's Responses API."""
ANTHROPIC: list[Record] = [
    {"name": name, "description": words, "input_schema": _parameters(properties, required)}
    for name, (words, properties, required) in _SCHEMAS.items()
]
"""For Anthropic's Messages API."""


@shown
def dispatch(task: Task, call: Any) -> Record | None:
    """Carries out a call of one of these tools; None if it is of another.

    The call is one of OpenAI's (chat completions or Responses) or a `tool_use` block of Anthropic's, as a mapping or as an
    object of their packages. The answer is what goes back: a tool message, a `function_call_output` or a
    `tool_result`. What went wrong, such as a pattern that cannot be compiled, is told in it, for the model to do better.
    """
    asked = _Asked.of(call)
    if asked is None:
        return None
    # Not for the model: what was appended before and is not saved.
    task.flush()
    try:
        if asked.name == READ:
            ref, offset, limit = asked.read_arguments()
            lines = task.output.read(ref, offset=offset, limit=limit, max_line_length=_LINE_LENGTH)
            with lines:
                return asked.answer(
                    _lines(lines.read(_MOST_BYTES), offset, task.output.stat(ref).ref.line_count)
                )
        found = task.output.grep(*asked.grep_arguments()[0], **asked.grep_arguments()[1])
        report = _Report(one=bool(asked.text("ref_id", "")))
        for line in found:
            if not report.take(line):
                break
        found.close()
        return asked.answer(report.text(found.matches, found.limited))
    except (ContextStoreError, _Wrong) as error:
        return asked.refuse(error)


@shown
async def async_dispatch(task: AsyncTask, call: Any) -> Record | None:
    """The same for an AsyncTask."""
    asked = _Asked.of(call)
    if asked is None:
        return None
    await task.flush()
    try:
        if asked.name == READ:
            ref, offset, limit = asked.read_arguments()
            lines = task.output.read(ref, offset=offset, limit=limit, max_line_length=_LINE_LENGTH)
            async with lines:
                data = await lines.read(_MOST_BYTES)
            return asked.answer(_lines(data, offset, (await task.output.stat(ref)).ref.line_count))
        found = task.output.grep(*asked.grep_arguments()[0], **asked.grep_arguments()[1])
        report = _Report(one=bool(asked.text("ref_id", "")))
        async for line in found:
            if not report.take(line):
                break
        await found.aclose()
        return asked.answer(report.text(found.matches, found.limited))
    except (ContextStoreError, _Wrong) as error:
        return asked.refuse(error)


class _Wrong(ValueError):
    """Arguments that the model got wrong."""


@dataclass(frozen=True)
class _Asked:
    """A call by a model, whoever's it is."""

    name: str
    id: str
    arguments: Any
    form: str

    @classmethod
    def of(cls, call: Any) -> _Asked | None:
        """The call, if it is of one of these tools."""
        if not isinstance(call, Mapping) and hasattr(call, "model_dump"):
            call = call.model_dump(mode="json")
        if not isinstance(call, Mapping):
            raise TypeError(f"call: a call of a tool as a mapping, not {type(call).__name__}")
        if call.get("type") == "tool_use":
            asked = cls(call["name"], call["id"], call.get("input"), "anthropic")
        elif call.get("type") == "function_call":
            asked = cls(call["name"], call["call_id"], call.get("arguments"), "openai_responses")
        else:
            function = call.get("function") or {}
            asked = cls(function.get("name", ""), call.get("id", ""), function.get("arguments"), "openai")
        return asked if asked.name in _SCHEMAS else None

    def answer(self, content: str, *, wrong: bool = False) -> Record:
        """What goes back to the model."""
        if self.form == "anthropic":
            result: Record = {"type": "tool_result", "tool_use_id": self.id, "content": content}
            return {**result, "is_error": True} if wrong else result
        if self.form == "openai_responses":
            return {"type": "function_call_output", "call_id": self.id, "output": content}
        return {"role": "tool", "tool_call_id": self.id, "content": content}

    def refuse(self, error: Exception) -> Record:
        """Tells the model what is wrong."""
        words = error.message if isinstance(error, ContextStoreError) else str(error)
        return self.answer(f"Error: {words}", wrong=True)

    def read_arguments(self) -> tuple[str, int, int]:
        return (
            self.text("ref_id"),
            self.number("offset", 0),
            min(self.number("limit", _LINES) or _LINES, _MOST_LINES),
        )

    def grep_arguments(self) -> tuple[tuple[str, str], dict[str, Any]]:
        ignore_case = self.given().get("ignore_case") or False
        if not isinstance(ignore_case, bool):
            raise _Wrong("ignore_case: true or false")
        return (self.text("pattern"), self.text("ref_id", "")), {
            "ignore_case": ignore_case,
            "before": min(self.number("before", 0), 1000),
            "after": min(self.number("after", 0), 1000),
            "max_matches": min(self.number("max_matches", _MATCHES) or _MATCHES, _MOST_MATCHES),
            "max_line_length": _LINE_LENGTH,
        }

    def given(self) -> Mapping[str, Any]:
        """The arguments, which OpenAI's models write as JSON."""
        given = self.arguments
        if isinstance(given, str):
            try:
                given = json.loads(given or "{}")
            except ValueError as error:
                raise _Wrong(f"the arguments are not JSON: {error}") from None
        if not isinstance(given, Mapping):
            raise _Wrong("the arguments are not an object")
        return given

    def text(self, name: str, default: str | None = None) -> str:
        value = self.given().get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or (not value and default is None):
            raise _Wrong(f"{name}: a text is required")
        return value

    def number(self, name: str, default: int) -> int:
        value = self.given().get(name)
        if value is None:
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise _Wrong(f"{name}: a whole number from 0 on")
        return value


def _lines(data: bytes, offset: int, total: int) -> str:
    """Lines, and where the next are."""
    if len(data) >= _MOST_BYTES and b"\n" in data:
        data = data[: data.rindex(b"\n") + 1]
    text = data.decode("utf-8", "replace")
    read = offset + text.count("\n") + (bool(text) and not text.endswith("\n"))
    if not text:
        return f"There are no lines behind {offset}: the output has {total}."
    if read >= total:
        return f"{text.rstrip(chr(10))}\n[end: {total} lines]"
    return f"{text.rstrip(chr(10))}\n[lines {offset + 1} to {read} of {total}; offset={read} reads on]"


class _Report:
    """What was found, as grep prints it."""

    def __init__(self, one: bool) -> None:
        self._one = one
        self._ref = ""
        self._out: list[str] = []
        self._size = 0
        self._full = False

    def take(self, line: GrepLine) -> bool:
        """Whether there is room for more."""
        if line.gap_before and self._out:
            self._out.append("--")
        if not self._one and line.ref_id != self._ref:
            self._out.append(f"{line.ref_id}:")
        self._ref = line.ref_id
        shown = f"{line.line_number}{':' if line.is_match else '-'}{line.text}"
        self._out.append(shown)
        self._size += len(shown.encode())
        self._full = self._size >= _MOST_BYTES
        return not self._full

    def text(self, matches: int | None, limited: bool) -> str:
        if not self._out:
            return "No line matches."
        if self._full:
            end = "[there is more: narrow the pattern, or read the lines]"
        else:
            end = f"[{matches} matches{'; there may be more' if limited else ''}]"
        return "\n".join([*self._out, end])
