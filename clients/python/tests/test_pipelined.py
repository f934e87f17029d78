"""Appends that are not waited for: in order with everything else, and what fails is told at the next call that waits."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from serving import DEADLINE, LONG, Server, eventually
from test_retries import GONE, UNAVAILABLE, serve

from contextstore import (
    AsyncClient,
    AsyncTask,
    Client,
    Message,
    MessageToolCall,
    NewMessage,
    Task,
    errors,
    short_name,
)
from contextstore.v1 import message_pb2

USER = {"role": "user", "content": "Hello"}


def said(number: int) -> dict[str, str]:
    return {"role": "user", "content": f"message {number}"}


# feature: append-later
@pytest.mark.quick
def test_everything_else_comes_behind_it(client: Client) -> None:
    task = client.start_task(config={"compression": {"auto": False}})
    assert task.flush() is None
    for number in range(1, 101):
        assert task.append(said(number), wait=False) is None
    assert task.current().to_list() == [said(number) for number in range(1, 101)]
    task.append(said(101), wait=False)
    assert task.append(said(102)).seq == 102
    task.append(said(103), wait=False)
    assert [ack.seq for ack in task.append_many([said(104)])] == [104]
    task.append(said(105), wait=False, pinned=True)
    assert task.get().task.last_seq == 105 and task.get_message(105).pinned
    task.append(said(106), wait=False)
    last = task.flush()
    assert last is not None and last.seq == 106
    task.append(said(107), wait=False)
    task.append_plan({"steps": []})
    task.append(said(108), wait=False)
    assert task.complete("Done.").last_seq == 108


def test_more_than_can_be_under_way(client: Client) -> None:
    task = client.start_task(config={"compression": {"auto": False}})
    count = 3000 if LONG else 1500
    for number in range(count):
        task.append({"role": "user", "content": f"{number} " + "x" * 5000}, wait=False)
    assert task.get().task.last_seq == count


@pytest.mark.quick
def test_what_failed_is_told_at_the_next_call(client: Client, shared_server: Server) -> None:
    task = client.start_task()
    with shared_server.frozen():
        for message in (said(1), {"role": "wizard"}, said(2)):
            task.append(message, wait=False)
    with pytest.raises(errors.InvalidField) as refused:
        list(task.current())
    assert refused.value.index == 1
    assert [json.loads(str(each.message)).get("content") for each in refused.value.not_appended] == [
        None,
        "message 2",
    ]
    # Told once; what comes later is as if nothing had been.
    assert task.current().to_list() == [said(1)]
    assert task.append(said(3)).seq == 2
    # A message that cannot be sent at all is told at once.
    with pytest.raises(TypeError, match="^message: "):
        task.append(7, wait=False)  # type: ignore[call-overload]


@pytest.mark.quick
def test_the_next_call_may_be_another_append(client: Client) -> None:
    task = client.start_task()
    sent: list[dict[str, str]] = []
    deadline = time.monotonic() + DEADLINE
    with pytest.raises(errors.InvalidField) as refused:
        while time.monotonic() < deadline:
            sent.append({"role": "wizard", "content": str(len(sent))})
            task.append(sent[-1], wait=False)
    assert refused.value.index == 0 and list(refused.value.fields) == ["message.json.role"]
    assert [json.loads(str(each.message)) for each in refused.value.not_appended] == sent
    # Told once, there too.
    assert task.flush() is None and task.append(said(1)).seq == 1


def test_a_block_fails_with_what_was_refused(client: Client, shared_server: Server) -> None:
    task = client.start_task()
    with pytest.raises(errors.InvalidField), task:
        task.append({"role": "wizard"}, wait=False)
        task.append(USER)
    assert task.status == "failed" and "InvalidField" in task.info.error_message
    other = client.start_task()
    with pytest.raises(errors.InvalidField), other, shared_server.frozen():
        other.append({"role": "wizard"}, wait=False)
    # Nobody has said what is to become of it: it is not completed, and can be gone on with.
    assert short_name(other.get().task, "status") == "running"


@pytest.mark.quick
def test_typed_messages(client: Client) -> None:
    task = client.start_task()

    class Said:
        """As OpenAI's own classes are."""

        def model_dump(self, *, mode: str, exclude_none: bool) -> dict[str, Any]:
            assert mode == "json" and exclude_none
            return {"role": "assistant", "content": "typed"}

        def __iter__(self) -> Any:
            raise AssertionError("it is one message")

    call = MessageToolCall(id="c1", name="ls", arguments="{}")
    task.append(Message(role="user", content="by its fields"))
    task.append(Said())
    typed: list[Any] = [
        Message(role="assistant", tool_calls=[call]),
        NewMessage(Message(role="tool", tool_call_id="c1", content="a.txt")),
        Said(),
    ]
    assert [ack.seq for ack in task.append_many(typed)] == [3, 4, 5]
    task.append(Message(role="user", content="later"), wait=False)
    messages = task.current().to_list()
    assert [message["role"] for message in messages] == [
        "user",
        "assistant",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert messages[2]["tool_calls"][0]["function"]["name"] == "ls"
    with pytest.raises(errors.InvalidField) as refused:
        list(task.append_many([USER, Message(role="")]))
    assert refused.value.index == 1 and refused.value.not_appended[0].message == message_pb2.Message()
    assert list(refused.value.fields) == ["message.fields.role"] and "[0]" not in str(refused.value)


def test_the_same_for_asyncio(shared_server: Server, transport: str) -> None:
    async def story() -> None:
        address, token_file = shared_server.client_args(transport)
        async with AsyncClient(address, token_file=token_file) as client:
            task = await client.start_task(config={"compression": {"auto": False}})
            for number in range(1, 1001):
                assert await task.append(said(number), wait=False) is None
            assert len(await task.current().to_list()) == 1000
            await task.append(said(1001), wait=False)
            assert (await task.append(said(1002))).seq == 1002
            await task.append(USER, wait=False)
            last = await task.flush()
            assert last is not None and last.seq == 1003 and await task.flush() is None
            await task.append({"role": "wizard"}, wait=False)
            with pytest.raises(errors.InvalidField) as refused:
                await task.complete()
            assert refused.value.index == 0
            await task.append(USER, wait=False)
            assert (await task.complete("Done.")).last_seq == 1004

    asyncio.run(story())


# The scripted server answers a message in a stream with the number in its output_ref, and fails at the third.


@pytest.mark.quick
def test_a_broken_connection_is_taken_up_again() -> None:
    with serve(UNAVAILABLE, UNAVAILABLE) as (scripted, address), Client(address) as client:
        task = client.start_task()
        for number in range(1, 6):
            task.append("{}", output_ref=str(number), wait=False)
        last = task.flush()
        assert last is not None and last.seq == 5 and scripted.failures == []


@pytest.mark.quick
def test_an_error_is_told_once() -> None:
    with serve(GONE, GONE, GONE) as (scripted, address), Client(address) as client:
        task = client.start_task()
        # An append that came behind the failure would be told, and not flush.
        scripted.may_fail.clear()
        for number in range(1, 6):
            task.append("{}", output_ref=str(number), wait=False)
        scripted.may_fail.set()
        with pytest.raises(errors.TaskNotFound) as gone:
            task.flush()
        assert gone.value.index == 2 and [each.output_ref for each in gone.value.not_appended] == [
            "3",
            "4",
            "5",
        ]
        scripted.failures = []
        assert task.flush() is None


@pytest.mark.quick
@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_server_that_hangs_while_a_stream_is_idle_costs_no_more_than_the_timeout(
    shared_server: Server, kind: str
) -> None:
    def is_idle(task: Task | AsyncTask) -> bool:
        return task._appender._stream is not None and task._appender._stream.idle

    def in_threads() -> None:
        with Client(shared_server.unix, timeout=2.0, stream_timeout=20.0) as client:
            task = client.start_task()
            task.append(said(1), wait=False)
            task.flush()
            with shared_server.frozen():
                eventually(lambda: is_idle(task))
                task.append(said(2), wait=False)
                begin = time.monotonic()
                with pytest.raises(errors.DeadlineExceeded):
                    task.flush()
                waited.append(time.monotonic() - begin)

    async def in_asyncio() -> None:
        async with AsyncClient(shared_server.unix, timeout=2.0, stream_timeout=20.0) as client:
            task = await client.start_task()
            await task.append(said(1), wait=False)
            await task.flush()
            with shared_server.frozen():
                while not is_idle(task):
                    await asyncio.sleep(0.01)
                await task.append(said(2), wait=False)
                begin = time.monotonic()
                with pytest.raises(errors.DeadlineExceeded):
                    await task.flush()
                waited.append(time.monotonic() - begin)

    waited: list[float] = []
    if kind == "threads":
        in_threads()
    else:
        asyncio.run(asyncio.wait_for(in_asyncio(), DEADLINE))
    assert waited[0] < 15
