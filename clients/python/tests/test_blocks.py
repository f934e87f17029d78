"""A task ends with its block; tasks are found by their keys; calls of tools are timed and recorded."""

from __future__ import annotations

import asyncio
import io
import itertools
import time
from typing import Any

import pytest
from serving import DEADLINE, Server

from contextstore import AsyncClient, Client, TaskKey, errors, short_name

USER = {"role": "user", "content": "Hello"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
}
_numbers = itertools.count()


def new_key() -> dict[str, str]:
    number = f"{time.time_ns()}-{next(_numbers)}"
    return {"task_source": "tests", "owner": "octo", "repo": "hello", "task_type": "issue", "task_id": number}


@pytest.mark.quick
def test_a_block_ends_its_task(client: Client) -> None:
    with client.start_task() as task:
        task.append(USER)
    assert short_name(client.get_task(task.uuid).task, "status") == "completed" and task.lease_generation == 0

    with pytest.raises(KeyError), client.start_task() as failed:
        raise KeyError("mine")
    state = client.get_task(failed.uuid).task
    assert (short_name(state, "status"), state.error_message) == ("failed", "KeyError: 'mine'")

    with pytest.raises(KeyboardInterrupt), client.start_task() as stopped:
        raise KeyboardInterrupt
    assert short_name(client.get_task(stopped.uuid).task, "status") == "paused"

    with client.start_task() as paused:
        paused.pause()
    assert short_name(client.get_task(paused.uuid).task, "status") == "paused"
    with client.start_task() as done:
        done.complete("My own words.")
    assert client.get_task(done.uuid).task.final_summary == "My own words."
    with client.start_task() as removed:
        removed.delete()
    with client.task(done.uuid) as reader:
        assert list(reader.messages())
    assert short_name(client.get_task(done.uuid).task, "status") == "completed"


def test_hooks_run_at_the_end_of_a_block(client: Client) -> None:
    seen: list[str] = []
    with client.start_task() as task:
        task.on_complete("say so", lambda ending: seen.append(ending.status))
    assert seen == ["completed"]


