"""Everything an agent does with a task, with the client for threads, over both transports, against the real server."""

from __future__ import annotations

import json
import threading
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from serving import DEADLINE, LONG, Server, eventually

from contextstore import Client, NewMessage, TaskConfig, TaskKey, errors, short_name

SYSTEM = {"role": "system", "content": "You are terse."}
QUESTION = {"role": "user", "content": "Was ist hier? 🦀"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "content": "a.txt", "tool_call_id": "c1"}


# feature: append
# feature: append-many
# feature: stream-current
# feature: stream-history
# feature: pins
# feature: rewind
@pytest.mark.quick
def test_a_conversation(client: Client) -> None:
    task = client.start_task(
        key={"task_source": "github", "owner": "octo", "repo": "hello", "task_type": "issue", "task_id": "7"},
        user="ada",
        config=TaskConfig(llm_provider="openai", context_length=1000),
    )
    assert task.status == "running" and task.lease_generation >= 1
    assert task.lease_ttl is not None and task.lease_ttl > timedelta(seconds=1)

    first = task.append(SYSTEM, pinned=True)
    assert (first.seq, first.duplicate) == (1, False) and first.pressure.limit == 1000
    assert task.append(json.dumps(QUESTION)).seq == 2
    assert [ack.seq for ack in task.append_many([CALL, NewMessage(RESULT, output_ref="out-1")])] == [3, 4]

    view = [SYSTEM, QUESTION, CALL, RESULT]
    assert list(task.current_messages()) == view
    assert list(task.current_messages(as_of_seq=2)) == view[:2]
    for size in (1, 7, 1 << 20):
        data = b"".join(task.current(chunk_bytes=size))
        assert [json.loads(line) for line in data.splitlines()] == view

    stored = task.get_message(4)
    assert stored.record["output_ref"] == "out-1" and not stored.pinned
    assert task.get_message(1).pinned
    task.unpin(1)
    task.pin(2)
    assert not task.get_message(1).pinned and task.get_message(2).pinned

    history = list(task.messages())
    assert [record["event"] for record in history if "event" in record] == ["started", "lease", "pin", "pin"]
    assert [record["seq"] for record in task.messages(kinds=["message"])] == [1, 2, 3, 4]
    assert [record["seq"] for record in task.messages(kinds="message", from_seq=2, limit=2)] == [2, 3]

    assert task.rewind(2).generation == 1
    assert list(task.current_messages()) == view[:2]
    assert task.get().task.view_generation == 1
    assert short_name(task.complete("Done."), "status") == "completed"
    assert client.get_task(task.uuid).task.final_summary == "Done."
    task.delete()
    with pytest.raises(errors.TaskNotFound):
        task.get()


# feature: plans
# feature: tool-calls
# feature: usage
def test_tools_plans_and_numbers(client: Client) -> None:
    task = client.start_task()
    assert task.latest_plan() is None and task.latest_summary() is None
    assert list(task.plans()) == list(task.summaries()) == list(task.tool_calls()) == []

    assert task.append_plan({"steps": ["look", "fix"]}, plan_type="initial").id == 1
    again = [task.append_plan(["fix"], request_id="plan-2") for _ in range(2)]
    assert [(plan.id, plan.duplicate) for plan in again] == [(2, False), (2, True)]
    plan = task.latest_plan()
    assert plan is not None and (plan.id, plan.plan_type, plan.content) == (2, "", ["fix"])
    assert abs(datetime.now(timezone.utc) - plan.create_time) < timedelta(minutes=1)
    assert [record["plan_content"] for record in task.plans()] == [{"steps": ["look", "fix"]}, ["fix"]]
    assert [record["id"] for record in task.plans(from_id=2)] == [2]

    task.record_tool_call("ls", arguments={"path": "."}, result=["a"], duration=0.003, message_seq=1)
    assert task.record_tool_call("rm", error="not allowed").seq == 2
    assert [(record["tool_name"], record["status"]) for record in task.tool_calls()] == [
        ("ls", "success"),
        ("rm", "error"),
    ]
    assert [record["seq"] for record in task.tool_calls(to_seq=1)] == [1]

    task.record_usage(
        input_tokens=10, output_tokens=5, cache_creation_tokens=2, cache_read_tokens=1, tools_tokens=3
    )
    counted = task.update_statistics(llm_calls=1, tool_calls=1, tokens=2, compressions=1)
    assert (counted.llm_call_count, counted.total_tokens, counted.tool_call_count) == (2, 20, 3)
    info = task.update({"model": "m", "compression": {"strategy": "window", "threshold": 0.5}})
    assert (info.config.model, short_name(info.config.compression, "strategy")) == ("m", "window")
    assert task.fail("no luck", final_summary="Tried.").error_message == "no luck"


