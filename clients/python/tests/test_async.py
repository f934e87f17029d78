"""The same for asyncio: everything an agent does with a task, over both transports, against the real server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import timedelta
from typing import Any, TypeAlias

import pytest
from serving import DEADLINE, Server

from contextstore import AsyncClient, NewMessage, errors, short_name

USER = {"role": "user", "content": "Hello"}
Story: TypeAlias = Callable[[AsyncClient], Coroutine[Any, Any, None]]


@pytest.fixture
def run(shared_server: Server, transport: str) -> Callable[[Story], None]:
    """Tells a story with a client of the shared server, over each transport."""

    async def tell(story: Story) -> None:
        address, token_file = shared_server.client_args(transport)
        async with AsyncClient(address, token_file=token_file) as client:
            await client.wait_until_ready(timeout=DEADLINE)
            await story(client)

    return lambda story: asyncio.run(tell(story))


@pytest.mark.quick
def test_a_conversation(run: Callable[[Story], None]) -> None:
    async def many() -> AsyncIterator[dict[str, str] | NewMessage]:
        yield USER
        await asyncio.sleep(0)
        yield NewMessage(json.dumps(USER), pinned=True)

    async def story(client: AsyncClient) -> None:
        task = await client.start_task(user="ada", key={"task_id": "7"}, config={"context_length": 1000})
        assert task.status == "running" and (await task.append(USER)).pressure.limit == 1000
        assert [ack.seq async for ack in task.append_many(many())] == [2, 3]
        assert [ack.seq async for ack in task.append_many([USER])] == [4]
        assert [message async for message in task.current_messages()] == [USER] * 4
        assert [message async for message in task.current_messages(as_of_seq=2)] == [USER] * 2
        data = b"".join([chunk async for chunk in task.current(chunk_bytes=5)])
        assert data == (json.dumps(USER, separators=(",", ":")) + "\n").encode() * 4
        assert (await task.get_message(3)).pinned
        await task.unpin(3)
        await task.pin(1)
        kinds = [record.get("event", "message") async for record in task.messages(from_seq=4)]
        assert kinds == ["message", "pin", "pin"]
        assert (await task.rewind(1)).generation == 1
        assert (await task.get()).task.statistics.view_messages == 1

        assert await task.latest_plan() is None and await task.latest_summary() is None
        await task.append_plan({"steps": []}, plan_type="initial")
        plan = await task.latest_plan()
        assert plan is not None and plan.content == {"steps": []}
        assert [record["id"] async for record in task.plans()] == [1]
        assert [record async for record in task.summaries()] == []
        await task.record_tool_call("ls", arguments={}, result=None)
        assert [record["tool_name"] async for record in task.tool_calls()] == ["ls"]
        await task.record_usage(input_tokens=1, output_tokens=2)
        assert (await task.update_statistics(tokens=3)).total_tokens == 6
        assert (await task.update({"model": "m"})).config.model == "m"
        assert await task.renew_lease() > timedelta(seconds=1)

        await task.pause()
        await task.resume()
        assert task.lease_generation >= 2
        await task.pause()
        task = await client.resume_task(task.uuid)
        assert short_name(await task.complete("Done."), "status") == "completed"
        assert (await client.get_task(task.uuid)).task.final_summary == "Done."
        reader = await client.task(task.uuid)
        assert [message async for message in reader.current_messages()] == [USER]
        await task.delete()
        other = await client.start_task()
        assert (await other.fail("no luck")).error_message == "no luck"

    run(story)


@pytest.mark.quick
def test_what_is_refused_says_why(run: Callable[[Story], None]) -> None:
    async def story(client: AsyncClient) -> None:
        task = await client.start_task()
        with pytest.raises(errors.InvalidField) as invalid:
            await task.append({"role": "wizard"})
        assert list(invalid.value.fields) == ["message.json.role"]
        acks = []
        with pytest.raises(errors.InvalidField):
            async for ack in task.append_many([USER, USER, {"role": "wizard"}, *[USER] * 1000]):
                acks.append(ack.seq)
        assert acks == [1, 2] and (await task.get()).task.last_seq == 2
        with pytest.raises(errors.TaskNotFound):
            await client.get_task("018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10")
        with pytest.raises(errors.InvalidField):
            async for _ in task.watch(resume_token="made up"):
                pass

    run(story)


def test_tasks_are_listed_page_by_page(run: Callable[[Story], None], transport: str) -> None:
    async def story(client: AsyncClient) -> None:
        user = f"async-lister-{transport}"
        started = [(await client.start_task(user=user)).uuid for _ in range(5)]
        listed: list[str] = []
        deadline = time.monotonic() + 10
        while listed != started:
            assert time.monotonic() < deadline, listed
            tasks = client.list_tasks(user=user, page_size=2, order="created_asc")
            listed = [info.uuid async for info in tasks]

    run(story)


@pytest.mark.quick
def test_watchers_see_what_happens(run: Callable[[Story], None]) -> None:
    async def story(client: AsyncClient) -> None:
        task = await client.start_task()

        async def keep_appending() -> None:
            while True:
                await task.append(USER)
                await asyncio.sleep(0.01)

        # A watch without a token begins when the server has taken it, so somebody has to go on until then.
        busy = asyncio.create_task(keep_appending())
        async with contextlib.aclosing(task.watch()) as events:
            first = await asyncio.wait_for(anext(events), timeout=DEADLINE)
            second = await asyncio.wait_for(anext(events), timeout=DEADLINE)
        assert second.message_appended.seq == first.message_appended.seq + 1
        async with contextlib.aclosing(task.watch(resume_token=first.resume_token)) as events:
            again = await asyncio.wait_for(anext(events), timeout=DEADLINE)
        assert again == second
        async with contextlib.aclosing(task.messages(follow=True, from_seq=2)) as records:
            assert (await asyncio.wait_for(anext(records), timeout=DEADLINE))["seq"] == 2
        busy.cancel()

    run(story)


def test_the_environment_names_the_server(shared_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTSTORE_DATA_DIR", str(shared_server.data_dir))

    async def story() -> None:
        async with AsyncClient.from_env() as client:
            assert (await client.server_info()).data_dir == str(shared_server.data_dir)

    asyncio.run(story())


def test_who_is_cancelled_while_messages_are_sent_is_cancelled(run: Callable[[Story], None]) -> None:
    async def story(client: AsyncClient) -> None:
        task = await client.start_task()
        await task.append(USER, wait=False)
        flushing = asyncio.create_task(task.flush())
        await asyncio.sleep(0)
        flushing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flushing
        assert await task.current().to_list() == [USER]

    run(story)
