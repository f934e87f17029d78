"""Rendered requests and the providers' own packages: their types accept the bodies of hostile histories and give them
back as they were, and what the packages send of them is taken by the strict fake, which answers.

`HISTORIES` is how many (40, and 200 in `make test-long`), `SEED` the first one: a failure names its seed.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import anthropic
import httpx
import ollama
import openai
import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from contextstore import AsyncClient, Client, Task
from faking import FakeLlm
from ollama._types import ChatRequest, Image, Message
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import ConfigDict, TypeAdapter
from serving import BINARY, LONG, Server
from typing_extensions import NotRequired, Required, TypedDict, get_type_hints, is_typeddict

SEED = int(os.environ.get("SEED", 0))
COUNT = int(os.environ.get("HISTORIES") or (200 if LONG else 40))
PROGRAM = BINARY.parent / "histories"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "A tool.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
    for name in ("read", "write_file", "run-tests", "search")
]


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeLlm]:
    fake = FakeLlm()
    yield fake
    fake.remove()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def histories(server: Server) -> Iterator[list[tuple[int, Task]]]:
    """A task of a real server for each history."""
    command = [PROGRAM, "--seed", str(SEED), "--count", str(COUNT), "--large-images"]
    printed = subprocess.run(command, check=True, capture_output=True).stdout
    with Client(server.unix) as client:
        tasks = []
        for line in printed.splitlines():
            history = json.loads(line)
            task = client.start_task(config={"durability": "process"})
            appended = list(task.append_many(history["messages"]))
            assert len(appended) == len(history["messages"])
            tasks.append((history["seed"], task))
        assert len(tasks) == COUNT
        yield tasks


def body(task: Task, seed: int, provider: str) -> dict[str, Any]:
    """What is rendered; every second one has tools."""
    params = {"max_tokens": 1000} if provider == "anthropic" else {}
    tools = TOOLS if seed % 2 else None
    rendered: dict[str, Any] = json.loads(
        b"".join(task.request(provider, model="fake", params={**params, "stream": False}, tools=tools))
    )
    return rendered


def checked(kind: Any, within: tuple[Any, ...] = ()) -> Any:
    """A type of a package, made to be checked: fields that it does not know are refused, and lists are lists.

    What the packages call Iterable, pydantic would only look at when it is read, once.
    """
    if kind in within:
        return Any
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        fields = {
            name: Required[found] if name in kind.__required_keys__ else NotRequired[found]
            for name, hint in hints.items()
            for found in [checked(_bare(hint), (*within, kind))]
        }
        made = TypedDict(kind.__name__, fields)  # type: ignore[misc]
        made.__pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=True)  # type: ignore[attr-defined]
        return made
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return Union[tuple(checked(each, within) for each in arguments)]
    if origin in (Iterable, Sequence, list):
        return list[checked(arguments[0], within)]  # type: ignore[misc]
    if origin is dict:
        return dict[arguments[0], checked(arguments[1], within)]  # type: ignore[misc,valid-type]
    return checked(arguments[0], within) if origin is Annotated else kind


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint


def typed(kind: Any) -> Callable[[dict[str, Any]], Any]:
    """Through a type and back."""
    adapter: TypeAdapter[Any] = TypeAdapter(checked(kind))
    return lambda rendered: adapter.dump_python(adapter.validate_python(rendered))


def ollama_types(rendered: dict[str, Any]) -> Any:
    """As the package makes its requests, but for the empty texts that it leaves out."""
    given = {**rendered, "messages": [ollama_message(message) for message in rendered["messages"]]}
    return ChatRequest(**given).model_dump(exclude_none=True)


def ollama_message(message: dict[str, Any]) -> Message:
    images = {"images": [Image(value=image) for image in message["images"]]} if "images" in message else {}
    return Message(**{**message, **images})


TYPES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "openai": typed(CompletionCreateParamsNonStreaming),
    "openai_responses": typed(ResponseCreateParamsNonStreaming),
    "anthropic": typed(MessageCreateParamsNonStreaming),
    "ollama": ollama_types,
    "lmstudio": typed(CompletionCreateParamsNonStreaming),
}


def differs(provider: str, given: dict[str, Any]) -> bool:
    """Whether the type refuses it, or makes something else of it."""
    try:
        return bool(TYPES[provider](given) != given)
    except ValueError:
        return True


@pytest.mark.parametrize("provider", TYPES)
def test_the_types_find_what_is_wrong(provider: str) -> None:
    messages = "input" if provider == "openai_responses" else "messages"
    given = {"model": "m", "stream": False, **({"max_tokens": 1} if provider == "anthropic" else {})}
    good = {"role": "user", "content": "x"}
    assert not differs(provider, {**given, messages: [good]})
    for bad in ({**good, "unknown": 1}, {"role": 1, "content": "x"}, {**good, "content": 1}):
        assert differs(provider, {**given, messages: [good, bad]}), bad
    assert differs(provider, {**given, messages: [good], "unknown": 1})


@pytest.mark.parametrize("provider", TYPES)
def test_the_types_of_the_packages_accept_every_body(
    histories: list[tuple[int, Task]], provider: str
) -> None:
    for seed, task in histories:
        rendered = body(task, seed, provider)
        assert TYPES[provider](rendered) == rendered, f"seed {seed}"


def ask_openai(fake: FakeLlm, provider: str = "openai") -> Callable[[dict[str, Any]], str | None]:
    client = openai.OpenAI(api_key="sk-test", base_url=fake.base_url(provider), max_retries=0)
    return lambda given: client.chat.completions.create(**given).choices[0].message.content


def ask_lmstudio(fake: FakeLlm) -> Callable[[dict[str, Any]], str | None]:
    """By the package of OpenAI, as its users ask it."""
    return ask_openai(fake, "lmstudio")


def ask_responses(fake: FakeLlm) -> Callable[[dict[str, Any]], str | None]:
    client = openai.OpenAI(api_key="sk-test", base_url=fake.base_url("openai"), max_retries=0)
    return lambda given: client.responses.create(**given).output_text


def ask_anthropic(fake: FakeLlm) -> Callable[[dict[str, Any]], str | None]:
    client = anthropic.Anthropic(api_key="sk-test", base_url=fake.base_url("anthropic"), max_retries=0)
    return lambda given: client.messages.create(**given).content[0].text  # type: ignore[union-attr]


def ask_ollama(fake: FakeLlm) -> Callable[[dict[str, Any]], str | None]:
    client = ollama.Client(fake.base_url("ollama"))
    return lambda given: client.chat(**given).message.content


ASK = {
    "openai": ask_openai,
    "openai_responses": ask_responses,
    "anthropic": ask_anthropic,
    "ollama": ask_ollama,
    "lmstudio": ask_lmstudio,
}


@pytest.mark.parametrize("provider", ASK)
def test_the_packages_get_their_answers(
    histories: list[tuple[int, Task]], fake: FakeLlm, provider: str
) -> None:
    fake.reset()
    ask = ASK[provider](fake)
    for seed, task in histories:
        said = f"The answer to {seed}."
        fake.script(text=said)
        assert ask(body(task, seed, provider)) == said, f"seed {seed}"
    assert {request["verdict"] for request in fake.requests()} == {"ok"}
    assert len(fake.requests()) == COUNT


def test_httpx_sends_a_body_as_it_comes(
    histories: list[tuple[int, Task]], server: Server, fake: FakeLlm
) -> None:
    fake.reset()
    url = fake.base_url("openai") + "/chat/completions"
    headers = {"authorization": "Bearer sk-test", "content-type": "application/json"}
    _, task = histories[0]
    params = {"stream": False}
    answer = httpx.post(url, headers=headers, content=task.request("openai", model="fake", params=params))
    assert answer.status_code == 200, answer.text

    async def again() -> httpx.Response:
        async with AsyncClient(server.unix) as client, httpx.AsyncClient() as http:
            same = await client.task(task.uuid)
            content = same.request("openai", model="fake", params=params)
            return await http.post(url, headers=headers, content=content)

    assert asyncio.run(again()).status_code == 200
    first, second = fake.requests()
    assert first["verdict"] == second["verdict"] == "ok" and first["blake3"] == second["blake3"]
