"""Values that have no form in JSON or UTF-8, or are too large: accepted in a form that says so, or refused by their place."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from serving import DEADLINE, Server

from contextstore import AsyncClient, Client, NewMessage, Task, errors

LONE = "a\ud800b\udc00c\ud83e"
"""Halves of characters, as file names and cut texts have them."""
KEPT = "a\ufffdb\ufffdc\ufffd"
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
}


# feature: lone-surrogates
@pytest.mark.quick
def test_lone_surrogates_become_replacement_characters(client: Client) -> None:
    task = client.start_task(system_message=LONE)
    message = {"role": "user", "content": LONE}
    task.append(message)
    task.append(f'{{"role": "user", "content": "{LONE}"}}', wait=False)
    assert len(list(task.append_many([message, NewMessage(message)]))) == 2
    # The two halves of one character are that character.
    task.append({"role": "user", "content": "\ud83e\udd80"})
    contents = [each["content"] for each in task.current_messages()]
    assert contents == [KEPT] * 5 + ["\N{CRAB}"]
    task.record_tool_call("look", arguments={"path": LONE}, result=[LONE], error=LONE)
    (record,) = task.tool_calls()
    assert record["arguments"] == {"path": KEPT} and record["error"] == KEPT
    task.append_plan({LONE: LONE})
    plan = task.latest_plan()
    assert plan is not None and plan.content == {KEPT: KEPT}
    assert task.output.read(task.output.put(LONE).ref, raw=True).read() == KEPT.encode()
    assert task.output.read(task.output.put(iter([LONE, LONE])).ref, raw=True).read() == KEPT.encode() * 2
    assert task.fail(LONE, final_summary=LONE).error_message == KEPT


# feature: tool-wrapper
@pytest.mark.quick
def test_a_tool_whose_words_are_not_well_formed(client: Client) -> None:
    task = client.start_task()
    task.append(CALL)
    with task.tool("look", arguments={"path": LONE}, call_id="c1", suppress=True):
        raise FileNotFoundError(LONE)
    with pytest.raises(FileNotFoundError), task.tool("look"):
        raise FileNotFoundError(LONE)
    with task.tool("look") as call:
        call.result = LONE
    records = list(task.tool_calls())
    assert [record.get("error") for record in records] == [f"FileNotFoundError: {KEPT}"] * 2 + [None]
    assert task.current().to_list()[1]["content"] == f"Error: FileNotFoundError: {KEPT}"
    with pytest.raises(FileNotFoundError), task:
        raise FileNotFoundError(LONE)
    assert task.info.error_message == f"FileNotFoundError: {KEPT}"


@pytest.mark.quick
@pytest.mark.parametrize("result", [math.nan, object(), {1, 2}])
def test_a_result_that_cannot_be_sent_is_an_error_of_the_tool(client: Client, result: Any) -> None:
    task = client.start_task()
    task.append(CALL)
    with task.tool("look", call_id="c1", suppress=True) as call:
        call.result = result
    assert call.error is not None and "result" in call.error
    assert task.current().to_list()[1]["content"].startswith("Error: ")
    with pytest.raises((ValueError, TypeError), match="^result"), task.tool("look") as call:
        call.result = result
    # What went wrong in the block comes first, and is recorded.
    with pytest.raises(KeyError, match="mine"), task.tool("look") as call:
        call.result = result
        raise KeyError("mine")
    assert [record["status"] for record in task.tool_calls()] == ["error"] * 3
    assert [record["error"] for record in task.tool_calls()][2] == "KeyError: 'mine'"
    with pytest.raises((ValueError, TypeError), match="^arguments"):
        task.tool("look", arguments=result)


@pytest.mark.quick
def test_the_same_for_asyncio(shared_server: Server) -> None:
    async def story() -> None:
        async with AsyncClient(shared_server.unix) as client:
            task = await client.start_task()
            await task.append(CALL)
            async with task.tool("look", call_id="c1", suppress=True):
                raise FileNotFoundError(LONE)
            async with task.tool("look", suppress=True) as call:
                call.result = math.inf
            with pytest.raises(KeyError, match="mine"):
                async with task.tool("look") as call:
                    call.result = math.inf
                    raise KeyError("mine")
            assert len([record async for record in task.tool_calls()]) == 3
            with pytest.raises(ValueError, match=r"^message\.content must be a finite number, not nan"):
                await task.append({"role": "user", "content": math.nan}, wait=False)
            await task.append({"role": "user", "content": LONE}, wait=False)
            assert (await task.current().to_list())[-1]["content"] == KEPT

    asyncio.run(asyncio.wait_for(story(), DEADLINE))


ITSELF: list[Any] = []
ITSELF.append(ITSELF)
REFUSED: dict[str, tuple[Callable[[Task], Any], str]] = {
    "content": (
        lambda task: task.append({"role": "user", "content": math.nan}),
        "message.content must be a finite number, not nan",
    ),
    "deep": (
        lambda task: task.append({"role": "user", "content": [{"a": {"b": (1, -math.inf)}}]}),
        "message.content[0].a.b[1] must be a finite number, not -inf",
    ),
    "many": (
        lambda task: list(task.append_many([{"role": "user", "content": math.nan}])),
        "messages[0]: message.content must be a finite number, not nan",
    ),
    "object": (
        lambda task: task.append({"role": "user", "content": object()}),
        "message.content: object has no form in JSON",
    ),
    "key": (
        lambda task: task.append({"role": "user", "content": "", "x": {(1,): 2}}),
        "message.x has a key of the type tuple",
    ),
    "circle": (lambda task: task.append_plan(ITSELF), "content[0] contains itself"),
    "arguments": (
        lambda task: task.record_tool_call("look", arguments={"a": math.inf}),
        "arguments.a must be",
    ),
    "result": (lambda task: task.record_tool_call("look", result=math.nan), "result must be"),
    "params": (lambda task: list(task.chat(params={"temperature": math.nan})), "params.temperature must be"),
    "tools": (lambda task: list(task.chat(tools=[{"a": math.nan}])), "tools[0].a must be"),
    "put": (lambda task: task.output.put("", record=True, arguments=math.nan), "arguments must be"),
}


# feature: nan-refused
@pytest.mark.quick
@pytest.mark.parametrize("which", REFUSED)
def test_what_has_no_form_in_json_is_refused_by_its_place(client: Client, which: str) -> None:
    call, words = REFUSED[which]
    task = client.start_task()
    with pytest.raises((ValueError, TypeError)) as refused:
        call(task)
    assert str(refused.value).startswith(words)
    assert task.append({"role": "user", "content": "on"}).seq == 1


# feature: too-large
@pytest.mark.parametrize("megabytes", [17, 40])
def test_a_message_that_is_too_large_is_refused_alike(shared_server: Server, megabytes: int) -> None:
    huge = json.dumps({"role": "user", "content": "x" * (megabytes << 20)})
    small = {"role": "user", "content": "Hello"}
    client = Client(shared_server.unix)
    task = client.start_task()
    task.append(small, wait=False)
    calls: list[Callable[[], Any]] = [
        lambda: task.append(huge),
        lambda: task.append(huge, wait=False),
        lambda: list(task.append_many([small, huge, small])),
    ]
    for call in calls:
        with pytest.raises(errors.TooLarge, match="at most 16777216 are allowed") as refused:
            call()
        error = refused.value
        assert error.reason == "TOO_LARGE" and error.code.name == "INVALID_ARGUMENT"
        assert error.metadata["limit"] == "16777216" and int(error.metadata["size"]) > megabytes << 20
    assert task.current().to_list() == [small] * 2 and task.append(small).seq == 3
    client.close()


def test_a_message_that_is_too_large_is_refused_with_asyncio(
    shared_server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        async with AsyncClient(shared_server.unix) as client:
            task = await client.start_task()
            huge = json.dumps({"role": "user", "content": "x" * (40 << 20)})
            for wait in (True, False):
                with pytest.raises(errors.TooLarge, match="at most 16777216 are allowed"):
                    await task.append(huge, wait=wait)
            with pytest.raises(errors.TooLarge) as refused:
                async for _ in task.append_many([huge]):
                    pass
            assert refused.value.index == 0
            assert (await task.append({"role": "user", "content": "Hello"})).seq == 1

    asyncio.run(story())
    assert capfd.readouterr().err == ""
