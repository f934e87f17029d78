"""What is sent when a server fails in a way that the test chooses: how often, with which request id, how long."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any, TypeVar

import grpc
import pytest
from serving import DEADLINE
from wire import error_info, retry_info, status

from contextstore import AsyncClient, Client, NewMessage, _cursors, errors
from contextstore.v1 import context_store_pb2 as pb
from contextstore.v1 import message_pb2, task_pb2
from contextstore.v1.context_store_pb2_grpc import ContextStoreServicer, add_ContextStoreServicer_to_server

pytestmark = pytest.mark.quick
T = TypeVar("T")
UUID = "018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10"
OVERLOADED = (
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    status(error_info("ERROR_REASON_OVERLOADED", {"limit": "1"}), retry_info(0, 100_000_000)),
)
UNAVAILABLE = (grpc.StatusCode.UNAVAILABLE, b"")
READ_ONLY = (grpc.StatusCode.UNAVAILABLE, status(error_info("ERROR_REASON_READ_ONLY", {})))
READ_ONLY_FOR_NOW = (
    grpc.StatusCode.UNAVAILABLE,
    status(error_info("ERROR_REASON_READ_ONLY", {}), retry_info(0, 100_000_000)),
)
LEASE_HELD = (
    grpc.StatusCode.ABORTED,
    status(error_info("ERROR_REASON_LEASE_HELD", {}), retry_info(0, 100_000_000)),
)
GONE = (grpc.StatusCode.NOT_FOUND, status(error_info("ERROR_REASON_TASK_NOT_FOUND", {})))


class Scripted(ContextStoreServicer):
    """Fails as it is told, then succeeds; remembers what it was sent."""

    def __init__(self, *failures: tuple[grpc.StatusCode, bytes]) -> None:
        self.failures = list(failures)
        self.requests: list[Any] = []
        self.healths: list[bytes | str] = [b"", b"\x08\x02"]
        self.begun = threading.Event()
        self.may_fail = threading.Event()
        self.may_fail.set()
        self.allowed: list[float] = []

    def _take(self, request: Any, context: Any) -> None:
        self.requests.append(request)
        if self.failures:
            code, details = self.failures.pop(0)
            context.set_trailing_metadata((("grpc-status-details-bin", details),))
            context.abort(code, "as the script says")

    def StartTask(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        return pb.StartTaskResponse(task=task_pb2.Task(uuid=request.task_uuid), lease_generation=3)

    def AppendMessage(self, request: Any, context: Any) -> Any:
        self._take(request, context)
        return pb.AppendMessageResponse(seq=int(request.message.output_ref or 0))

    def DeleteTask(self, request: Any, context: Any) -> Any:
        self._take(request, context)
        return pb.DeleteTaskResponse()

    def GetTask(self, request: Any, context: Any) -> Any:
        self._take(request, context)
        return pb.GetTaskResponse()

    def GetServerInfo(self, request: Any, context: Any) -> Any:
        """Never answers; remembers for how long it is waited for."""
        self.allowed.append(context.time_remaining())
        while context.is_active():
            time.sleep(0.01)

    def check(self, request: bytes, context: Any) -> bytes:
        """First UNKNOWN, then NOT_SERVING, then SERVING."""
        answer = self.healths.pop(0) if self.healths else b"\x08\x01"
        while answer == "hang" and context.is_active():
            time.sleep(0.01)
        return answer if isinstance(answer, bytes) else b""

    def WatchTask(self, request: Any, context: Any) -> Any:
        """Begins, then fails as it is told, once the client knows that it has begun."""
        context.send_initial_metadata((("resume-token", request.resume_token or "beginning"),))
        assert self.begun.wait(DEADLINE)
        self._take(request, context)
        yield pb.WatchTaskResponse(resume_token="first")
        context.abort(grpc.StatusCode.NOT_FOUND, "it is gone")

    def Chat(self, request: Any, context: Any) -> Any:
        """Fails as it is told, before or after it has begun."""
        if request.model == "late":
            yield pb.ChatResponse(started=pb.ChatStarted(model="late"))
        self._take(request, context)
        yield pb.ChatResponse(done=pb.ChatDone(seq=7, message_json="{}"))

    def RenderContext(self, request: Any, context: Any) -> Any:
        """Fails as it is told, before or after the first byte."""
        if request.model != "late":
            self._take(request, context)
        yield pb.RenderContextResponse(data=b"{")
        if request.model == "late":
            self._take(request, context)
        yield pb.RenderContextResponse(data=b"}")

    def AppendMessages(self, request_iterator: Any, context: Any) -> Any:
        """Appends two, then fails as it is told, once it may."""
        count = 0
        for request in request_iterator:
            answers: list[pb.AppendMessageResponse] = []
            for one in request.messages:
                count += 1
                if count == 3:
                    if self.failures:
                        yield from together(answers)
                        assert self.may_fail.wait(DEADLINE)
                    self._take(one, context)
                answers.append(pb.AppendMessageResponse(seq=int(one.output_ref)))
            yield from together(answers)


def together(answers: list[pb.AppendMessageResponse]) -> Iterator[pb.AppendMessagesResponse]:
    """One response, if there is anything to answer."""
    if answers:
        yield pb.AppendMessagesResponse(responses=answers)


@contextmanager
def serve(
    *failures: tuple[grpc.StatusCode, bytes], scripted: Scripted | None = None
) -> Iterator[tuple[Scripted, str]]:
    scripted = scripted or Scripted(*failures)  # type: ignore[abstract]  # The other methods answer UNIMPLEMENTED.
    server = grpc.server(futures.ThreadPoolExecutor(4))
    add_ContextStoreServicer_to_server(scripted, server)
    health: dict[str, Any] = {"Check": grpc.unary_unary_rpc_method_handler(scripted.check)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("grpc.health.v1.Health", health),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield scripted, f"tcp:127.0.0.1:{port}"
    server.stop(0).wait()


def both(address: str, sync: Callable[[Client], T], asynchronous: Callable[[AsyncClient], Any]) -> list[T]:
    """What each of the two clients makes of it."""

    async def run() -> T:
        async with AsyncClient(address) as client:
            answer: T = await asynchronous(client)
            return answer

    with Client(address) as client:
        return [sync(client), asyncio.run(run())]


def sync_append(client: Client, request_id: str | None = None) -> int:
    return client.start_task(task_uuid=UUID).append("{}", request_id=request_id).seq


async def async_append(client: AsyncClient, request_id: str | None = None) -> int:
    return (await (await client.start_task(task_uuid=UUID)).append("{}", request_id=request_id)).seq


@pytest.mark.parametrize("failure", [OVERLOADED, UNAVAILABLE, READ_ONLY_FOR_NOW])
def test_a_repeated_change_has_the_same_request_id(failure: tuple[grpc.StatusCode, bytes]) -> None:
    with serve(failure, failure) as (scripted, address):
        with Client(address) as client:
            sync_append(client)
        _, *sent = scripted.requests
        assert len(sent) == 3 and len({request.message.request_id for request in sent}) == 1
        assert all(request.lease_generation == 3 for request in sent)
        scripted.failures, scripted.requests = [failure, failure], []
        both(address, lambda client: 0, async_append)
        _, *more = scripted.requests
        assert len(more) == 3 and len({request.message.request_id for request in [*sent, *more]}) == 2


def test_the_pause_that_the_server_asks_for_is_kept() -> None:
    with serve(OVERLOADED, OVERLOADED) as (_, address), Client(address) as client:
        task = client.start_task()
        start = time.monotonic()
        task.append("{}")
        assert time.monotonic() - start >= 0.2


def test_a_change_without_a_request_id_is_not_repeated() -> None:
    with serve(UNAVAILABLE, UNAVAILABLE) as (scripted, address):
        with pytest.raises(errors.Unavailable), Client(address) as client:
            sync_append(client, request_id="")
        with pytest.raises(errors.Unavailable):
            both(address, lambda client: 0, lambda client: async_append(client, request_id=""))
        assert scripted.failures == []


def test_a_read_is_repeated() -> None:
    with serve(UNAVAILABLE, UNAVAILABLE) as (scripted, address), Client(address) as client:
        client.get_task(UUID)
        assert len(scripted.requests) == 3


@pytest.mark.parametrize(
    ("failure", "kind", "retry_after"),
    [(READ_ONLY, errors.ReadOnly, None), (LEASE_HELD, errors.LeaseHeld, 0.1)],
)
def test_what_does_not_pass_by_itself_is_told_at_once(
    failure: tuple[grpc.StatusCode, bytes], kind: type[errors.ContextStoreError], retry_after: float | None
) -> None:
    with serve(failure) as (scripted, address), Client(address) as client:
        with pytest.raises(kind) as caught:
            client.start_task(task_uuid=UUID).append("{}")
        assert caught.value.retry_after == retry_after
        assert len(scripted.requests) == 2


def test_a_watch_that_breaks_before_the_first_event_goes_on_where_it_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin = _cursors.WatchCursor.begin

    def sync_watch(client: Client) -> list[str]:
        seen = []
        with pytest.raises(errors.NotFound):
            for event in client.start_task().watch():
                seen.append(event.resume_token)
        return seen

    async def async_watch(client: AsyncClient) -> list[str]:
        seen = []
        with pytest.raises(errors.NotFound):
            async for event in (await client.start_task()).watch():
                seen.append(event.resume_token)
        return seen

    async def nothing(client: AsyncClient) -> list[str]:
        return []

    for sync, asynchronous in ((sync_watch, nothing), (lambda client: [], async_watch)):
        with serve(UNAVAILABLE) as (scripted, address):

            def begun(cursor: _cursors.WatchCursor, header: Any, scripted: Scripted = scripted) -> None:
                begin(cursor, header)
                scripted.begun.set()

            monkeypatch.setattr(_cursors.WatchCursor, "begin", begun)
            assert sum(both(address, sync, asynchronous), []) == ["first"]
            sent = [each.resume_token for each in scripted.requests if isinstance(each, pb.WatchTaskRequest)]
            assert sent == ["", "beginning"]


def sync_chat(client: Client, model: str) -> list[Any]:
    return list(client.start_task(task_uuid=UUID).chat("{}", model=model))


async def async_chat(client: AsyncClient, model: str) -> list[Any]:
    return [event async for event in (await client.start_task(task_uuid=UUID)).chat("{}", model=model)]


def test_a_turn_is_repeated_only_while_nothing_has_arrived() -> None:
    with serve(UNAVAILABLE, OVERLOADED, UNAVAILABLE) as (scripted, address):
        with Client(address) as client:
            assert [event.seq for event in sync_chat(client, "early")] == [7]
        _, *sent = scripted.requests
        assert len(sent) == 4 and len({request.request_id for request in sent}) == 1 and sent[0].request_id
        scripted.failures, scripted.requests = [UNAVAILABLE], []
        both(address, lambda client: [], lambda client: async_chat(client, "early"))
        _, *sent = scripted.requests
        assert len(sent) == 2 and sent[0].request_id == sent[1].request_id

        scripted.failures, scripted.requests = [UNAVAILABLE, UNAVAILABLE], []
        with pytest.raises(errors.Unavailable), Client(address) as client:
            sync_chat(client, "late")
        with pytest.raises(errors.Unavailable):
            both(address, lambda client: [], lambda client: async_chat(client, "late"))
        assert scripted.failures == []


def test_a_body_is_asked_for_again_only_before_its_first_byte() -> None:
    async def body(client: AsyncClient) -> bytes:
        task = await client.start_task()
        return b"".join([chunk async for chunk in task.request("openai")])

    with serve(UNAVAILABLE) as (scripted, address):
        with Client(address) as client:
            assert b"".join(client.start_task().request("openai")) == b"{}"
        scripted.failures = [UNAVAILABLE]
        assert both(address, lambda client: b"", body) == [b"", b"{}"]
        scripted.failures = [UNAVAILABLE]
        with Client(address) as client:
            chunks = client.start_task().request("openai", model="late")
            assert next(chunks) == b"{"
            with pytest.raises(errors.Unavailable):
                next(chunks)


def test_a_removal_whose_answer_was_lost_has_happened() -> None:
    with serve(UNAVAILABLE, GONE) as (_, address), Client(address) as client:
        client.start_task(task_uuid=UUID).delete()
    with serve(GONE) as (_, address), Client(address) as client:
        with pytest.raises(errors.TaskNotFound):
            client.start_task(task_uuid=UUID).delete()


def test_every_call_has_a_deadline() -> None:
    # A call whose time is over before it reaches the server is never seen there.
    async def info(client: AsyncClient) -> None:
        await client.wait_until_ready(timeout=DEADLINE)
        with pytest.raises(errors.DeadlineExceeded):
            await client.server_info(timeout=2)

    def sync_info(client: Client) -> None:
        client.wait_until_ready(timeout=DEADLINE)
        with pytest.raises(errors.DeadlineExceeded):
            client.server_info(timeout=2)

    with serve() as (scripted, address):
        both(address, sync_info, info)
        assert len(scripted.allowed) == 2 and all(seconds < 3 for seconds in scripted.allowed)


def test_a_server_is_ready_when_it_says_so() -> None:
    with serve() as (scripted, address):
        with Client(address) as client:
            # Time enough for an answer on a busy machine, and none of them says so.
            scripted.healths = [b""] * 1000
            with pytest.raises(errors.Unavailable, match="not ready yet"):
                client.wait_until_ready(timeout=3)
            scripted.healths = [b"", b"\x08\x02"]
            client.wait_until_ready(timeout=DEADLINE)
            # One that says nothing at all is not ready either.
            scripted.healths = ["hang"]
            with pytest.raises(errors.Unavailable, match="not answered in time"):
                client.wait_until_ready(timeout=0.3)
        scripted.healths = [b"", b"\x08\x02"]
        both(address, lambda client: None, lambda client: client.wait_until_ready(timeout=DEADLINE))
        assert scripted.healths == []


def test_nobody_there() -> None:
    def sync_ready(client: Client) -> None:
        with pytest.raises(errors.Unavailable):
            client.wait_until_ready(timeout=0.5)

    async def ready(client: AsyncClient) -> None:
        with pytest.raises(errors.Unavailable):
            await client.wait_until_ready(timeout=0.5)

    start = time.monotonic()
    both("unix:/nonexistent/contextstore.sock", sync_ready, ready)
    # Without that, it would have been half a minute for each.
    assert time.monotonic() - start < 30


# The scripted server answers a message in a stream with the number in its output_ref.
NUMBERED = [NewMessage("{}", output_ref=str(n)) for n in range(1, 6)]


def sync_many(client: Client) -> list[int | str]:
    acks: list[int | str] = []
    try:
        for ack in client.start_task().append_many(NUMBERED):
            acks.append(ack.seq)
    except errors.ContextStoreError as error:
        acks += [error.reason, error.index or 0]
    return acks


async def async_many(client: AsyncClient) -> list[int | str]:
    acks: list[int | str] = []
    try:
        async for ack in (await client.start_task()).append_many(NUMBERED):
            acks.append(ack.seq)
    except errors.ContextStoreError as error:
        acks += [error.reason, error.index or 0]
    return acks


def test_a_broken_pipeline_sends_again_what_was_not_acknowledged() -> None:
    # A stream takes two and fails at the third.
    with serve(UNAVAILABLE, OVERLOADED, UNAVAILABLE, OVERLOADED) as (scripted, address):
        assert both(address, sync_many, async_many) == [[1, 2, 3, 4, 5]] * 2
        assert scripted.failures == []
        tries: dict[str, list[str]] = {}
        for request in scripted.requests:
            message = request.message if isinstance(request, pb.AppendMessageRequest) else request
            if isinstance(message, message_pb2.NewMessage):
                tries.setdefault(message.request_id, []).append(message.output_ref)
        assert all(len(set(numbers)) == 1 for numbers in tries.values())


def test_a_refused_message_ends_the_pipeline() -> None:
    # A second one in case that grpcio loses the status and the client asks for it.
    with serve(GONE, GONE, GONE) as (_, address):
        assert both(address, sync_many, async_many) == [[1, 2, "TASK_NOT_FOUND", 2]] * 2


class FirstOnly(Scripted):
    """Appends only the first message of a request. Reads once all are handed over."""

    def AppendMessages(self, request_iterator: Any, context: Any) -> Any:
        assert self.begun.wait(DEADLINE)
        for request in request_iterator:
            yield from together([pb.AppendMessageResponse(seq=int(request.messages[0].output_ref))])


def test_no_message_is_taken_for_acknowledged_that_the_server_has_not_seen() -> None:
    first_only = FirstOnly()  # type: ignore[abstract]
    # The first does not fit into the connection before the server reads: so the others wait, and go together.
    messages = [NewMessage(" " * 3_000_000 + "{}", output_ref="1"), *NUMBERED * 20]

    def handed_over() -> Iterator[NewMessage]:
        yield from messages
        first_only.begun.set()

    with serve(scripted=first_only) as (_, address), Client(address) as client:
        acks = []
        with pytest.raises(errors.Internal, match="has not acknowledged all"):
            for ack in client.start_task().append_many(handed_over()):
                acks.append(ack.seq)
        # Each message that was acknowledged is the one that was told.
        assert acks == [int(message.output_ref) for message in messages][: len(acks)]


def test_a_closed_client_ends_its_pipelines() -> None:
    async def story(address: str) -> None:
        async with AsyncClient(address) as client:
            acks = (await client.start_task()).append_many(endless())
            await anext(acks)
            await client.close()
            with pytest.raises(errors.ContextStoreError):
                async for _ in acks:
                    pass

    def endless() -> Iterator[NewMessage]:
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            yield NewMessage("{}", output_ref="1")
        raise AssertionError("nobody ends it")

    with serve() as (_, address):
        asyncio.run(asyncio.wait_for(story(address), timeout=DEADLINE))
        with Client(address) as client:
            acks = client.start_task().append_many(endless())
            next(acks)
            client.close()
            with pytest.raises(errors.Cancelled):
                list(acks)