def test_a_task_is_paused_and_goes_on(client: Client) -> None:
    task = client.start_task()
    task.append(QUESTION)
    assert short_name(task.pause(), "status") == "paused" and task.lease_generation == 0
    with pytest.raises(errors.WrongStatus):
        task.append(QUESTION)
    assert short_name(task.resume(), "status") == "running" and task.lease_generation >= 2
    assert task.append(QUESTION).seq == 2
    assert task.renew_lease() > timedelta(seconds=1)
    task.pause()
    resumed = client.resume_task(task.uuid)
    assert resumed.lease_generation >= 3 and resumed.append(QUESTION).seq == 3
    with pytest.raises(errors.WrongStatus):
        task.resume()
    resumed.pause()
    with pytest.raises(errors.StaleLease):
        task.resume()
    assert short_name(resumed.complete(), "status") == "completed"


@pytest.mark.quick
def test_one_client_at_a_time(client: Client, shared_server: Server) -> None:
    task = client.start_task()
    with Client(shared_server.unix) as other:
        with pytest.raises(errors.LeaseHeld) as held:
            other.start_task(task_uuid=task.uuid)
        assert held.value.metadata["instance_id"] == client.instance_id
        assert held.value.reason == "LEASE_HELD" and held.value.retry_after is not None
        reader = other.task(task.uuid)
        task.append(QUESTION)
        assert list(reader.current_messages()) == [QUESTION]
        with pytest.raises(errors.LeaseHeld):
            reader.append(QUESTION)
    with Client(shared_server.unix, instance_id=client.instance_id) as restarted:
        newer = restarted.start_task(task_uuid=task.uuid, lease_generation=task.lease_generation)
        assert newer.lease_generation == task.lease_generation + 1 and newer.append(QUESTION).seq == 2
    with pytest.raises(errors.StaleLease):
        task.append(QUESTION)


def test_what_is_refused_says_why(client: Client) -> None:
    task = client.start_task()
    with pytest.raises(errors.InvalidField) as invalid:
        task.append({"role": "wizard", "content": "hi"})
    assert (
        list(invalid.value.fields) == ["message.json.role"]
        and "wizard" in invalid.value.fields["message.json.role"]
    )
    assert str(invalid.value).endswith("(INVALID_FIELD)")
    with pytest.raises(errors.RequestIdReused):
        for content in ("one", "other"):
            task.append({"role": "user", "content": content}, request_id="same")
    with pytest.raises(errors.MessageNotFound) as missing:
        task.rewind(9)
    assert missing.value.metadata["last_seq"] == "1"
    with pytest.raises(errors.TooLarge):
        task.append({"role": "user", "content": "x" * (17 << 20)})
    with pytest.raises(errors.InvalidField):
        list(task.current(chunk_bytes=100 << 20))
    with pytest.raises(errors.TaskNotFound):
        client.get_task("018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10")
    with pytest.raises(ValueError):
        task.append({"role": "user", "content": float("nan")})
    acks = []
    with pytest.raises(errors.InvalidField, match=r"^messages\[1\]: ") as refused:
        for ack in task.append_many([QUESTION, {"role": "wizard"}, QUESTION]):
            acks.append(ack.seq)
    assert acks == [2] and task.get().task.last_seq == 2
    assert refused.value.index == 1
    assert json.loads(str(refused.value.not_appended[0].message)) == {"role": "wizard"}