def wait_until_listed(client: Client, key: dict[str, str], status: str) -> None:
    """The list is behind the tasks by at most a second."""
    deadline = time.monotonic() + DEADLINE
    while not list(client.list_tasks(key=key, statuses=status)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


# feature: tasks-by-key
def test_a_task_is_found_by_its_key(client: Client, shared_server: Server) -> None:
    key = new_key()
    first = client.task(key, user="ada", system_message="Be brief.")
    assert not first.resumed and first.info.key == TaskKey(**key) and first.append(USER).seq == 2
    wait_until_listed(client, key, "running")
    # The agent was restarted.
    with Client(shared_server.unix, instance_id=client.instance_id) as restarted:
        again = restarted.task(key, user="ada")
        assert again.resumed and again.uuid == first.uuid and again.lease_generation >= 2
        assert again.append(USER).seq == 3
        # Of another user, and with a key of which this is a part: other tasks.
        assert restarted.task(key, user="bob").uuid != first.uuid
        assert restarted.task(key["task_id"]).uuid != first.uuid
        # Another client at the same time.
        with Client(shared_server.unix) as other, pytest.raises(errors.LeaseHeld):
            other.task(key, user="ada")
        again.pause()
    wait_until_listed(client, key, "paused")
    resumed = client.task(key, user="ada")
    assert resumed.resumed and resumed.uuid == first.uuid and resumed.status == "running"
    resumed.complete("All is said.")
    wait_until_listed(client, key, "completed")
    second = client.task(key, user="ada")
    assert not second.resumed and second.uuid != first.uuid and second.inherited_from == first.uuid


# feature: tool-wrapper
@pytest.mark.quick
def test_calls_of_tools_are_timed_and_recorded(client: Client) -> None:
    task = client.start_task()
    task.append(CALL)
    with task.tool("ls", arguments={"path": "."}, call_id="c1", message_seq=1) as call:
        time.sleep(0.02)
        call.result = ["a.txt"]
    assert call.seq == 2 and call.duration >= 0.02 and call.error is None
    with pytest.raises(ValueError), task.tool("rm"):
        raise ValueError("not allowed")
    with task.tool("rm", arguments="x", suppress=True) as refused:
        raise ValueError("not allowed")
    assert refused.error == "ValueError: not allowed"
    with pytest.raises(KeyboardInterrupt), task.tool("sleep", suppress=True):
        raise KeyboardInterrupt
    with task.tool("make") as make:
        make.error, make.result = "exit code 2", "make: *** no rule"
    records = list(task.tool_calls())
    assert [(each["tool_name"], each["status"]) for each in records] == [
        ("ls", "success"),
        ("rm", "error"),
        ("rm", "error"),
        ("sleep", "error"),
        ("make", "error"),
    ]
    assert records[0]["duration_ms"] >= 20 and records[0]["result"] == ["a.txt"]
    messages = task.current().to_list()
    assert (
        messages[1] == {"role": "tool", "content": '["a.txt"]', "tool_call_id": "c1"} and len(messages) == 2
    )


def test_the_model_is_told_what_went_wrong(client: Client) -> None:
    task = client.start_task()
    task.append(CALL)
    with task.tool("ls", call_id="c1", suppress=True):
        raise FileNotFoundError("no such folder")
    assert task.current().to_list()[1]["content"] == "Error: FileNotFoundError: no such folder"


def test_that_the_model_could_not_be_told_is_raised(client: Client) -> None:
    task = client.start_task()
    task.append(CALL)
    with pytest.raises(errors.WrongStatus), task.tool("ls", call_id="c1", suppress=True):
        task.pause()
        raise FileNotFoundError("no such folder")
    # An error that is raised anyway is what the caller hears.
    with pytest.raises(FileNotFoundError), task.tool("ls", call_id="c1"):
        raise FileNotFoundError("no such folder")


@pytest.mark.quick
def test_the_view_in_every_form(client: Client) -> None:
    task = client.start_task()
    messages = [{"role": "user", "content": "ü" * size} for size in (1, 5000, 3)]
    list(task.append_many(messages))
    whole = b"".join(task.current())
    assert task.current().to_list() == list(task.current().messages()) == messages
    assert task.current().read() == whole
    view = task.current(chunk_bytes=1000)
    assert [len(view.read(700)) for _ in range(3)] == [700] * 3
    assert view.read(0) == b"" and view.read(10**9) == whole[2100:] and view.read() == b"" == view.read(5)
    view = task.current(chunk_bytes=100)
    assert view.read(10) + b"".join(view) == whole
    with task.current(chunk_bytes=64).file() as file:
        assert isinstance(file, io.BufferedReader) and list(file) == whole.splitlines(keepends=True)
    with task.current(chunk_bytes=1) as view:
        next(view)
    assert list(view) == []

    body = task.request_body("openai", model="m")
    # As often as an HTTP client needs it.
    assert b"".join(body) == b"".join(body) == body.to_bytes() == b"".join(task.request("openai", model="m"))
    assert body.to_bytes().startswith(b'{"model":"m"')


def test_the_same_for_asyncio(shared_server: Server, transport: str) -> None:
    async def story() -> None:
        address, token_file = shared_server.client_args(transport)
        async with AsyncClient(address, token_file=token_file) as client:
            async with client.start_task() as task:
                await task.append(CALL)
                async with task.tool("ls", call_id="c1") as call:
                    call.result = "a.txt"
                assert call.seq == 2
                async with task.tool("rm", suppress=True):
                    raise ValueError("not allowed")
                assert [each["status"] async for each in task.tool_calls()] == ["success", "error"]
                whole = b"".join([chunk async for chunk in task.current(chunk_bytes=10)])
                view = task.current(chunk_bytes=10)
                assert await view.read(7) + await view.read() == whole
                assert await task.current().to_list() == [m async for m in task.current_messages()]
                async with task.current(chunk_bytes=1) as view:
                    await anext(view)
                body = task.request_body("openai", model="m")
                assert await body.to_bytes() == await body.to_bytes()
            assert short_name((await client.get_task(task.uuid)).task, "status") == "completed"

            with pytest.raises(KeyError):
                async with client.start_task() as failed:
                    raise KeyError("mine")
            assert (await client.get_task(failed.uuid)).task.error_message == "KeyError: 'mine'"

            started = asyncio.Event()
            uuids: list[str] = []

            async def work() -> None:
                async with client.task(new_key()) as task:
                    uuids.append(task.uuid)
                    started.set()
                    await asyncio.sleep(60)

            working = asyncio.create_task(work())
            await asyncio.wait_for(started.wait(), timeout=DEADLINE)
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
            assert short_name((await client.get_task(uuids[0])).task, "status") == "paused"

            key: dict[str, Any] = new_key()
            first = await client.task(key)
            deadline = time.monotonic() + DEADLINE
            while not [info async for info in client.list_tasks(key=key)]:
                assert time.monotonic() < deadline
            again = await client.task(key)
            assert again.resumed and again.uuid == first.uuid

    asyncio.run(asyncio.wait_for(story(), timeout=2 * DEADLINE))
