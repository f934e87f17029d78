"""A server that is older or newer than the client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import grpc
import pytest
from test_retries import Scripted, serve
from wire import error_info, status

from contextstore import AsyncClient, Client, Task, UnsupportedByServer, errors
from contextstore.v1 import context_store_pb2 as pb
from contextstore.v1 import task_pb2

pytestmark = pytest.mark.quick
UNKNOWN = b"\xfa\x3f\x03new"
"""A field with the number 1023, which no message of this client has."""
HIBERNATING = cast("task_pb2.TaskStatus.ValueType", 99)
"""A status that only a newer server knows."""


class Older(Scripted):
    """Has only the methods of Scripted: all others answer UNIMPLEMENTED."""

    version = "0.0.7"

    def GetServerInfo(self, request: Any, context: Any) -> Any:
        if not self.version:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "neither this")
        return pb.GetServerInfoResponse(version=self.version)


LACKING: dict[str, Callable[[Task], Any]] = {
    "ForkTask": lambda task: task.fork(),
    "StreamCurrent": lambda task: list(task.current()),
    "Compress": lambda task: task.compress(),
    "PutToolOutput": lambda task: task.output.put("text"),
    "RecordToolCall": lambda task: task.record_tool_call("ls"),
}


# feature: older-server
@pytest.mark.parametrize("method", LACKING)
def test_a_method_that_the_server_does_not_have(method: str) -> None:
    older = Older()  # type: ignore[abstract]
    with serve(scripted=older) as (_, address), Client(address) as client:
        task = client.start_task()
        with pytest.raises(UnsupportedByServer) as unsupported:
            LACKING[method](task)
        error = unsupported.value
        assert (error.method, error.server_version, error.tries) == (method, "0.0.7", 1)
        assert error.message == (
            f"the server (version 0.0.7) does not have the method {method}: upgrade the server"
        )
        # Whatever it has goes on.
        assert task.append("{}", output_ref="5").seq == 5
        older.version = ""
        with pytest.raises(UnsupportedByServer, match=f"^the server does not have the method {method}: "):
            LACKING[method](task)


# feature: older-server
def test_the_same_for_asyncio() -> None:
    async def story(address: str) -> None:
        async with AsyncClient(address) as client:
            task = await client.start_task()
            with pytest.raises(UnsupportedByServer, match="version 0.0.7.* ForkTask"):
                await task.fork()
            with pytest.raises(UnsupportedByServer, match="StreamCurrent"):
                await task.current().to_list()
            with pytest.raises(UnsupportedByServer, match="PutToolOutput"):
                await task.output.put("text")
            with pytest.raises(UnsupportedByServer, match="Compress"):
                await task.compress()

    with serve(scripted=Older()) as (_, address):  # type: ignore[abstract]
        asyncio.run(story(address))


class WithoutStreams(Older):
    """Cannot append many messages."""

    def AppendMessages(self, request_iterator: Any, context: Any) -> Any:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "")
        yield


# feature: older-server
def test_messages_that_the_server_cannot_take_are_given_back() -> None:
    with serve(scripted=WithoutStreams()) as (_, address), Client(address) as client:  # type: ignore[abstract]
        task = client.start_task()
        task.append("{}", output_ref="1", wait=False)
        with pytest.raises(UnsupportedByServer, match="AppendMessages") as unsupported:
            task.flush()
        assert [each.output_ref for each in unsupported.value.not_appended] == ["1"]
        assert task.append(unsupported.value.not_appended[0]).seq == 1


def newer(message: Any) -> Any:
    """A message with a field that this client does not know."""
    return type(message).FromString(message.SerializeToString() + UNKNOWN)


class Newer(Scripted):
    """Says what this client has never heard of."""

    def StartTask(self, request: Any, context: Any) -> Any:
        task = newer(task_pb2.Task(uuid=request.task_uuid, status=HIBERNATING))
        return newer(pb.StartTaskResponse(task=task, lease_generation=3))

    def AppendMessage(self, request: Any, context: Any) -> Any:
        self._take(request, context)
        return newer(pb.AppendMessageResponse(seq=1))

    def Chat(self, request: Any, context: Any) -> Any:
        yield pb.ChatResponse.FromString(UNKNOWN)
        yield newer(pb.ChatResponse(done=pb.ChatDone(seq=7, message_json="{}", finish_reason="bored")))

    def WatchTask(self, request: Any, context: Any) -> Any:
        yield pb.WatchTaskResponse.FromString(UNKNOWN)
        yield newer(pb.WatchTaskResponse(resume_token="last"))

    def GetServerInfo(self, request: Any, context: Any) -> Any:
        return newer(pb.GetServerInfoResponse(version="9.0.0", features=["telepathy"]))


# feature: newer-server
def test_what_a_newer_server_says_breaks_nothing() -> None:
    details = status(error_info("ERROR_REASON_TASK_IS_ASLEEP", {"until": "noon"}))
    failures = [(grpc.StatusCode.FAILED_PRECONDITION, details), (grpc.StatusCode.ABORTED, b"\xff\xff")]

    async def story(address: str) -> None:
        async with AsyncClient(address) as client:
            task = await client.start_task()
            assert [getattr(event, "finish_reason", "") async for event in task.chat()] == ["bored"]
            assert [event.resume_token async for event in task.watch()] == ["", "last"]

    with serve(*failures, scripted=Newer(*failures)) as (_, address):  # type: ignore[abstract]
        with Client(address) as client:
            task = client.start_task()
            assert task.status == "99"
            with pytest.raises(errors.FailedPrecondition) as asleep:
                task.append("{}")
            assert asleep.value.reason == "TASK_IS_ASLEEP" and asleep.value.metadata == {"until": "noon"}
            with pytest.raises(errors.Aborted):
                task.append("{}")
            assert task.append("{}").seq == 1
            (done,) = task.chat()
            assert getattr(done, "finish_reason", "") == "bored"
            assert [event.resume_token for event in task.watch()] == ["", "last"]
            assert list(client.server_info().features) == ["telepathy"]
        asyncio.run(story(address))
