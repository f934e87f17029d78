"""Tasks that come from others: forks, and what a new task takes over from one that ended; over both transports."""

from __future__ import annotations

import asyncio

import pytest
from serving import Server

from contextstore import AsyncClient, Client, Task, errors, short_name

SYSTEM = "You fix tests."


def contents(task: Task) -> list[str]:
    return [message["content"] for message in task.current_messages()]


# feature: fork
@pytest.mark.quick
def test_a_task_is_forked(client: Client) -> None:
    task = client.start_task(system_message=SYSTEM)
    for number in (1, 2, 3):
        task.append({"role": "user", "content": f"Step {number}."})
    fork = task.fork(2)
    assert fork.uuid != task.uuid and fork.status == "running" and fork.lease_generation > 0
    assert fork.append({"role": "user", "content": "Elsewhere."}).seq == 3
    assert contents(fork) == [SYSTEM, "Step 1.", "Elsewhere."]
    assert contents(task) == [SYSTEM, "Step 1.", "Step 2.", "Step 3."]
    assert contents(client.fork_task(task.uuid)) == contents(task)
    with pytest.raises(errors.MessageNotFound):
        task.fork(99)
    with pytest.raises(errors.TaskNotFound):
        client.fork_task("018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10")


# feature: inheritance
@pytest.mark.quick
def test_a_task_takes_over_from_an_earlier_one(client: Client, transport: str) -> None:
    key = {"task_source": "github", "owner": "octo", "repo": transport, "task_type": "issue", "task_id": "7"}
    first = client.start_task(key=key, user="ada", config={"inheritance": {"enabled": True}})
    assert (first.inherited_from, first.inheritance_comment) == ("", "")
    first.append({"role": "user", "content": "Fix it."})
    first.append_plan(["read the test"], plan_type="initial")
    with pytest.raises(errors.WrongStatus):
        client.inheritance_context(first.uuid)
    first.complete("The parser was fixed.")
    found = client.previous_contexts(key, "ada")
    assert [(context.task_uuid, short_name(context, "status")) for context in found] == [
        (first.uuid, "completed")
    ]
    assert found[0].has_final_summary and client.previous_contexts(key, "bea") == []
    context = client.inheritance_context(first.uuid, max_summary_tokens=500)
    assert "The parser was fixed." in context.text and "read the test" in context.text

    second = client.start_task(key=key, user="ada", system_message=SYSTEM)
    assert second.inherited_from == first.uuid and first.uuid in second.inheritance_comment
    assert contents(second)[0] == SYSTEM and "The parser was fixed." in contents(second)[1]
    assert client.start_task(key=key, user="ada", inherit="never").inherited_from == ""
    assert client.start_task(inherit=first.uuid).inherited_from == first.uuid
    with pytest.raises(errors.InvalidField):
        client.start_task(inherit="perhaps")


def test_what_says_nothing_cannot_be_taken_over(client: Client) -> None:
    task = client.start_task()
    task.complete()
    with pytest.raises(errors.NothingToInherit):
        client.inheritance_context(task.uuid)


def test_the_same_with_asyncio(shared_server: Server, transport: str) -> None:
    async def story() -> None:
        address, token_file = shared_server.client_args(transport)
        async with AsyncClient(address, token_file=token_file) as client:
            first = await client.start_task(system_message=SYSTEM)
            await first.append({"role": "user", "content": "Fix it."})
            fork = await first.fork(1)
            assert [message["content"] async for message in fork.current_messages()] == [SYSTEM]
            await first.complete("The lexer was fixed.")
            context = await client.inheritance_context(first.uuid)
            assert "The lexer was fixed." in context.text
            second = await client.start_task(inherit=first.uuid)
            assert second.inherited_from == first.uuid and second.inheritance_comment
            assert await client.previous_contexts({"task_id": "nothing"}, "nobody") == []

    asyncio.run(story())