@pytest.mark.quick
def test_many_messages_of_all_sizes_are_appended_in_order(client: Client) -> None:
    task = client.start_task(config={"compression": {"auto": False}})
    # Small ones share a request; large ones, and those that would make it too large, have their own.
    sizes = [1, 100, 300_000, 200_000, 100_000, 5, 260_000, 2] * (20 if LONG else 5) + [10] * 2000
    sent = [{"role": "user", "content": f"{n} " + "x" * size} for n, size in enumerate(sizes)]
    acks = list(task.append_many(iter(sent)))
    assert [ack.seq for ack in acks] == list(range(1, len(sent) + 1))
    assert not any(ack.duplicate for ack in acks)
    assert list(task.current_messages()) == sent


@pytest.mark.quick
def test_tcp_wants_the_token(shared_server: Server) -> None:
    for token in (None, "wrong"):
        with Client(shared_server.tcp, token=token) as stranger:
            stranger.wait_until_ready(timeout=DEADLINE)
            with pytest.raises(errors.Unauthenticated):
                stranger.server_info()


@pytest.mark.quick
def test_the_environment_names_the_server(shared_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTSTORE_DATA_DIR", str(shared_server.data_dir))
    with Client.from_env() as client:
        assert client.server_info().data_dir == str(shared_server.data_dir)
    monkeypatch.setenv("CONTEXTSTORE_ADDRESS", shared_server.tcp)
    with Client.from_env(timeout=40) as client:
        assert client.server_info().process_id > 0 and client.timeout == 40


def test_tasks_are_listed_page_by_page(client: Client, transport: str) -> None:
    started = [
        client.start_task(user=f"lister-{transport}", key=TaskKey(task_id=str(number))) for number in range(5)
    ]
    started[0].pause()

    def listed(**filters: Any) -> list[str]:
        tasks = client.list_tasks(user=f"lister-{transport}", page_size=2, order="created_asc", **filters)
        return [info.uuid for info in tasks]

    everything = [task.uuid for task in started]
    # The catalog is behind the tasks by at most a second.
    eventually(lambda: listed() == everything and listed(statuses="paused") == everything[:1])
    assert listed(key={"task_id": "3"}) == everything[3:4]
    assert listed(created_from=datetime.now(timezone.utc) + timedelta(hours=1)) == []
    assert listed(created_before=datetime.now(timezone.utc) + timedelta(hours=1)) == everything


# feature: watch
@pytest.mark.quick
def test_followers_see_what_happens(client: Client, shared_server: Server) -> None:
    task = client.start_task()
    with Client(shared_server.unix) as other:
        reader = other.task(task.uuid)
        seen: list[int] = []

        def follow() -> None:
            for record in reader.messages(follow=True, kinds=["message"]):
                seen.append(record["seq"])
                if len(seen) == 3:
                    break

        follower = threading.Thread(target=follow)
        follower.start()
        for _ in range(3):
            task.append(QUESTION)
        follower.join(DEADLINE)
        assert seen == [1, 2, 3]


@pytest.mark.parametrize(
    ("key", "kind", "words"),
    [
        ({"repo": "hello", "task_id": 7}, TypeError, r"key\['task_id'\] must be a str, not int"),
        (
            {"repoo": "hello"},
            ValueError,
            "a key has no 'repoo'; it has task_source, owner, repo, task_type, task_id",
        ),
    ],
)
def test_a_key_that_is_none_is_refused(client: Client, key: Any, kind: type[Exception], words: str) -> None:
    for use in (client.task, lambda key: client.start_task(key=key)):
        with pytest.raises(kind, match=words):
            use(key)
