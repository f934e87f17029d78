"""The client for asyncio: a channel, how calls are run on it, and the calls that are not about one task."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, TypeVar, cast

import grpc
from google.protobuf.message import Message

from . import _outputs, _unsaved
from ._async_io import look, pause, upload_error
from ._async_stream import AsyncAppender, close_all, flush_all
from ._base import ClientBase
from ._calls import Call
from ._channel import (
    HEALTH_CHECK,
    HEALTH_CHECK_REQUEST,
    TAKEN_BYTES,
    AsyncConnection,
    not_yet,
    require_serving,
    require_taken,
)
from ._chat import Streamed
from ._cursors import Cursor
from ._leases import AsyncRenewer
from ._opening import opening
from ._reach import is_lost
from ._retry import Attempts, StreamAttempts
from ._upload import Upload
from ._values import as_uuid, require_key
from .async_task import AsyncTask
from .errors import ContextStoreError, UnsupportedByServer, from_rpc_error
from .types import (
    GarbageCollected,
    InheritanceContext,
    PreviousContext,
    ServerInfo,
    TaskConfig,
    TaskInfo,
    TaskKey,
    TaskState,
)
from .v1 import context_store_pb2 as pb
from .v1 import context_store_pb2_grpc as stubs
from .v1 import task_pb2
from .v1 import tool_outputs_pb2 as outputs_pb
from .v1 import tool_outputs_pb2_grpc as outputs_stubs

T = TypeVar("T")

_LOOK = 1.0
"""Seconds in which a server that lacks a method is asked for its version."""


class AsyncClient(ClientBase):
    """A connection to a contextstore server, for asyncio. Client is the same for threads.

        async with AsyncClient("unix:contexts/contextstore.sock") as client:
            async with client.task({"task_id": "7"}) as task:
                await task.append({"role": "user", "content": "Hello"})

    It belongs to the event loop of its first call. What iterates is closed at once, not some time later, by
    `async with contextlib.aclosing(task.watch()) as events`.

    Calls that could not be carried out for now (the server is being restarted, or overloaded) are repeated, for as
    long as `timeout` allows. That is safe: every changing call has a request id, which the server recognises. A client that
    has never reached its server says so at once (Unreachable), unless it is told to `wait_until_ready`.
    """

    stub: stubs.ContextStoreAsyncStub
    """The generated stub, for calls as the protocol has them: no retries, no deadline, errors of grpcio."""
    outputs_stub: outputs_stubs.ToolOutputsAsyncStub
    """The same of the service for outputs of tools."""

    def _connect(self) -> None:
        self._connection = AsyncConnection(self._address)
        channel = cast("grpc.aio.Channel", self._connection)
        self.stub = stubs.ContextStoreStub(channel)
        self.outputs_stub = outputs_stubs.ToolOutputsStub(channel)
        self._health = self._connection.without_token(HEALTH_CHECK)
        self._start_renewing()

    def _start_renewing(self) -> None:
        self._renewer = AsyncRenewer(self)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._close(may_raise=error is None)

    async def close(self) -> None:
        """Closes the connection; calls that are under way are cancelled. Leases stay until they expire.

        What was appended with `wait=False` is saved first, for as long as `flush_timeout` allows; what is not is raised, with
        its messages in `not_appended`.
        """
        await self._close(may_raise=True)

    async def _close(self, may_raise: bool) -> None:
        self._closed = True
        appenders = [each for each in _unsaved.of(self) if isinstance(each, AsyncAppender)]
        lost: list[Any] = []
        try:
            lost = await flush_all(appenders)
        finally:
            await close_all(appenders, self._renewer, self._connection)
        _unsaved.report(lost, may_raise=may_raise)

    async def wait_until_ready(self, timeout: float = 30.0) -> None:
        """Waits until the server is there and has recovered what a crash left; raises Unavailable otherwise."""
        attempts = Attempts(timeout)
        while True:
            try:
                require_serving(await self._health(HEALTH_CHECK_REQUEST, timeout=attempts.remaining()))
                self._reached = True
                return
            except grpc.RpcError as raised:
                error = not_yet(await self._failed(raised, waiting=True))
            except ContextStoreError as not_ready:
                error = not_ready
            await pause(self, attempts.pause_after(error, repeatable=True))

    async def server_info(self, *, timeout: float | None = None) -> ServerInfo:
        """What the server is and what it takes."""
        return await self._run(self._calls.server_info(), timeout)

    @opening
    async def start_task(
        self,
        *,
        key: TaskKey | Mapping[str, str] | str | None = None,
        user: str = "",
        config: TaskConfig | Mapping[str, Any] | None = None,
        task_uuid: str | None = None,
        lease_generation: int = 0,
        inherit: str = "",
        system_message: str = "",
        timeout: float | None = None,
    ) -> AsyncTask:
        """Makes a task, or takes up the running one with the id `task_uuid`.

        A task that another client works on raises LeaseHeld. `lease_generation` is what the caller last had, if it
        wants to know by StaleLease that somebody else worked on the task since. The lease is kept alive in the
        background.

        `inherit` says what a new task takes over: `auto` (the same as nothing: from the newest task that
        `previous_contexts` finds, if the configuration wants that), `never`, or the id of a task that ended. What was
        taken over is told by `inherited_from` and `inheritance_comment` of the task. `system_message` is appended as
        the first message of a new task.
        """
        call = self._calls.start_task(key, user, config, task_uuid, lease_generation, inherit, system_message)
        response = await self._run(call, timeout)
        task = AsyncTask(self, response.task, response.lease_generation, response.lease_ttl.ToTimedelta())
        task.inherited_from, task.inheritance_comment = response.inherited_from, response.inheritance_comment
        return task

    @opening
    async def fork_task(
        self,
        task_uuid: str,
        *,
        at_seq: int = 0,
        new_task_uuid: str | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> AsyncTask:
        """Makes another task out of the first messages of one, up to `at_seq`, or of all; each of the two stands alone."""
        call = self._calls.fork_task(task_uuid, at_seq, new_task_uuid, request_id)
        response = await self._run(call, timeout)
        return AsyncTask(self, response.task, response.lease_generation, response.lease_ttl.ToTimedelta())

    async def previous_contexts(
        self,
        key: TaskKey | Mapping[str, str] | str,
        user: str = "",
        *,
        limit: int = 0,
        timeout: float | None = None,
    ) -> list[PreviousContext]:
        """Tasks that ended and that a task with this key and user would go on with, newest first."""
        return await self._run(self._calls.previous_contexts(key, user, limit), timeout)

    async def inheritance_context(
        self, task_uuid: str, *, max_summary_tokens: int = 0, timeout: float | None = None
    ) -> InheritanceContext:
        """What a task would take over from one that ended; NothingToInherit if there is nothing."""
        return await self._run(self._calls.inheritance_context(task_uuid, max_summary_tokens), timeout)

    @opening
    async def resume_task(
        self, task_uuid: str, *, lease_generation: int = 0, timeout: float | None = None
    ) -> AsyncTask:
        """Goes on with a paused task."""
        response = await self._run(self._calls.resume_task(task_uuid, lease_generation), timeout)
        return AsyncTask(self, response.task, response.lease_generation, response.lease_ttl.ToTimedelta())

    async def get_task(self, task_uuid: str, *, timeout: float | None = None) -> TaskState:
        """A task as it is now (`task`), and how full its context is (`pressure`)."""
        return await self._run(self._calls.get_task(task_uuid), timeout)

    @opening
    async def task(
        self,
        key: TaskKey | Mapping[str, str] | str,
        *,
        user: str = "",
        config: TaskConfig | Mapping[str, Any] | None = None,
        inherit: str = "",
        system_message: str = "",
        timeout: float | None = None,
    ) -> AsyncTask:
        """The task of a key, to work on: the running or paused one of this key and user, or else a new one.

            async with client.task({"task_source": "github", "repo": "hello", "task_id": "7"}) as task: ...

        So an agent that was restarted goes on where it was (`task.resumed` tells), and one that comes after a task
        that ended takes over from it; `start_task` always makes a new one. A key that is a string is a `task_id`. What a
        task is started with is as for `start_task`; one that is there keeps its own. LeaseHeld if another client works on
        it. A task that was made by another client less than a second ago may not be found.

        A string that is a UUID is the task with that id, to be looked at: without a lease, whatever its status.
        """
        require_key(key)
        if isinstance(key, str) and as_uuid(key):
            state = await self.get_task(key, timeout=timeout)
            return AsyncTask(self, state.task, 0, None)
        async for found in self.list_tasks(
            statuses=("running", "paused"), key=key, user=user, page_size=10, timeout=timeout
        ):
            if self._calls.is_of(found, key, user):
                return await self._take_up(found, timeout)
        return await self.start_task(
            key=key, user=user, config=config, inherit=inherit, system_message=system_message, timeout=timeout
        )

    async def _take_up(self, found: TaskInfo, timeout: float | None) -> AsyncTask:
        if found.status == task_pb2.TASK_STATUS_PAUSED:
            task = await self.resume_task(found.uuid, timeout=timeout)
        else:
            task = await self.start_task(task_uuid=found.uuid, timeout=timeout)
        task.resumed = True
        return task

    async def list_tasks(
        self,
        *,
        statuses: Iterable[str] | str = (),
        key: TaskKey | Mapping[str, str] | str | None = None,
        user: str = "",
        created_from: datetime | None = None,
        created_before: datetime | None = None,
        order: str = "",
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncGenerator[TaskInfo, None]:
        """The tasks that match, page by page; what is left out matches everything. Times without a zone are UTC.

        `statuses` are of `running`, `paused`, `completed` and `failed`. `order` is `created_desc` (the default),
        `created_asc`, `updated_desc` or `updated_asc`. The list is behind the tasks by at most a second.
        """
        page: Call[pb.ListTasksResponse] | None = self._calls.list_tasks(
            statuses, key, user, created_from, created_before, order, page_size
        )
        while page is not None:
            answer = await self._run(page, timeout)
            for task in answer.tasks:
                yield task
            page = self._calls.next_page(page, answer)

    async def collect_garbage(
        self,
        task_uuid: str = "",
        *,
        dry_run: bool = False,
        min_age: timedelta | float | None = None,
        timeout: float | None = None,
    ) -> GarbageCollected:
        """Removes outputs of tools that no log names, of one task or of all; with `dry_run`, tells what it would remove.

        Outputs that were put less than `min_age` ago (a timedelta or seconds; an hour, if nothing is said) stay.
        """
        return await self._run(_outputs.collect_garbage(task_uuid, dry_run, min_age), timeout)

    def _method(self, name: str) -> Any:
        return getattr(self.stub, name, None) or getattr(self.outputs_stub, name)

    async def _failed(
        self, raised: grpc.RpcError, *, waiting: bool = False, method: str = ""
    ) -> ContextStoreError:
        """What a call failed with; in plain words, if the server could not be reached."""
        error = from_rpc_error(raised)
        if is_lost(error):
            return self._explained(error, await look(self._address), waiting)
        self._heard(error)
        if isinstance(error, UnsupportedByServer):
            return error.explain(method, await self._server_version())
        return error

    async def _server_version(self) -> str:
        """The version of the server, if that can be learnt at once."""
        try:
            return (await self.stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=_LOOK)).version
        except grpc.RpcError:
            return ""

    async def _check_size(self, request: Message) -> None:
        """Refuses what is larger than the server takes before it is sent."""
        if (size := request.ByteSize()) > TAKEN_BYTES:
            require_taken(size, (await self.server_info()).limits.message_bytes)

    async def _run(self, call: Call[T], timeout: float | None) -> T:
        await self._check_size(call.request)
        attempts = Attempts(self.timeout if timeout is None else timeout)
        method = self._method(call.method)
        while True:
            try:
                longest = max(attempts.remaining(), call.least if timeout is None else 0.0)
                response = await method(call.request, timeout=longest)
                self._reached = True
                return call.answer(response)
            except grpc.RpcError as raised:
                error = await self._failed(raised, method=call.method)
            if call.none_if(error, attempts.failures > 0):
                return cast(T, None)
            await pause(self, attempts.pause_after(error, repeatable=call.repeatable))

    async def _upload(self, upload: Upload, timeout: float | None) -> outputs_pb.PutToolOutputResponse:
        usual = self.timeout if upload.small else max(self.timeout, self.stream_timeout)
        attempts = Attempts(usual if timeout is None else timeout)
        while True:
            try:
                requests = upload.async_requests()
                response = await self.outputs_stub.PutToolOutput(requests, timeout=attempts.remaining())
                self._reached = True
                upload.check()
                return response
            except grpc.RpcError as raised:
                upload.check()
                error = upload_error(await self._failed(raised, method="PutToolOutput"), upload, attempts)
            await pause(self, attempts.pause_after(error, repeatable=upload.repeatable))

    async def _read(self, cursor: Cursor[T]) -> AsyncGenerator[T, None]:
        attempts = StreamAttempts(self.timeout)
        method = self._method(cursor.method)
        while True:
            call = method(cursor.request(), timeout=self.stream_timeout)
            try:
                cursor.begin(await call.initial_metadata() or ())
                async for response in call:
                    self._reached = True
                    attempts.progressed()
                    for item in cursor.take(response):
                        yield item
                    if cursor.done:
                        return
                return
            except grpc.RpcError as raised:
                error = cursor.refine(await self._failed(raised, method=cursor.method))
            finally:
                call.cancel()
            await pause(self, attempts.pause_after(error, idle=cursor.follows))

    async def _stream(self, streamed: Streamed[T], timeout: float | None) -> AsyncGenerator[T, None]:
        await self._check_size(streamed.request)
        attempts, failed = Attempts(self.timeout), False
        method = self._method(streamed.method)
        while True:
            call = method(streamed.request, timeout=timeout)
            arrived = False
            try:
                async for response in call:
                    self._reached = arrived = True
                    for item in streamed.take(response):
                        yield item
                return
            except grpc.RpcError as raised:
                error = await self._failed(raised, method=streamed.method)
            finally:
                call.cancel()
            if arrived and streamed.repeats and not failed:
                # It may have gone on for long before that; but a server that fails at each try is left alone.
                attempts, failed = Attempts(self.timeout), True
            await pause(self, attempts.pause_after(error, repeatable=streamed.repeats or not arrived))
