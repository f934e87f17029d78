"""A value that cannot be sent is refused before anything is sent, by the name of its field."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import BINARY, Server

from contextstore import AsyncClient, Client, Message, SpawnFailed, Task, TaskConfig, connect_or_spawn, spawn

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def task(shared_server: Server) -> Iterator[Any]:
    with Client(shared_server.unix) as client:
        yield client.start_task()


def named(call: Callable[[], Any], field: str, kind: type[Exception], words: str = "") -> None:
    with pytest.raises(kind) as refused:
        answer = call()
        if hasattr(answer, "__next__"):
            list(answer)
    assert str(refused.value).startswith((f"{field}: ", f"{field} = ")), str(refused.value)
    assert type(refused.value) is kind and words in str(refused.value)


@pytest.mark.parametrize("make", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("options", "field", "kind"),
    [
        ({"address": None}, "address", TypeError),
        ({"address": 5}, "address", TypeError),
        ({"token": 5}, "token", TypeError),
        ({"token_file": 5}, "token_file", TypeError),
        ({"token": "a", "token_file": "b"}, "token_file", ValueError),
        ({"tls": 5}, "tls", TypeError),
        ({"timeout": "x"}, "timeout", TypeError),
        ({"timeout": -1}, "timeout", ValueError),
        ({"timeout": float("nan")}, "timeout", ValueError),
        ({"stream_timeout": None}, "stream_timeout", TypeError),
        ({"llm_timeout": -1}, "llm_timeout", ValueError),
        ({"flush_timeout": True}, "flush_timeout", TypeError),
        ({"instance_id": 5}, "instance_id", TypeError),
    ],
)
def test_options_of_a_client(make: Any, options: dict[str, Any], field: str, kind: type[Exception]) -> None:
    named(lambda: make(**{"address": "tcp:127.0.0.1:1", **options}), field, kind)


ON_CLIENT: list[tuple[Callable[[Any], Any], str, type[Exception]]] = [
    (lambda c: c.start_task(user=5), "user", TypeError),
    (lambda c: c.start_task(user=None), "user", TypeError),
    (lambda c: c.start_task(key=5), "key", TypeError),
    (lambda c: c.task(7), "key", TypeError),
    (lambda c: c.task(None), "key", TypeError),
    (lambda c: c.task(b"x"), "key", TypeError),
    (lambda c: c.start_task(config=5), "config", TypeError),
    (lambda c: c.start_task(config={"context_length": -1}), "context_length", ValueError),
    (lambda c: c.start_task(lease_generation=-1), "lease_generation", ValueError),
    (lambda c: c.start_task(task_uuid=5), "task_uuid", TypeError),
    (lambda c: c.start_task(inherit=None), "inherit", TypeError),
    (lambda c: c.start_task(system_message=5), "system_message", TypeError),
    (lambda c: c.get_task(None), "task_uuid", TypeError),
    (lambda c: c.get_task("x", timeout=-1), "timeout", ValueError),
    (lambda c: c.get_task("x", timeout="x"), "timeout", TypeError),
    (lambda c: c.previous_contexts(5), "key", TypeError),
    (lambda c: c.previous_contexts("x", limit=-1), "limit", ValueError),
    (lambda c: c.inheritance_context("x", max_summary_tokens=-1), "max_summary_tokens", ValueError),
]


@pytest.mark.parametrize(("call", "field", "kind"), ON_CLIENT, ids=range(len(ON_CLIENT)))
def test_calls_of_a_client(
    task: Task, shared_server: Server, call: Callable[[Any], Any], field: str, kind: type[Exception]
) -> None:
    named(lambda: call(task.client), field, kind)

    async def asynchronously() -> None:
        async with AsyncClient(shared_server.unix) as client:
            await call(client)

    named(lambda: asyncio.run(asynchronously()), field, kind)


ON_TASK: list[tuple[Callable[[Any], Any], str, type[Exception]]] = [
    (lambda t: t.client.list_tasks(statuses=5), "statuses", TypeError),
    (lambda t: t.client.list_tasks(statuses=[5]), "statuses", ValueError),
    (lambda t: t.client.list_tasks(statuses=[None]), "statuses", TypeError),
    (lambda t: t.client.list_tasks(statuses="sleeping"), "statuses", ValueError),
    (lambda t: t.client.list_tasks(order="newest"), "order", ValueError),
    (lambda t: t.client.list_tasks(created_from=5), "created_from", TypeError),
    (lambda t: t.client.list_tasks(page_size=-1), "page_size", ValueError),
    (lambda t: t.client.collect_garbage(min_age="1h"), "min_age", TypeError),
    (lambda t: t.client.collect_garbage(min_age=float("nan")), "min_age", ValueError),
    (lambda t: t.client.collect_garbage(dry_run="x"), "dry_run", TypeError),
    (lambda t: t.fork(-1), "at_seq", ValueError),
    (lambda t: t.get_message(-1), "seq", ValueError),
    (lambda t: t.get_message(None), "seq", TypeError),
    (lambda t: t.get_message("x"), "seq", TypeError),
    (lambda t: t.pin(1.5), "seq", TypeError),
    (lambda t: t.rewind(2**64), "seq", ValueError),
    (lambda t: t.append(None), "message", TypeError),
    (lambda t: t.append(Message(role="wizard")), "message.role", ValueError),
    (lambda t: t.append("{}", pinned="x"), "pinned", TypeError),
    (lambda t: t.append("{}", output_ref=5), "output_ref", TypeError),
    (lambda t: t.append("{}", wait=False, request_id=5), "request_id", TypeError),
    (lambda t: t.current(chunk_bytes=-1), "chunk_bytes", ValueError),
    (lambda t: t.messages(kinds=[b"pin"]), "kinds", TypeError),
    (lambda t: t.messages(kinds=["pins"]), "kinds", ValueError),
    (lambda t: t.watch(resume_token=5), "resume_token", TypeError),
    (lambda t: t.record_usage(input_tokens=-1, output_tokens=1), "input_tokens", ValueError),
    (lambda t: t.record_usage(input_tokens=None, output_tokens=1), "input_tokens", TypeError),
    (lambda t: t.update_statistics(tokens=-1), "tokens", ValueError),
    (lambda t: t.update(5), "config", TypeError),
    (lambda t: t.append_plan({}, plan_type=5), "plan_type", TypeError),
    (lambda t: t.record_tool_call("x", duration=-1), "duration", ValueError),
    (lambda t: t.record_tool_call("x", duration=True), "duration", TypeError),
    (lambda t: t.chat(5), "messages", TypeError),
    (lambda t: t.chat(provider=None), "provider", TypeError),
    (lambda t: t.chat(provider="openia"), "provider", ValueError),
    (lambda t: t.request_body("OPENAI").to_bytes(), "provider", ValueError),
    (lambda t: t.chat(params=5), "params", TypeError),
    (lambda t: t.chat(tools=5), "tools", TypeError),
    (lambda t: t.chat(timeout=-1), "timeout", ValueError),
    (lambda t: t.request_body("openai", max_bytes=-1).to_bytes(), "max_bytes", ValueError),
    (lambda t: t.compress(5), "strategy", ValueError),
    (lambda t: t.compress(b"prune"), "strategy", TypeError),
    (lambda t: t.begin_compaction("shrink"), "strategy", ValueError),
    (lambda t: t.compress(overrides={"preset": "wild"}), "overrides.preset", ValueError),
    (lambda t: t.update({"durability": "none"}), "durability", ValueError),
    (lambda t: t.compress(target_tokens=-1), "target_tokens", ValueError),
    (lambda t: t.output.put(None), "content", TypeError),
    (lambda t: t.output.put("x", tail_bytes=-1), "tail_bytes", ValueError),
    (lambda t: t.output.read(5).read(), "ref", TypeError),
    (lambda t: t.output.grep("x", before=-1), "before", ValueError),
    (lambda t: t.output.trim(-1), "budget_tokens", ValueError),
    (lambda t: t.complete(5), "final_summary", TypeError),
    (lambda t: t.fail(None), "error_message", TypeError),
]


@pytest.mark.parametrize(("call", "field", "kind"), ON_TASK, ids=range(len(ON_TASK)))
def test_calls_of_a_task(task: Task, call: Callable[[Any], Any], field: str, kind: type[Exception]) -> None:
    named(lambda: call(task), field, kind)


def test_what_is_allowed_is_said(task: Task) -> None:
    named(lambda: task.get_message(-1), "seq", ValueError, "must be an int from 0 to ")
    named(lambda: task.client.start_task(user=5), "user", TypeError, "must be a str, not int 5")  # type: ignore[arg-type]
    words = "must be a TaskConfig or a mapping of its fields, not int 5"
    named(lambda: task.client.start_task(config=5), "config", TypeError, words)  # type: ignore[arg-type]
    words = "must be one of 'summarize', 'compact', 'prune', 'window', not 'shrink'"
    named(lambda: task.compress("shrink"), "strategy", ValueError, words)
    assert task.update(TaskConfig(model="m")).config.model == "m"


@pytest.mark.parametrize("start", [spawn, connect_or_spawn])
def test_options_of_a_server(start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTSTORE_BINARY", str(BINARY))
    data_dir = tmp_path / "data"
    named(lambda: start(5), "data_dir", TypeError)
    named(lambda: start("a\0b"), "data_dir", ValueError)
    named(lambda: start(data_dir, binary=5), "binary", TypeError)
    named(lambda: start(data_dir, arguments="--help"), "arguments", TypeError)
    named(lambda: start(data_dir, env=5), "env", TypeError)
    named(lambda: start(data_dir, start_timeout="x"), "start_timeout", TypeError)
    with pytest.raises(SpawnFailed, match="cannot be run"):
        start(data_dir, binary=tmp_path / "none")
