"""Hooks: what an agent wants done before its task ends, and what an error of one does."""

from __future__ import annotations

import asyncio
import logging

import pytest
from serving import Server

from contextstore import AsyncClient, AsyncTask, Client, Ending, Task, errors, short_name


# feature: hooks
@pytest.mark.quick
def test_hooks_run_in_order_before_the_status_changes(client: Client) -> None:
    task = client.start_task()
    seen: list[tuple[str, str, str]] = []

    def note(name: str) -> None:
        def hook(ending: Ending[Task]) -> None:
            seen.append((name, ending.status, short_name(ending.task.get().task, "status")))

        task.on_complete(name, hook)
        task.on_stop(name, hook)

    for name in ("first", "second", "first"):
        note(name)
    task.pause()
    task.resume()
    assert seen == [("first", "paused", "running"), ("second", "paused", "running")]
    seen.clear()
    task.complete("All done.")
    assert seen == [("first", "completed", "running"), ("second", "completed", "running")]


def test_a_hook_knows_how_the_task_ends(client: Client) -> None:
    endings: list[Ending[Task]] = []
    task = client.start_task()
    task.on_stop("note", endings.append)
    task.on_complete("never", lambda ending: pytest.fail("it was not completed"))
    task.fail("no luck", final_summary="Tried.")
    (ending,) = endings
    assert (ending.status, ending.error_message, ending.final_summary) == ("failed", "no luck", "Tried.")


def test_errors_are_reported_and_the_task_ends(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    task = client.start_task()
    called: list[str] = []

    def broken(ending: Ending[Task]) -> None:
        raise ValueError("broken")

    task.on_complete("broken", broken)
    task.on_complete("fine", lambda ending: called.append("fine"))
    with caplog.at_level(logging.ERROR, logger="contextstore"):
        assert short_name(task.complete(), "status") == "completed"
    assert called == ["fine"]
    ((name, error),) = [(failure.name, failure.error) for failure in task.hook_failures]
    assert name == "broken" and isinstance(error, ValueError)
    assert "'broken'" in caplog.text and task.uuid in caplog.text


def test_errors_can_stop_it(client: Client) -> None:
    task = client.start_task()
    task.hook_errors = "stop"

    def broken(ending: Ending[Task]) -> None:
        raise ValueError("broken")

    task.on_complete("broken", broken)
    task.on_complete("later", lambda ending: pytest.fail("it was stopped before"))
    with pytest.raises(errors.HookFailed) as stopped:
        task.complete()
    assert isinstance(stopped.value.__cause__, ValueError) and stopped.value.metadata == {"hook": "broken"}
    assert (
        short_name(task.get().task, "status") == "running"
        and task.append({"role": "user", "content": "On."}).seq == 1
    )
    task.on_complete("broken", lambda ending: None)
    task.on_complete("later", lambda ending: None)
    assert short_name(task.complete(), "status") == "completed" and task.hook_failures == []


def test_a_coroutine_is_awaited_where_that_is_possible(shared_server: Server, client: Client) -> None:
    seen: list[str] = []

    async def hook(ending: Ending[AsyncTask]) -> None:
        seen.append(short_name((await ending.task.get()).task, "status"))

    async def broken(ending: Ending[AsyncTask]) -> None:
        raise ValueError("broken")

    async def story() -> None:
        async with AsyncClient(shared_server.unix) as other:
            task = await other.start_task()
            task.on_stop("look", hook)
            task.on_complete("broken", broken)
            task.on_complete("look", hook)
            task.on_complete("plain", lambda ending: seen.append(ending.status))
            await task.pause()
            await task.resume()
            task.hook_errors = "stop"
            with pytest.raises(errors.HookFailed):
                await task.complete()
            task.hook_errors = "continue"
            await task.complete()
            assert [failure.name for failure in task.hook_failures] == ["broken"]

    asyncio.run(story())
    assert seen == ["running", "running", "completed"]
    with pytest.raises(TypeError, match="coroutine"):
        client.start_task().on_complete("look", hook)  # type: ignore[arg-type]
