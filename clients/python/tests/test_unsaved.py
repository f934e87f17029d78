"""Messages that are not waited for, and what happens to their callers: none of it loses a message without a report."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import grpc
import pytest
from serving import DEADLINE, Server, eventually

from contextstore import AsyncClient, Client, NewMessage, UnsavedWarning, _unsaved, errors

CALLS = [
    {"id": name, "type": "function", "function": {"name": "look", "arguments": "{}"}} for name in ("c1", "c2")
]
GRPCIO = tuple(int(part) for part in grpc.__version__.split("."))
QUIET: dict[str, Any] = {"compression": {"auto": False}}


def said(number: int) -> dict[str, str]:
    """A message."""
    return {"role": "user", "content": f"message {number} " + "x" * 500}


def saved(server: Server, uuid: str) -> int:
    """How many messages the log has."""
    with Client(server.unix) as client:
        return client.get_task(uuid).task.last_seq


def run(story: Callable[[AsyncClient], Awaitable[None]], server: Server) -> None:
    """Tells a story with a client of its own."""

    async def tell() -> None:
        async with AsyncClient(server.unix) as client:
            await story(client)

    asyncio.run(asyncio.wait_for(tell(), DEADLINE))


def program(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A program of its own, which says the id of its task and then goes on."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def interrupt_in(function: str) -> None:
    """Presses Ctrl-C once the main thread waits in a function of the client."""

    def waits() -> bool:
        frame = sys._current_frames()[threading.main_thread().ident or 0]
        names = [each.f_code.co_name for each, _ in traceback.walk_stack(frame)]
        return names[0] == "wait" and function in names

    eventually(waits)
    os.kill(os.getpid(), signal.SIGINT)


# feature: append-later-survives-cancel
@pytest.mark.quick
def test_a_cancelled_call_takes_nothing_back(shared_server: Server) -> None:
    async def story(client: AsyncClient) -> None:
        task = await client.start_task(config=QUIET)
        with shared_server.frozen():
            for number in range(302):
                await task.append(said(number), wait=False)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(task.get(), timeout=0.1)
        last = await task.flush()
        assert last is not None and last.seq == 302 and saved(shared_server, task.uuid) == 302

    run(story, shared_server)


@pytest.mark.quick
def test_an_interrupted_flush_takes_nothing_back(shared_server: Server, client: Client) -> None:
    task = client.start_task(config=QUIET)
    with shared_server.frozen():
        for number in range(401):
            task.append(said(number), wait=False)
        interrupt = threading.Thread(target=interrupt_in, args=("flush",))
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            task.flush()
        interrupt.join()
    assert task.get().task.last_seq == 401


# feature: append-later-survives-close
@pytest.mark.quick
def test_a_client_saves_before_it_closes(shared_server: Server) -> None:
    with Client(shared_server.unix) as client:
        task = client.start_task(config=QUIET)
        for number in range(401):
            task.append(said(number), wait=False)
    assert saved(shared_server, task.uuid) == 401
    with pytest.raises(errors.Cancelled, match="the client is closed") as closed:
        task.append(said(401), wait=False)
    assert len(closed.value.not_appended) == 1

    async def story(client: AsyncClient) -> None:
        task = await client.start_task(config=QUIET)
        uuids.append(task.uuid)
        for number in range(401):
            await task.append(said(number), wait=False)

    uuids: list[str] = []
    run(story, shared_server)
    assert saved(shared_server, uuids[0]) == 401


@pytest.mark.quick
def test_what_cannot_be_saved_is_raised_when_a_client_closes(shared_server: Server) -> None:
    client = Client(shared_server.unix, flush_timeout=0.1, instance_id="closing")
    task = client.start_task(config=QUIET)
    with shared_server.frozen():
        for number in range(5):
            task.append(said(number), wait=False)
        with pytest.raises(errors.ContextStoreError, match="5 messages are not saved") as lost:
            client.close()
    assert len(lost.value.not_appended) == 5 and task.uuid in str(lost.value)
    # Whether the server has got them after all or not.
    with Client(shared_server.unix, instance_id="closing") as later:
        again = later.start_task(task_uuid=task.uuid)
        assert [ack.seq for ack in again.append_many(lost.value.not_appended)] == [1, 2, 3, 4, 5]

    async def story() -> None:
        client = AsyncClient(shared_server.unix, flush_timeout=0.1)
        task = await client.start_task(config=QUIET)
        with shared_server.frozen():
            for number in range(5):
                await task.append(said(number), wait=False)
            with pytest.raises(errors.ContextStoreError, match="5 messages are not saved"):
                await client.close()

    asyncio.run(story())


@pytest.mark.quick
def test_the_users_own_error_leaves_the_block(shared_server: Server) -> None:
    # It is the one that is raised; what is lost beside it is warned about.
    with pytest.warns(UnsavedWarning, match="^5 messages"), pytest.raises(KeyError, match="mine"):
        with Client(shared_server.unix, flush_timeout=0.1) as client:
            task = client.start_task(config=QUIET)
            with shared_server.frozen():
                for number in range(5):
                    task.append(said(number), wait=False)
                client.__exit__(KeyError, KeyError("mine"), None)
            raise KeyError("mine")


@pytest.mark.quick
@pytest.mark.parametrize("error", [errors.NotFound("of something else"), KeyError("mine"), SystemExit()])
def test_an_unrelated_error_takes_nothing_back(shared_server: Server, error: BaseException) -> None:
    with Client(shared_server.unix) as client:
        with pytest.raises(type(error)), client.start_task(config=QUIET) as task:
            for number in range(401):
                task.append(said(number), wait=False)
            raise error
        assert client.get_task(task.uuid).task.last_seq == 401
        assert task.status == ("paused" if isinstance(error, SystemExit) else "failed")


SYNC = """
import sys, contextstore
client = contextstore.Client(sys.argv[1], flush_timeout=float(sys.argv[3]))
task = client.start_task()
print(task.uuid, flush=True)
sys.stdin.readline()
for n in range(int(sys.argv[2])):
    task.append({"role": "user", "content": f"{n} " + "x" * 3000}, wait=False)
