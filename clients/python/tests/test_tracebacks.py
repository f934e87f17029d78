"""What a user sees of an error: the last line of the traceback is one of the user's own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import DEADLINE, Server

from contextstore import (
    AsyncClient,
    AsyncTask,
    Client,
    ContextStoreError,
    Ending,
    HookFailed,
    InvalidField,
    Task,
    Unreachable,
    connect_or_spawn,
    tools,
)

pytestmark = pytest.mark.quick
WIZARD = {"role": "wizard", "content": "Abracadabra"}
USER = {"role": "user", "content": "Hello"}


def ends_here(error: BaseException) -> None:
    """The user's frame is the last one."""
    frames = traceback.extract_tb(error.__traceback__)
    assert frames[-1].filename == __file__, "".join(traceback.format_exception(error))


FAILING: list[Callable[[Task], Any]] = [
    lambda task: task.append(WIZARD),
    lambda task: task.append(5),  # type: ignore[call-overload]
    lambda task: task.append({"role": "user", "content": float("nan")}),
    lambda task: (task.append(WIZARD, wait=False), task.flush()),
    lambda task: list(task.append_many([WIZARD])),
    lambda task: list(task.messages(from_seq=-1)),
    lambda task: task.current(as_of_seq=99).to_list(),
    lambda task: task.current(as_of_seq=99).read(),
    lambda task: list(task.request_body("nobody")),
    lambda task: list(task.chat(provider="nobody")),
    lambda task: task.rewind(99),
    lambda task: task.output.put(5),  # type: ignore[arg-type]
    lambda task: task.output.read("none").text(),
    lambda task: list(task.output.grep("(")),
    lambda task: task.begin_compaction(),
    lambda task: task.client.get_task("none"),
    lambda task: task.client.task(7),  # type: ignore[arg-type]
    lambda task: list(task.client.list_tasks(order="none")),
    lambda task: Client(None),  # type: ignore[arg-type]
    lambda task: Client.from_env(token=5),
    lambda task: Client("unix:/none").server_info(),
    lambda task: connect_or_spawn(5),  # type: ignore[arg-type]
    lambda task: task.complete(nothing=5),  # type: ignore[call-arg]
    lambda task: tools.dispatch(task, 5),
]


@pytest.mark.parametrize("fail", FAILING, ids=range(len(FAILING)))
def test_the_users_own_line_comes_last(shared_server: Server, fail: Callable[[Task], Any]) -> None:
    with Client(shared_server.unix) as client:
        task = client.start_task()
        with pytest.raises((ContextStoreError, TypeError, ValueError, AttributeError)) as raised:
            fail(task)
        ends_here(raised.value)


def test_the_same_for_asyncio(shared_server: Server) -> None:
    async def flush(task: AsyncTask) -> None:
        await task.append(WIZARD, wait=False)
        await task.flush()

    async def read(task: AsyncTask) -> None:
        async for _ in task.messages(from_seq=-1):
            pass

    async def many(task: AsyncTask) -> None:
        async for _ in task.append_many([WIZARD]):
            pass

    async def enter(task: AsyncTask) -> None:
        async with task.client.start_task(user=5):  # type: ignore[arg-type]
            pass

    failing: list[Callable[[AsyncTask], Any]] = [
        lambda task: task.append(WIZARD),
        flush,
        read,
        many,
        enter,
        lambda task: task.current(as_of_seq=99).to_list(),
        lambda task: task.client.resume_task("none"),
        lambda task: task.client.task(None),  # type: ignore[arg-type]
    ]

    async def story() -> None:
        async with AsyncClient(shared_server.unix) as client:
            for fail in failing:
                task = await client.start_task()
                with pytest.raises((ContextStoreError, TypeError, ValueError)) as raised:
                    await fail(task)
                ends_here(raised.value)

    asyncio.run(story())


def test_functions_of_the_user_stay_in_it(shared_server: Server) -> None:
    def source() -> Iterator[dict[str, str]]:
        yield USER
        raise ValueError("no more")

    def hook(ending: Ending[Task]) -> None:
        ending.task.append(WIZARD)

    async def asynchronous_source() -> AsyncIterator[dict[str, str]]:
        for message in source():
            yield message

    async def story() -> None:
        async with AsyncClient(shared_server.unix) as client:
            task = await client.start_task()
            async for _ in task.append_many(asynchronous_source()):
                pass

    with Client(shared_server.unix) as client:
        task = client.start_task()
        for fail in (lambda: list(task.append_many(source())), lambda: asyncio.run(story())):
            with pytest.raises(ValueError, match="no more") as raised:
                fail()
            assert traceback.extract_tb(raised.value.__traceback__)[-1].name == "source"
        task.on_complete("say so", hook)
        task.hook_errors = "stop"
        with pytest.raises(HookFailed) as failed:
            task.complete()
        ends_here(failed.value)
        cause = failed.value.__cause__
        assert isinstance(cause, InvalidField)
        assert traceback.extract_tb(cause.__traceback__)[-1].name in ("hook", "called")


def test_what_is_printed(tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(
        "import contextstore\n\n\ndef work(client):\n    client.start_task()\n\n\n"
        'work(contextstore.Client("unix:/none/contextstore.sock"))\n'
    )

    def printed(**env: str) -> str:
        environment = {"PYTHONPATH": ":".join(sys.path), **env}
        done = subprocess.run(
            [sys.executable, program], env=environment, capture_output=True, text=True, timeout=DEADLINE
        )
        return done.stderr

    said = printed()
    assert "contextstore/client.py" not in said and "grpc" not in said
    *_, where, line, error = [line for line in said.splitlines() if line.strip(" ^~")]
    assert where.strip() == f'File "{program}", line 5, in work' and line.strip() == "client.start_task()"
    assert error.startswith(f"contextstore.errors.{Unreachable.__name__}: there is no server at unix:/none")
    # For those who look for a mistake in the client.
    assert "contextstore/client.py" in printed(CONTEXTSTORE_TRACEBACK="full")
