"""The two halves are the same: what one can, the other can, with the same names, defaults and words."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import contextstore
from contextstore import (
    AsyncByteStream,
    AsyncClient,
    AsyncCompaction,
    AsyncCurrent,
    AsyncGrep,
    AsyncOutputs,
    AsyncOutputStream,
    AsyncRequestBody,
    AsyncTask,
    AsyncToolCall,
    ByteStream,
    Client,
    Compaction,
    Current,
    Grep,
    Outputs,
    OutputStream,
    RequestBody,
    Task,
    ToolCall,
)

pytestmark = pytest.mark.quick
HALVES: list[tuple[type[Any], type[Any]]] = [
    (Client, AsyncClient),
    (Task, AsyncTask),
    (Outputs, AsyncOutputs),
    (Compaction, AsyncCompaction),
    (ToolCall, AsyncToolCall),
    (Grep, AsyncGrep),
    (ByteStream, AsyncByteStream),
    (Current, AsyncCurrent),
    (OutputStream, AsyncOutputStream),
    (RequestBody, AsyncRequestBody),
]
# A file of the standard library cannot be asynchronous.
ALONE = {"file"}


def public(kind: type[Any]) -> dict[str, Any]:
    """Names without a leading underscore, as an agent sees them."""
    names = {"aclose": "close"}
    return {
        names.get(name, name): member
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_") and name not in ALONE
    }


def in_words_of_the_other(text: str) -> str:
    """Signatures and documentation of an asynchronous half as the other has them."""
    for old, new in (
        (r"AsyncGenerator\[(.*?), None\]", r"Generator[\1, None, None]"),
        (r"Coroutine\[Any, Any, (.*)\]", r"\1"),
        ("Async", ""),
        ("async ", ""),
        ("await http", "httpx"),
        ("await ", ""),
        (r"'Opening'", "'Task'"),
        (r" What it answers is awaited, if it can be\.", ""),
        (", also an asynchronous one, which", ", which"),
        (r"\s+", " "),
    ):
        text = re.sub(old, new, text)
    return text


@pytest.mark.parametrize(("sync", "asynchronous"), HALVES, ids=lambda kind: kind.__name__)
def test_the_halves_are_the_same(sync: type[Any], asynchronous: type[Any]) -> None:
    ours, theirs = public(sync), public(asynchronous)
    assert sorted(ours) == sorted(theirs)
    for name, member in ours.items():
        other = theirs[name]
        assert callable(member) == callable(other), name
        if callable(member) and not inspect.isclass(member):
            wanted = re.sub(r"\s+", " ", str(inspect.signature(member)))
            found = in_words_of_the_other(str(inspect.signature(other)))
            assert re.sub(r" -> .*", "", wanted) == re.sub(r" -> .*", "", found), name
        # Where the words differ, the asynchronous half sends its reader to the other.
        mine, its = (re.sub(r"\s+", " ", inspect.getdoc(each) or "") for each in (member, other))
        if not name.endswith("stub"):
            assert mine and its, name
            assert in_words_of_the_other(its) == mine or "see " in its, name


def test_everything_public_is_documented() -> None:
    for name in contextstore.__all__:
        thing = getattr(contextstore, name)
        if (
            inspect.isclass(thing)
            and thing.__module__.startswith("contextstore.")
            and ".v1." not in str(thing)
        ):
            assert (thing.__doc__ or "").strip(), name
            for attribute, member in inspect.getmembers(thing, inspect.isfunction):
                if not attribute.startswith("_"):
                    assert inspect.getdoc(member), f"{name}.{attribute}"


@pytest.mark.parametrize("kind", [kind for pair in HALVES for kind in pair], ids=lambda kind: kind.__name__)
def test_every_class_has_an_example(kind: type[Any]) -> None:
    assert re.search(
        r"^ *(async |await |print\(|for |with |\w+ = |httpx\.)", kind.__doc__ or "", re.MULTILINE
    )


def test_the_exports_are_those_that_are_listed() -> None:
    assert sorted(contextstore.__all__) == list(contextstore.__all__)
    assert all(hasattr(contextstore, name) for name in contextstore.__all__)