"""
ASYNC = """
import asyncio, sys, contextstore
async def main():
    client = contextstore.AsyncClient(sys.argv[1], flush_timeout=float(sys.argv[3]))
    task = await client.start_task()
    print(task.uuid, flush=True)
    sys.stdin.readline()
    for n in range(int(sys.argv[2])):
        await task.append({"role": "user", "content": f"{n} " + "x" * 3000}, wait=False)
"""
FORMS = {
    "threads": SYNC,
    "asyncio": ASYNC + "asyncio.run(main())",
    "another thread": SYNC.replace("for n in", "def later():\n  import time; time.sleep(0.1)\n  for n in")
    + "import threading; threading.Thread(target=later).start()",
}


# feature: append-later-at-exit
@pytest.mark.quick
@pytest.mark.parametrize("form", FORMS)
def test_a_program_saves_before_it_ends(shared_server: Server, form: str) -> None:
    ending = program(FORMS[form], shared_server.unix, "400", "10")
    said, complaints = ending.communicate("go\n", timeout=DEADLINE)
    assert ending.returncode == 0 and complaints == ""
    assert saved(shared_server, said.strip()) == 400


@pytest.mark.quick
@pytest.mark.parametrize(
    "form",
    [
        SYNC,
        ASYNC + "asyncio.run(main())",
        ASYNC + "loop = asyncio.new_event_loop()\nloop.run_until_complete(main())\nloop.close()",
    ],
)
def test_a_program_that_cannot_save_says_how_much(server: Server, form: str) -> None:
    ending = program(form, server.unix, "7", "0.1")
    assert ending.stdout is not None
    assert ending.stdout.readline()
    with server.frozen():
        _, complaints = ending.communicate("go\n", timeout=DEADLINE)
    assert ending.returncode == 0
    assert "UnsavedWarning: 7 messages" in complaints and "Task was destroyed" not in complaints
    if GRPCIO < (1, 75, 1):
        # It writes an empty error when a program ends with a channel of asyncio open (grpc/grpc#38679).
        complaints = complaints.replace("Error in sys.excepthook:\n\nOriginal exception was:\n", "")
    assert complaints.count("\n") <= 2, complaints


INTERRUPTED = """
import asyncio, os, signal, sys, threading, time, traceback, contextstore
client = contextstore.Client(sys.argv[1])
loop = asyncio.new_event_loop()
later = contextstore.AsyncClient(sys.argv[1])
task, other = client.start_task(), loop.run_until_complete(later.start_task())
print("ready", flush=True)
sys.stdin.readline()

