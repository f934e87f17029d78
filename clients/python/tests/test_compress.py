"""Contexts that are made smaller, by the server and by the agent, and taken back; over both transports."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from serving import Server

from contextstore import AsyncClient, Client, CompressProgress, Task, errors, short_name

CONFIG: dict[str, Any] = {"context_length": 4000, "compression": {"auto": False}}
SYSTEM = {"role": "system", "content": "You keep a diary."}


def diary(days: int) -> list[dict[str, str]]:
    """A conversation with something on each day, and many words."""
    said = []
    for day in range(days):
        said.append(
            {"role": "user", "content": f"Day {day}: see src/day_{day}.rs. " + "It rained again. " * 12}
        )
        said.append({"role": "assistant", "content": f"Noted day {day}. " + "The rain is noted. " * 12})
    return said


def started(client: Client, **config: Any) -> Task:
    task = client.start_task(config={**CONFIG, **config})
    for _ in task.append_many([SYSTEM, *diary(20)]):
        pass
    return task


def view(task: Task) -> list[dict[str, Any]]:
    return list(task.current_messages())


# feature: compress
# feature: undo
@pytest.mark.quick
def test_a_context_is_compressed_and_taken_back(client: Client) -> None:
    task = started(client)
    before = b"".join(task.current())
    steps: list[CompressProgress] = []
    result = task.compress(on_progress=steps.append)
    assert result.compressed and short_name(result, "strategy") == "summarize"
    assert (result.summary_id, result.generation, short_name(result, "skip_reason")) == (1, 1, "")
    assert short_name(result, "summary_author") == "extractive"
    assert result.messages_before == 41 and result.messages_after == len(view(task))
    assert result.tokens_before - result.tokens_after == result.tokens_removed > 0
    assert result.pressure.tokens == result.tokens_after
    assert [short_name(step, "stage") for step in steps] == ["extracting", "summarizing", "publishing"]
    assert view(task)[0] == SYSTEM and "src/day_10.rs" in view(task)[1]["content"]
    summary = task.latest_summary()
    assert summary is not None and summary.id == 1 and summary.summary in view(task)[1]["content"]

    again = task.compress()
    assert not again.compressed and short_name(again, "skip_reason") == "nothing"
    assert task.undo_compaction().generation == 2
    assert b"".join(task.current()) == before
    assert task.latest_summary() is None and [record["undone"] for record in task.summaries()] == [True]
    with pytest.raises(errors.NothingToUndo):
        task.undo_compaction()


@pytest.mark.parametrize("strategy", ["summarize", "compact", "prune", "window"])
def test_a_strategy_and_a_size_can_be_asked_for(client: Client, strategy: str) -> None:
    task = started(client)
    result = task.compress(strategy, target_tokens=1600, overrides={"keep_recent_messages": 2})
    assert result.compressed and short_name(result, "strategy") == strategy
    assert result.tokens_after < result.tokens_before
    assert view(task)[0] == SYSTEM and view(task)[-1] == diary(20)[-1]


def test_what_a_strategy_needs_can_be_given(client: Client) -> None:
    task = started(client)
    assert task.compress("window", window={"messages": 4}).messages_after <= 6
    task.undo_compaction()
    assert task.compress("prune", prune={"target": 0.2}).tokens_after < 1000
    with pytest.raises(errors.LimitUnknown):
        client.start_task().compress("compact")


def test_what_does_not_fit_is_told_by_its_name(client: Client) -> None:
    task = started(client)
    before = task.get().task
    for given, name in [
        ({"target_tokens": -5}, "target_tokens = -5"),
        ({"overrides": {"keep_recent_messages": -1}}, "overrides.keep_recent_messages = -1"),
        ({"overrides": {"threshold": "0.5"}}, "overrides.threshold = '0.5'"),
        ({"overrides": {"summary_directives": "Be brief."}}, "overrides.summary_directives must be a list"),
        ({"prune": {"weights": {"recency": 1}}}, "'prune.weights'; PruneConfig has"),
    ]:
        with pytest.raises((TypeError, ValueError), match=re.escape(name)):
            task.compress("prune", **given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="context_length = -1"):
        task.update({"context_length": -1})
    with pytest.raises(ValueError, match="no 'compression.treshold'; CompressionConfig has"):
        client.start_task(config={"compression": {"treshold": 0.5}})
    after = task.get().task
    assert (after.config, after.view_generation) == (before.config, 0)


def test_a_repeated_call_compresses_once(client: Client) -> None:
    task = started(client)
    first = task.compress(request_id="night-1")
    repeated = task.compress(request_id="night-1")
    assert (repeated.compressed, repeated.duplicate, repeated.generation) == (True, True, 1)
    assert (repeated.summary_id, repeated.tokens_after) == (first.summary_id, first.tokens_after)


# feature: agent-compaction
@pytest.mark.quick
def test_an_agent_summarises_by_itself(client: Client) -> None:
    task = started(client)
    with task.begin_compaction(target_tokens=1000) as compaction:
        assert compaction.budget > 0 and compaction.prompt and compaction.previous_summary == ""
        messages = list(compaction.messages())
        assert len(messages) == compaction.message_count
        assert (messages[0]["seq"], messages[-1]["seq"]) == (compaction.start_seq, compaction.end_seq)
        assert messages[0]["content"] == diary(1)[0]["content"]
        task.append({"role": "user", "content": "Meanwhile."})
        with pytest.raises(errors.SummaryRefused):
            compaction.commit("")
        result = compaction.commit("It rained for weeks, and the roof leaked.", keep_seqs=[3], model="me")
    assert result.compressed and (short_name(result, "summary_author"), result.model) == ("agent", "me")
    contents = [message["content"] for message in view(task)]
    assert diary(1)[1]["content"] in contents and contents[-1] == "Meanwhile."
    assert any("It rained for weeks, and the roof leaked." in content for content in contents)
    with task.begin_compaction(overrides={"min_messages": 1, "keep_recent_messages": 1}) as second:
        # What the user asked for stands in front of it.
        assert second.previous_summary.endswith("It rained for weeks, and the roof leaked.")


@pytest.mark.quick
def test_a_compaction_is_given_up_when_its_block_fails(shared_server: Server) -> None:
    with Client(shared_server.unix) as client:
        task = started(client)
        before = view(task)
        with pytest.raises(ZeroDivisionError), task.begin_compaction() as compaction:
            next(compaction.messages())
            raise ZeroDivisionError
        assert view(task) == before
        with pytest.raises(errors.CompactionNotFound):
            compaction.commit("Too late.")
        assert task.compress().compressed


def test_the_same_with_asyncio(shared_server: Server, transport: str) -> None:
    async def story() -> None:
        address, token_file = shared_server.client_args(transport)
        async with AsyncClient(address, token_file=token_file) as client:
            task = await client.start_task(config=CONFIG)
            async for _ in task.append_many([SYSTEM, *diary(20)]):
                pass
            steps: list[str] = []
            result = await task.compress(
                "summarize", on_progress=lambda step: steps.append(short_name(step, "stage"))
            )
            assert result.compressed and steps[0] == "extracting" and steps[-1] == "publishing"
            assert (await task.undo_compaction()).generation == 2
            async with await task.begin_compaction() as compaction:
                assert len([m async for m in compaction.messages()]) == compaction.message_count
            with pytest.raises(errors.CompactionNotFound):
                await compaction.commit("Too late.")
            async with await task.begin_compaction() as compaction:
                with pytest.raises(errors.SummaryRefused):
                    await compaction.commit(" ")
                result = await compaction.commit("It rained for weeks, and the roof leaked.")
                assert short_name(result, "summary_author") == "agent"
            assert (await task.get()).task.statistics.total_summaries == 2

    asyncio.run(story())


def test_a_server_that_is_killed_meanwhile_is_asked_again(server: Server) -> None:
    with Client(server.unix) as client:
        task = started(client)

        stages: list[str] = []

        def kill(step: CompressProgress) -> None:
            stages.append(short_name(step, "stage"))
            if len(stages) == 1:
                server.kill()
                server.start_without_waiting()

        assert task.compress(on_progress=kill).compressed
        assert len(view(task)) < 41
