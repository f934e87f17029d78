"""Chat and RenderContext with the real server and the strict fake of the providers, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import itertools
import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from faking import PROVIDERS, FakeLlm
from serving import DEADLINE, Server, eventually

from contextstore import (
    AsyncClient,
    AsyncTask,
    ChatDone,
    ChatEvent,
    ChatReasoning,
    ChatStarted,
    ChatText,
    ChatToolCall,
    ChatUsage,
    Client,
    InvalidField,
    NewMessage,
    ProviderFailed,
    ProviderNotConfigured,
    ProviderRefused,
    RequestTooLarge,
    Task,
    short_name,
)

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "read",
            "description": "Reads a file",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
]
LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"


@pytest.fixture
def task(chat_server: Server) -> Iterator[Task]:
    with Client(chat_server.unix) as client:
        yield client.start_task()


def in_async(server: Server, work: Callable[[AsyncTask], Any]) -> Any:
    """What it makes of a new task."""

    async def run() -> Any:
        async with AsyncClient(server.unix) as client:
            return await work(await client.start_task())

    return asyncio.run(run())


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def text_of(events: list[ChatEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, ChatText))


def whole(events: list[ChatEvent]) -> ChatDone:
    assert isinstance(events[0], ChatStarted) and isinstance(events[-1], ChatDone), events
    return events[-1]


def last_of(task: Task) -> dict[str, Any]:
    return list(task.messages(kinds=["message"]))[-1]


# feature: chat
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_turn(task: Task, fake: FakeLlm, provider: str) -> None:
    fake.script(text="It rains in 東京.", cached_tokens=3)
    system = NewMessage({"role": "system", "content": "Be brief."}, pinned=True)
    events = list(task.chat([system, user("Weather?")], provider=provider))
    assert events[0] == ChatStarted((1, 2), provider, "fake")
    assert text_of(events) == "It rains in 東京." and len(events) > 4
    (usage,) = [event for event in events if isinstance(event, ChatUsage)]
    assert usage.input_tokens > 0 and usage.output_tokens > 0
    done = whole(events)
    assert (done.seq, done.finish_reason, done.duplicate) == (3, "stop", False)
    assert done.message == {"role": "assistant", "content": "It rains in 東京."}
    assert done.tool_calls == [] and done.pressure.tokens > 0
    assert task.get_message(1).pinned and task.get().task.statistics.llm_call_count == 1
    assert [request["verdict"] for request in fake.requests()] == ["ok"]


def test_calls_of_tools_and_their_results(task: Task, fake: FakeLlm) -> None:
    fake.script(
        thinking="Where is it?",
        tool_calls=[{"name": "read", "arguments": json.dumps({"path": path})} for path in "ab"],
    )
    params = {"max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 2000}}
    events = list(task.chat(user("Compare"), provider="anthropic", model="m", params=params, tools=TOOLS))
    assert "".join(event.text for event in events if isinstance(event, ChatReasoning)) == "Where is it?"
    pieces = [event for event in events if isinstance(event, ChatToolCall)]
    done = whole(events)
    assert done.finish_reason == "tool_calls" and len(done.tool_calls) == 2
    for index, call in enumerate(done.tool_calls):
        mine = [piece for piece in pieces if piece.index == index]
        assert (mine[0].id, mine[0].name) == (call["id"], "read")
        assert "".join(piece.arguments for piece in mine) == call["function"]["arguments"]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "x"} for call in done.tool_calls]
    events = list(task.chat(results, provider="anthropic", model="m", params=params, tools=TOOLS))
    assert whole(events).finish_reason == "stop"
    assert [request["verdict"] for request in fake.requests()] == ["ok", "ok"]


def test_the_same_turn_again_is_told_and_not_asked(task: Task, fake: FakeLlm) -> None:
    first = whole(list(task.chat(user("Hello"), provider="openai", request_id="turn")))
    again = list(task.chat(user("Hello"), provider="openai", request_id="turn"))
    assert [type(event) for event in again] == [ChatStarted, ChatDone]
    assert whole(again).duplicate and whole(again).message == first.message
    assert len(fake.requests()) == 1


def interrupted(task: Task) -> dict[str, Any]:
    eventually(lambda: bool(last_of(task)["role"] == "assistant"))
    return last_of(task)


def gone(fake: FakeLlm) -> None:
    eventually(lambda: bool(fake.requests()[0]["answer"] == "gone"))


def test_closing_it_cancels_the_call_and_what_arrived_stays(task: Task, fake: FakeLlm) -> None:
    fake.script(text=LONG, fault="hang_mid_stream")
    answer = task.chat(user("Count"), provider="openai")
    heard = next(event.text for event in answer if isinstance(event, ChatText))
    answer.close()
    last = interrupted(task)
    assert last["content"].startswith(heard) and last["extra"]["interrupted"] is True
    gone(fake)
    whole(list(task.chat(user("Go on"), provider="openai")))
    assert fake.requests()[1]["verdict"] == "ok"


def test_a_break_is_told_and_not_repeated(task: Task, fake: FakeLlm) -> None:
    fake.script(text=LONG, fault="break_mid_stream")
    events = []
    with pytest.raises(ProviderFailed) as caught:
        for event in task.chat(user("Count"), provider="openai"):
            events.append(event)
    assert caught.value.reason == "PROVIDER_FAILED"
    assert last_of(task)["content"] == text_of(events) != ""
    assert len(fake.requests()) == 1


def test_what_the_provider_or_the_server_refuses(task: Task, fake: FakeLlm, shared_server: Server) -> None:
    fake.script(status=400, message="no such model")
    with pytest.raises(ProviderRefused, match="no such model"):
        list(task.chat(user("Hello"), provider="openai"))
    with Client(shared_server.unix) as client, pytest.raises(ProviderNotConfigured):
        list(client.start_task().chat(user("Hello")))


def test_a_turn_in_asyncio(chat_server: Server, fake: FakeLlm) -> None:
    async def work(task: AsyncTask) -> None:
        fake.script(tool_calls=[{"name": "read", "arguments": '{"path":"a"}'}])
        events = [event async for event in task.chat(user("Read a"), provider="ollama", tools=TOOLS)]
        (call,) = whole(events).tool_calls
        result = {"role": "tool", "tool_call_id": call["id"], "content": "x"}
        events = [event async for event in task.chat([result], provider="ollama", tools=TOOLS)]
        assert whole(events).seq == 4 and text_of(events) == "Echo: x"
        body = b"".join([chunk async for chunk in task.request("ollama", model="m")])
        messages = json.loads(body)["messages"]
        assert len(messages) == 5 and messages[-1]["content"] == "Continue."

        fake.reset()
        fake.script(text=LONG, fault="hang_mid_stream")
        answer = task.chat(user("Count"), provider="openai")
        async for event in answer:
            if isinstance(event, ChatText):
                break
        await answer.aclose()
        await asyncio.to_thread(gone, fake)

        fake.script(fault="hang_before_headers")
        with pytest.raises(asyncio.TimeoutError):
            waiting = task.chat(user("Hello?"), provider="openai")
            await asyncio.wait_for(_all(waiting), 0.5)

    in_async(chat_server, work)


async def _all(events: Any) -> list[ChatEvent]:
    return [event async for event in events]


# feature: request-body
@pytest.mark.parametrize("provider", PROVIDERS[:4])
def test_the_body_of_a_request(task: Task, fake: FakeLlm, provider: str) -> None:
    task.update({"compression": {"auto": False}})
    task.append({"role": "system", "content": "Be brief."})
    task.append(user("x" * 300_000))
    task.append({"role": "user", "content": "Say it."})
    params = {"max_tokens": 100} if provider == "anthropic" else {}
    chunks = list(task.request(provider, model="m", params={**params, "stream": False}, tools=TOOLS))
    assert len(chunks) > 1
    path = {
        "openai": "/v1/chat/completions",
        "openai_responses": "/v1/responses",
        "anthropic": "/v1/messages",
        "ollama": "/api/chat",
    }[provider]
    headers = {
        "content-type": "application/json",
        "authorization": "Bearer k",
        "x-api-key": "k",
        "anthropic-version": "2023-06-01",
    }
    again = task.request(provider, model="m", params={**params, "stream": False}, tools=TOOLS)
    request = urllib.request.Request(fake.url + path, data=again, headers=headers, method="POST")
    with urllib.request.urlopen(request, timeout=DEADLINE) as response:
        assert "Echo: Say it." in response.read().decode()
    (got,) = fake.requests()
    assert (got["verdict"], got["bytes"]) == ("ok", sum(map(len, chunks)))


def test_a_body_that_is_too_large(task: Task) -> None:
    task.append(user("x" * 10_000))
    with pytest.raises(RequestTooLarge):
        next(task.request("openai", model="m", max_bytes=1000))
    with pytest.raises(InvalidField) as caught:
        next(task.request("openai"))
    assert "model" in caught.value.fields
    body = task.request("openai", model="m", max_bytes=100_000)
    assert sum(map(len, itertools.chain(body))) > 10_000


def test_how_full_the_context_is(task: Task, chat_server: Server) -> None:
    appended = task.append(user("Hello"))
    usage = task.context_usage()
    assert (usage.messages, short_name(usage, "token_counter"), usage.calibration) == (1, "fitted", 1.0)
    assert usage.pressure == appended.pressure and usage.tools_tokens == 0
    with_tools = task.context_usage(tools=TOOLS)
    assert with_tools.tools_tokens > 0 and with_tools.pressure.tokens > usage.pressure.tokens

    async def work(other: AsyncTask) -> int:
        return (await other.context_usage(tools=TOOLS)).tools_tokens

    assert in_async(chat_server, work) == with_tools.tools_tokens
