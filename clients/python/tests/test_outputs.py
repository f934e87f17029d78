"""Outputs of tools against the real server, over both transports: put, shown, read, searched, listed, trimmed, collected."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from serving import DEADLINE, Server

from contextstore import AsyncClient, Client, OutputsConfig, Task, errors, tools

CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "make", "arguments": "{}"}}],
}
LINES = 20_000
LOG = "".join(f"step {n} " + ("FAILED: no rule\n" if n % 5000 == 4321 else "is done\n") for n in range(LINES))


@pytest.fixture
def task(client: Client) -> Task:
    return client.start_task()


# feature: outputs-put
# feature: outputs-read-grep
@pytest.mark.quick
def test_a_large_output_is_kept_whole_and_shown_in_part(task: Task) -> None:
    task.append(CALL)
    stored = task.output.put(
        LOG,
        tool_name="make",
        tool_call_id="c1",
        append=True,
        record=True,
        arguments={"target": "all"},
        duration=timedelta(milliseconds=7),
        request_id="put-1",
    )
    assert stored.truncated and stored.seq == 2 and stored.tool_seq == 1 and not stored.duplicate
    assert stored.info.line_count == LINES and stored.info.byte_size == len(LOG)
    assert stored.info.media_type == "text/plain" and stored.ref == stored.info.id
    assert stored.ref in stored.view and len(stored.view) < 60_000 and stored.pressure is not None
    message = task.current().to_list()[1]
    assert message == {"role": "tool", "content": stored.view, "tool_call_id": "c1"}
    assert task.get_message(2).record["output_ref"] == stored.ref
    (record,) = task.tool_calls()
    assert (record["tool_name"], record["duration_ms"]) == ("make", 7) and record["output_ref"] == stored.ref
    again = task.output.put(
        LOG,
        tool_name="make",
        tool_call_id="c1",
        append=True,
        record=True,
        arguments={"target": "all"},
        duration=timedelta(milliseconds=7),
        request_id="put-1",
    )
    assert again.duplicate and again.ref == stored.ref and task.get().task.last_seq == 2

    assert task.output.read(stored.ref, raw=True).read() == LOG.encode()
    assert task.output.read(stored.ref, raw=True, offset=5, limit=10).text() == LOG[5:15]
    assert task.output.read(stored.ref, offset=4321, limit=2).text() == (
        "  4322\tstep 4321 FAILED: no rule\n  4323\tstep 4322 is done\n"
    )
    assert sum(1 for _ in task.output.read(stored.ref).lines()) == LINES
    short = next(task.output.read(stored.ref, max_line_length=5).lines())
    assert short.startswith("     1\tstep") and short.endswith("…")

    found = task.output.grep("failed", stored.ref, ignore_case=True, before=1)
    assert [(line.line_number, line.is_match, line.gap_before) for line in found][:4] == [
        (4321, False, False),
        (4322, True, False),
        (9321, False, True),
        (9322, True, False),
    ]
    assert found.matches == 4 and not found.limited
    limited = task.output.grep("step", max_matches=3)
    assert sum(1 for _ in limited) == 3 and limited.limited
    assert list(task.output.grep("FAILED:.*", stored.ref, fixed=True)) == []
    stat = task.output.stat(stored.ref)
    assert (stat.ref.id, stat.tool_name, stat.tool_call_id) == (stored.ref, "make", "c1")
    assert [output.ref.id for output in task.output.list()] == [stored.ref]


@pytest.mark.quick
def test_outputs_in_every_form(task: Task, tmp_path: Path) -> None:
    data = bytes(range(256)) * 8000
    (tmp_path / "file").write_bytes(data)

    def pieces() -> Iterator[bytes]:
        for at in range(0, len(data), 1000):
            yield data[at : at + 1000]

    refs = set()
    for content in (data, tmp_path / "file", io.BytesIO(data), pieces()):
        stored = task.output.put(content)
        assert stored.info.media_type == "application/octet-stream" and stored.info.byte_size == len(data)
        refs.add(stored.ref)
    assert len(refs) == 1
    assert task.output.read(refs.pop(), raw=True).read() == data
    empty = task.output.put("")
    assert empty.info.byte_size == empty.info.line_count == 0 and not empty.truncated
    assert task.output.read(empty.ref).text() == ""


# feature: outputs-input-breaks
def test_what_breaks_off_leaves_nothing(task: Task) -> None:
    def broken() -> Iterator[bytes]:
        yield b"x" * 3_000_000
        raise KeyError("mine")

    for _ in range(5):
        with pytest.raises(KeyError):
            task.output.put(broken())
    assert list(task.output.list()) == []


def test_what_is_refused_says_why(task: Task, client: Client) -> None:
    with pytest.raises(errors.OutputNotFound):
        task.output.stat("out-" + "0" * 32)
    with pytest.raises(errors.OutputNotFound):
        list(task.output.read("out-" + "0" * 32))
    ref = task.output.put("text").ref
    with pytest.raises(errors.InvalidField) as pattern:
        list(task.output.grep("(", ref))
    assert "pattern" in pattern.value.fields
    with pytest.raises(errors.InvalidField):
        task.output.put("text", append=True)
    task.pause()
    with pytest.raises(errors.WrongStatus):
        task.output.put("other text")
    assert client.task(task.uuid).output.read(ref).text().startswith("     1\ttext")


def test_outputs_are_trimmed(client: Client) -> None:
    task = client.start_task(config={"outputs": OutputsConfig(max_message_bytes=2000)})
    for number in range(4):
        name = f"c{number}"
        call = {"id": name, "type": "function", "function": {"name": "make", "arguments": "{}"}}
        task.append({"role": "assistant", "content": None, "tool_calls": [call]})
        with task.tool("make", call_id=name) as run:
            run.output = f"{number} {LOG}"
        assert run.stored is not None and run.stored.truncated and run.seq == 2 * number + 2
    task.append({"role": "assistant", "content": "All is made."})
    trimmed = task.output.trim(0)
    assert trimmed.trimmed == 4 and trimmed.tokens_after < trimmed.tokens_before
    view = json.dumps(task.current().to_list())
    assert all(output.ref.id in view for output in task.output.list())
    assert [output.tool_name for output in task.output.list(page_size=1)] == ["make"] * 4


def test_garbage_is_collected(task: Task, client: Client) -> None:
    task.append(CALL)
    with task.tool("make", call_id="c1") as run:
        run.output = LOG
    unnamed = task.output.put("nobody names this").ref
    would = client.collect_garbage(task.uuid, dry_run=True, min_age=timedelta(0))
    assert (would.removed, would.kept) == (1, 1) and task.output.stat(unnamed).ref.id == unnamed
    assert client.collect_garbage(task.uuid).removed == 0
    assert client.collect_garbage(task.uuid, min_age=timedelta(0)).removed == 1
    with pytest.raises(errors.OutputNotFound):
        task.output.stat(unnamed)


def test_secrets_are_masked(task: Task) -> None:
    secret = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0bC3dE6"
    stored = task.output.put(f"token {secret}\n")
    assert sum(stored.masked.values()) == 1 and secret not in task.output.read(stored.ref).text()
    ack = task.append({"role": "user", "content": f"My token is {secret}."})
    assert sum(ack.masked.values()) == 1
    acks = list(task.append_many([{"role": "user", "content": text} for text in ("Hi.", f"It is {secret}.")]))
    assert [sum(ack.masked.values()) for ack in acks] == [0, 1]
    assert task.record_tool_call("env", result=secret).masked[0].count == 1
    assert task.append_plan([secret]).masked[0].count == 1


# feature: tool-dispatcher
@pytest.mark.quick
def test_the_model_reads_and_searches(task: Task) -> None:
    ref = task.output.put(LOG, tool_name="make").ref

    def ask(name: str, **arguments: object) -> str:
        call = {"id": "c1", "function": {"name": name, "arguments": json.dumps(arguments)}}
        answer = tools.dispatch(task, call)
        assert answer is not None and answer["tool_call_id"] == "c1"
        return str(answer["content"])

    assert ask(tools.READ, ref_id=ref, offset=LINES - 1) == (
        f" {LINES}\tstep {LINES - 1} is done\n[end: {LINES} lines]"
    )
    assert ask(tools.READ, ref_id=ref).endswith(f"[lines 1 to 200 of {LINES}; offset=200 reads on]")
    # A part of it only, whatever was asked for.
    much = ask(tools.READ, ref_id=ref, limit=2000)
    assert len(much) < 40_000 and "reads on]" in much and much.splitlines()[-2].endswith(" is done")
    assert ask(tools.GREP, pattern="FAILED", ref_id=ref, max_matches=1) == (
        "4322:step 4321 FAILED: no rule\n[1 matches; there may be more]"
    )
    assert ask(tools.GREP, pattern="nothing like it") == "No line matches."
    assert ask(tools.GREP, pattern="step").endswith("[50 matches; there may be more]")
    assert ask(tools.GREP, pattern="(").startswith("Error: ")
    assert ask(tools.READ, ref_id="out-" + "0" * 32).startswith("Error: ")
    # What was never stored is read by the number of its message.
    seq = task.append({"role": "tool", "tool_call_id": "c0", "content": "one\ntwo"}).seq
    assert ask(tools.READ, ref_id=f"seq={seq}", offset=1) == "     2\ttwo\n[end: 2 lines]"
    assert ask(tools.GREP, pattern="o$", ref_id=f"seq={seq}") == "2:two\n[1 matches]"
    assert ask(tools.READ, ref_id=f"seq={seq + 1}").startswith("Error: ")


@pytest.mark.quick
def test_the_same_for_asyncio(shared_server: Server, transport: str) -> None:
    async def story() -> None:
        address, token_file = shared_server.client_args(transport)
        async with AsyncClient(address, token_file=token_file) as client:
            task = await client.start_task()
            await task.append(CALL)
            async with task.tool("make", arguments={}, call_id="c1") as run:
                run.output = LOG
            assert run.stored is not None and run.seq == 2
            ref = run.stored.ref
            assert await task.output.read(ref, raw=True).read() == LOG.encode()
            assert len([line async for line in task.output.read(ref, offset=10).lines()]) == LINES - 10
            found = task.output.grep("FAILED", ref)
            assert [line.line_number async for line in found] == [4322, 9322, 14322, 19322]
            assert found.matches == 4
            assert (await task.output.stat(ref)).ref.line_count == LINES
            assert [output.ref.id async for output in task.output.list()] == [ref]
            call = {
                "type": "tool_use",
                "id": "t1",
                "name": tools.READ,
                "input": {"ref_id": ref, "limit": 1},
            }
            answer = await tools.async_dispatch(task, call)
            assert answer == {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": f"     1\tstep 0 is done\n[lines 1 to 1 of {LINES}; offset=1 reads on]",
            }
            assert (await client.collect_garbage(task.uuid, min_age=timedelta(0))).kept == 1
            with pytest.raises(errors.InvalidField):
                await task.output.put(LOG * 20, append=True)

    asyncio.run(asyncio.wait_for(story(), timeout=2 * DEADLINE))


@pytest.mark.quick
@pytest.mark.parametrize("size", [5, 5 << 20])
def test_a_server_that_takes_nothing_is_not_waited_for_forever(shared_server: Server, size: int) -> None:
    async def story() -> None:
        async with AsyncClient(shared_server.unix) as client:
            task = await client.start_task()
            with shared_server.frozen(), pytest.raises(errors.DeadlineExceeded):
                await task.output.put(io.BytesIO(bytes(size)), timeout=1.0)

    with Client(shared_server.unix) as client:
        task = client.start_task()
        with shared_server.frozen(), pytest.raises(errors.DeadlineExceeded):
            task.output.put(io.BytesIO(bytes(size)), timeout=1.0)
    asyncio.run(asyncio.wait_for(story(), DEADLINE))