def waiting_at_exit():
    frame = sys._current_frames()[threading.main_thread().ident]
    frames = [each for each, _ in traceback.walk_stack(frame)]
    return [each for each in frames if frames[0].f_code.co_name == "wait" and each.f_code.co_name == "_at_exit"]

def interrupt():
    # Ctrl-C, as often as the program waits at its end.
    known = []
    while True:
        for frame in waiting_at_exit():
            if frame not in known:
                known.append(frame)
                os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.001)

threading.Thread(target=interrupt, daemon=True).start()
for n in range(7):
    task.append({"role": "user", "content": str(n)}, wait=False)
for n in range(5):
    loop.run_until_complete(other.append({"role": "user", "content": str(n)}, wait=False))
loop.close()
"""


@pytest.mark.quick
def test_a_program_that_is_interrupted_while_it_saves_says_how_much_is_not_saved(server: Server) -> None:
    ending = program(INTERRUPTED, server.unix)
    assert ending.stdout is not None
    assert ending.stdout.readline() == "ready\n"
    with server.frozen():
        _, complaints = ending.communicate("go\n", timeout=DEADLINE)
    assert complaints.count("UnsavedWarning: 7 messages") == 1, complaints
    assert complaints.count("UnsavedWarning: 5 messages") == 1, complaints


@pytest.mark.quick
def test_a_loss_whose_only_waiter_is_cancelled_in_that_moment_is_raised_by_close(
    shared_server: Server,
) -> None:
    async def story() -> None:
        client = AsyncClient(shared_server.unix)
        task = await client.start_task(config=QUIET)
        await task.append({"role": "wizard"}, wait=False)
        flush = asyncio.ensure_future(task.flush())
        while task._appender._sender is not None:
            await asyncio.sleep(0)
        flush.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flush
        with pytest.raises(errors.InvalidField, match="1 messages are not saved") as lost:
            await client.close()
        assert len(lost.value.not_appended) == 1

    asyncio.run(asyncio.wait_for(story(), DEADLINE))


@pytest.mark.quick
def test_an_interrupted_flush_leaves_its_error_to_the_next_call(client: Client) -> None:
    task = client.start_task(config=QUIET)
    backlog = task._appender._backlog
    waiter = backlog.waiter()
    task.append({"role": "wizard"}, wait=False)
    waiter.target = 1
    eventually(lambda: waiter.error is not None and task._appender._thread is None)
    # Its caller was interrupted before it could raise: the end of the program knows of it all the same.
    assert task._appender.unsaved == 1 and task._appender in _unsaved.of(client)
    with task._appender._lock:
        backlog.leave(waiter)
    with pytest.raises(errors.InvalidField) as lost:
        task.flush()
    assert len(lost.value.not_appended) == 1


@pytest.mark.quick
def test_a_loss_that_was_reported_keeps_nothing(shared_server: Server) -> None:
    def gone(task: weakref.ref[Any]) -> bool:
        gc.collect()
        return task() is None

    def lose(client: Client, flushes: bool) -> weakref.ref[Any]:
        task = client.start_task(config=QUIET)
        task.append({"role": "wizard"}, wait=False)
        eventually(lambda: task._appender._thread is None)
        with contextlib.suppress(errors.InvalidField):
            task.flush() if flushes else task.append(said(1), wait=False)
        return weakref.ref(task._appender)

    async def story(client: AsyncClient) -> None:
        task = await client.start_task(config=QUIET)
        await task.append({"role": "wizard"}, wait=False)
        while task._appender._sender is not None:
            await asyncio.sleep(0.01)
        with contextlib.suppress(errors.InvalidField):
            await task.flush()
        appender = weakref.ref(task._appender)
        del task
        assert gone(appender)

    with Client(shared_server.unix) as client:
        for flushes in (True, False):
            appender = lose(client, flushes)
            eventually(lambda appender=appender: gone(appender))  # type: ignore[misc]
    run(story, shared_server)


# feature: concurrent-use
@pytest.mark.quick
def test_coroutines_share_a_task(shared_server: Server) -> None:
    async def story(client: AsyncClient) -> None:
        for _ in range(20):
            task = await client.start_task(config=QUIET)
            asked = {"role": "assistant", "content": None, "tool_calls": CALLS}
            await task.append(asked, wait=False)

            async def tool(name: str, task: Any = task) -> None:
                async with task.tool("look", call_id=name) as call:
                    await asyncio.sleep(0)
                    call.result = name

            await asyncio.gather(tool("c1"), tool("c2"))
            view = await task.current().to_list()
            assert view[0] == asked and {each["content"] for each in view[1:]} == {"c1", "c2"}

        task = await client.start_task(config=QUIET)

        async def append(who: int) -> None:
            for number in range(100):
                await task.append({"role": "user", "content": f"{who} {number}"}, wait=False)
                if number % 10 == 9:
                    await task.flush()

        await asyncio.gather(*(append(who) for who in range(4)))
        contents = [message["content"] async for message in task.current_messages()]
        for who in range(4):
            mine = [content for content in contents if content.startswith(f"{who} ")]
            assert mine == [f"{who} {number}" for number in range(100)]

    run(story, shared_server)


@pytest.mark.quick
def test_threads_share_a_task(client: Client) -> None:
    task = client.start_task(config=QUIET)
    failures: list[BaseException] = []

    def append(who: int) -> None:
        try:
            for number in range(0, 100, 10):
                for each in range(number, number + 6):
                    task.append({"role": "user", "content": f"{who} {each}"}, wait=False)
                task.append({"role": "user", "content": f"{who} {number + 6}"})
                rest = range(number + 7, number + 10)
                assert (
                    len(list(task.append_many({"role": "user", "content": f"{who} {n}"} for n in rest))) == 3
                )
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=append, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    contents = [message["content"] for message in task.current_messages()]
    for who in range(4):
        mine = [content for content in contents if content.startswith(f"{who} ")]
        assert mine == [f"{who} {number}" for number in range(100)]


# feature: resend-not-appended
@pytest.mark.quick
def test_what_was_not_appended_is_appended_again_as_it_is(client: Client, shared_server: Server) -> None:
    task = client.start_task(config=QUIET)
    with shared_server.frozen():
        for number in range(400):
            message = {"role": "wizard" if number == 100 else "user", "content": str(number)}
            ref = f"out-{number}" if number % 7 == 0 else ""
            task.append(message, wait=False, pinned=number % 50 == 1, output_ref=ref)
    with pytest.raises(errors.InvalidField) as refused:
        task.flush()
    refusal = refused.value
    assert refusal.index == 100 and len(refusal.not_appended) == 300
    assert all(isinstance(each, NewMessage) and each.request_id for each in refusal.not_appended)
    # One by one or many at once, and more than once: each is there once.
    _, *again = refusal.not_appended
    for lost in again[:10]:
        assert task.append(lost).seq > 100
    assert len(list(task.append_many(again))) == 299
    for lost in again:
        task.append(lost, wait=False)
    records = list(task.messages(kinds=["message"]))
    assert [record["content"] for record in records] == [str(n) for n in range(400) if n != 100]
    refs = [record.get("output_ref", "") for record in records]
    assert refs == [f"out-{n}" if n % 7 == 0 else "" for n in range(400) if n != 100]
    assert [record["seq"] for record in records if task.get_message(record["seq"]).pinned] == [
        n + 1 if n < 100 else n for n in range(400) if n % 50 == 1
    ]


@pytest.mark.quick
def test_a_call_that_fails_says_what_it_has_not_appended(server: Server) -> None:
    with Client(server.unix, timeout=1) as client:
        task = client.start_task(config=QUIET)
        with server.frozen():
            with pytest.raises(errors.DeadlineExceeded) as unknown:
                task.append(said(1), pinned=True)
        (message,) = unknown.value.not_appended
        assert task.append(message).seq == 1 and task.append(message).duplicate
        assert task.get_message(1).pinned and task.get().task.last_seq == 1


LARGE = {"role": "user", "content": "x" * (17 << 20)}
NAN = {"role": "user", "content": float("nan")}


@pytest.mark.quick
@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("form", ["lost before", "too large", "no JSON", "closed"])
def test_what_a_failing_append_was_given_is_the_last_of_not_appended(
    shared_server: Server, wait: bool, form: str
) -> None:
    unfit: dict[str, Any] = {"too large": LARGE, "no JSON": NAN}
    given = NewMessage(unfit.get(form, said(1)), pinned=True)
    before = [{"role": "wizard"}, said(0)] if form == "lost before" else []
    kind = {
        "lost before": errors.InvalidField,
        "too large": errors.TooLarge,
        "no JSON": ValueError,
        "closed": ValueError if wait else errors.Cancelled,
    }[form]

    def expect(failure: Any, contents: list[Any]) -> None:
        *others, last = failure.not_appended
        assert len(others) == len(before) and last.pinned
        if form == "no JSON":
            assert last.message is given.message
        else:
            assert json.loads(last.message) == given.message and last.request_id
        assert contents == []

    with Client(shared_server.unix) as client:
        task = client.start_task(config=QUIET)
        for message in before:
            task.append(message, wait=False)
        eventually(lambda: not task._appender._backlog.pending)
        if form == "closed":
            client.close()
        with pytest.raises(kind) as failed:
            task.append(given, wait=wait)
        with Client(shared_server.unix) as reader:
            expect(failed.value, list(reader.task(task.uuid).current_messages()))

    async def story(client: AsyncClient) -> None:
        task = await client.start_task(config=QUIET)
        for message in before:
            await task.append(message, wait=False)
        while task._appender._backlog.pending:
            await asyncio.sleep(0.01)
        if form == "closed":
            await client.close()
        with pytest.raises(kind) as failed:
            await task.append(given, wait=wait)
        with Client(shared_server.unix) as reader:
            expect(failed.value, list(reader.task(task.uuid).current_messages()))

    run(story, shared_server)


@pytest.mark.quick
@pytest.mark.parametrize("form", ["too large", "no JSON", "too large behind a refused one", "too late"])
def test_what_a_failing_append_many_was_given_is_the_last_of_not_appended(
    shared_server: Server, form: str
) -> None:
    refused, last = {"role": "wizard"}, NAN if form == "no JSON" else LARGE if "large" in form else said(1)
    behind = form in ("too large behind a refused one", "too late")
    kind = errors.InvalidField if behind else ValueError if form == "no JSON" else errors.TooLarge

    def expect(failure: Any, view: list[Any]) -> None:
        assert len(failure.not_appended) == 1 + behind
        message = failure.not_appended[-1].message
        assert message is last if form == "no JSON" else json.loads(message) == last
        assert view == ([] if behind else [said(0)])

    with Client(shared_server.unix) as client:
        task = client.start_task(config=QUIET)

        def messages() -> Iterator[Any]:
            yield refused if behind else said(0)
            if form == "too late":
                eventually(lambda: not task._appender._backlog.pending)
            yield last

        with pytest.raises(kind) as failed:
            list(task.append_many(messages()))
        expect(failed.value, list(task.current_messages()))

    async def story(client: AsyncClient) -> None:
        task = await client.start_task(config=QUIET)

        async def messages() -> AsyncIterator[Any]:
            yield refused if behind else said(0)
            while form == "too late" and task._appender._backlog.pending:
                await asyncio.sleep(0.01)
            yield last

        with pytest.raises(kind) as failed:
            async for _ in task.append_many(messages()):
                pass
        expect(failed.value, await task.current().to_list())

    run(story, shared_server)


@pytest.mark.quick
def test_one_callers_message_does_not_take_anothers_with_it(client: Client, shared_server: Server) -> None:
    task = client.start_task(config=QUIET)
    taken = threading.Event()

    def refused() -> Iterator[dict[str, str]]:
        yield {"role": "wizard"}
        yield said(1)
        taken.set()

    with shared_server.frozen():
        many = threading.Thread(
            target=lambda: pytest.raises(errors.InvalidField, list, task.append_many(refused()))
        )
        many.start()
        assert taken.wait(DEADLINE)
        for number in range(10):
            task.append(said(number), wait=False)
    many.join()
    assert task.current().to_list() == [said(number) for number in range(10)]


# feature: append-many-source-fails
@pytest.mark.quick
@pytest.mark.parametrize("wrong", [KeyError("mine"), {"role": "user", "content": object()}])
def test_what_comes_before_an_error_of_the_source_is_appended(shared_server: Server, wrong: Any) -> None:
    kind: type[Exception] = type(wrong) if isinstance(wrong, KeyError) else TypeError

    def messages() -> Iterator[dict[str, Any]]:
        for number in range(300):
            yield said(number)
        if isinstance(wrong, KeyError):
            raise wrong
        yield wrong

    async def async_messages() -> AsyncIterator[dict[str, Any]]:
        for message in messages():
            yield message

    def expect(raised: BaseException) -> None:
        words = str(raised) + "".join(getattr(raised, "__notes__", []))
        assert "messages[300]" in words or sys.version_info < (3, 11)

    with Client(shared_server.unix) as client:
        task = client.start_task(config=QUIET)
        acks = []
        with pytest.raises(kind) as raised:
            for ack in task.append_many(messages()):
                acks.append(ack.seq)
        assert acks == list(range(1, 301)) and task.get().task.last_seq == 300
        expect(raised.value)

    async def story(client: AsyncClient) -> None:
        for source in (messages(), async_messages()):
            task = await client.start_task(config=QUIET)
            acks = []
            with pytest.raises(kind) as raised:
                async for ack in task.append_many(source):
                    acks.append(ack.seq)
            assert acks == list(range(1, 301)) and (await task.get()).task.last_seq == 300
            expect(raised.value)

    run(story, shared_server)


@pytest.mark.quick
def test_an_append_many_that_nobody_iterates_over_to_its_end(shared_server: Server) -> None:
    taken: list[int] = []

    def messages() -> Iterator[dict[str, str]]:
        for number in range(1000):
            taken.append(number)
            yield said(number)

    with Client(shared_server.unix) as client:
        task = client.start_task(config=QUIET)
        for _ in task.append_many(messages()):
            break
        assert task.get().task.last_seq == len(taken)

    async def story(client: AsyncClient) -> None:
        taken.clear()
        task = await client.start_task(config=QUIET)
        async with contextlib.aclosing(task.append_many(messages())) as acks:
            async for _ in acks:
                break
        assert (await task.get()).task.last_seq == len(taken)

    run(story, shared_server)


@pytest.mark.quick
def test_tasks_that_are_forgotten_leave_nothing_behind(shared_server: Server) -> None:
    def ours() -> list[str]:
        gc.collect()
        return [each.name for each in threading.enumerate() if each.name.startswith("contextstore")]

    before, threads = ours(), threading.active_count()
    with Client(shared_server.unix) as client:
        uuids = []
        for _ in range(100):
            task = client.start_task(config=QUIET)
            task.append(said(1), wait=False)
            uuids.append(task.uuid)
        del task
    # A thread may end a moment after its client was closed: one of this client, or of the client before it.
    eventually(lambda: len(ours()) <= len(before))
    # Those of grpcio too: one may be left of a channel, none of each task.
    eventually(lambda: threading.active_count() < threads + 10)
    with Client(shared_server.unix) as client:
        assert [client.get_task(uuid).task.last_seq for uuid in uuids] == [1] * 100


@pytest.mark.quick
def test_a_forked_child_has_none_of_its_parents_messages(shared_server: Server) -> None:
    with Client(shared_server.unix) as client:
        task = client.start_task(config=QUIET)
        with shared_server.frozen():
            for number in range(10):
                task.append(said(number), wait=False)
            unsaved = task._appender.unsaved
            child = os.fork()
            if child == 0:
                os._exit(task._appender.unsaved)
            assert os.waitpid(child, 0)[1] == 0 and unsaved == 10
    assert saved(shared_server, task.uuid) == 10
