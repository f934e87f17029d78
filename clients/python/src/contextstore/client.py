# Made from async_client.py by unasync.py: change that module, then run `make gen-sync`.
"""The client for threads: a channel, how calls are run on it, and the calls that are not about one task."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, TypeVar, cast

import grpc
from google.protobuf.message import Message

from . import _outputs, _unsaved
from ._base import ClientBase
from ._calls import Call
from ._channel import (
    HEALTH_CHECK,
    HEALTH_CHECK_REQUEST,
    TAKEN_BYTES,
    Connection,
    not_yet,
    require_serving,
    require_taken,
)
from ._chat import Streamed
from ._cursors import Cursor
from ._io import look, pause, upload_error
from ._leases import Renewer
from ._reach import is_lost
from ._retry import Attempts, StreamAttempts
from ._stream import Appender, close_all, flush_all
from ._upload import Upload
from ._values import as_uuid, require_key
from .errors import ContextStoreError, UnsupportedByServer, from_rpc_error
from .task import Task
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


class Client(ClientBase):
    """A connection to a contextstore server, for threads. AsyncClient is the same for asyncio.

        with Client("unix:contexts/contextstore.sock") as client:
            with client.task({"task_id": "7"}) as task:
                task.append({"role": "user", "content": "Hello"})

    A client and its tasks can be shared by threads.

    Calls that could not be carried out for now (the server is being restarted, or overloaded) are repeated, for as
    long as `timeout` allows. That is safe: every changing call has a request id, which the server recognises. A client that
    has never reached its server says so at once (Unreachable), unless it is told to `wait_until_ready`.
    """

    stub: stubs.ContextStoreStub
    """The generated stub, for calls as the protocol has them: no retries, no deadline, errors of grpcio."""
    outputs_stub: outputs_stubs.ToolOutputsStub
    """The same of the service for outputs of tools."""

    def _connect(self) -> None:
        self._connection = Connection(self._address)
        channel = cast("grpc.Channel", self._connection)
        self.stub = stubs.ContextStoreStub(channel)
        self.outputs_stub = outputs_stubs.ToolOutputsStub(channel)
        self._health = self._connection.without_token(HEALTH_CHECK)
        self._start_renewing()

    def _start_renewing(self) -> None:
        self._renewer = Renewer(self)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close(may_raise=error is None)

    def close(self) -> None:
        """Closes the connection; calls that are under way are cancelled. Leases stay until they expire.

        What was appended with `wait=False` is saved first, for as long as `flush_timeout` allows; what is not is raised, with
        its messages in `not_appended`.
        """
        self._close(may_raise=True)

    def _close(self, may_raise: bool) -> None:
        self._closed = True
        appenders = [each for each in _unsaved.of(self) if isinstance(each, Appender)]
        lost: list[Any] = []
        try:
            lost = flush_all(appenders)
        finally:
            close_all(appenders, self._renewer, self._connection)
        _unsaved.report(lost, may_raise=may_raise)

    def wait_until_ready(self, timeout: float = 30.0) -> None:
        """Waits until the server is there and has recovered what a crash left; raises Unavailable otherwise."""
        attempts = Attempts(timeout)
        while True:
            try:
                require_serving(self._health(HEALTH_CHECK_REQUEST, timeout=attempts.remaining()))
                self._reached = True
                return
            except grpc.RpcError as raised:
                error = not_yet(self._failed(raised, waiting=True))
            except ContextStoreError as not_ready:
                error = not_ready
            pause(self, attempts.pause_after(error, repeatable=True))

    def server_info(self, *, timeout: float | None = None) -> ServerInfo:
        """What the server is and what it takes."""
        return self._run(self._calls.server_info(), timeout)

    def start_task(
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
    ) -> Task:
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
        response = self._run(call, timeout)
        task = Task(self, response.task, response.lease_generation, response.lease_ttl.ToTimedelta())
        task.inherited_from, task.inheritance_comment = response.inherited_from, response.inheritance_comment
        return task

    def fork_task(
        self,
        task_uuid: str,
        *,
        at_seq: int = 0,
        new_task_uuid: str | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Task:
        """Makes another task out of the first messages of one, up to `at_seq`, or of all; each of the two stands alone."""
        call = self._calls.fork_task(task_uuid, at_seq, new_task_uuid, request_id)
        response = self._run(call, timeout)
        return Task(self, response.task, response.lease_generation, response.lease_ttl.ToTimedelta())

    def previous_contexts(
        self,
        key: TaskKey | Mapping[str, str] | str,
        user: str = "",
        *,
        limit: int = 0,
        timeout: float | None = None,
    ) -> list[PreviousContext]:
        """Tasks that ended and that a task with this key and user would go on with, newest first."""
        return self._run(self._calls.previous_contexts(key, user, limit), timeout)

    def inheritance_context(
        self, task_uuid: str, *, max_summary_tokens: int = 0, timeout: float | None = None
    ) -> InheritanceContext:
        """What a task would take over from one that ended; NothingToInherit if there is nothing."""
        return self._run(self._calls.inheritance_context(task_uuid, max_summary_tokens), timeout)

    def resume_task(self, task_uuid: str, *, lease_generation: int = 0, timeout: float | None = None) -> Task:
        """Goes on with a paused task."""
        response = self._run(self._calls.resume_task(task_uuid, lease_generation), timeout)
        return Task(self, response.task, response.lease_generation, response.lease_ttl.ToTimedelta())

    def get_task(self, task_uuid: str, *, timeout: float | None = None) -> TaskState:
        """A task as it is now (`task`), and how full its context is (`pressure`)."""
        return self._run(self._calls.get_task(task_uuid), timeout)

    def task(
        self,
        key: TaskKey | Mapping[str, str] | str,
        *,
        user: str = "",
        config: TaskConfig | Mapping[str, Any] | None = None,
        inherit: str = "",
        system_message: str = "",
        timeout: float | None = None,
    ) -> Task:
        """The task of a key, to work on: the running or paused one of this key and user, or else a new one.

            with client.task({"task_source": "github", "repo": "hello", "task_id": "7"}) as task: ...

        So an agent that was restarted goes on where it was (`task.resumed` tells), and one that comes after a task
        that ended takes over from it; `start_task` always makes a new one. A key that is a string is a `task_id`. What a
        task is started with is as for `start_task`; one that is there keeps its own. LeaseHeld if another client works on
        it. A task that was made by another client less than a second ago may not be found.

        A string that is a UUID is the task with that id, to be looked at: without a lease, whatever its status.
        """
        require_key(key)
        if isinstance(key, str) and as_uuid(key):
            state = self.get_task(key, timeout=timeout)
            return Task(self, state.task, 0, None)
        for found in self.list_tasks(
            statuses=("running", "paused"), key=key, user=user, page_size=10, timeout=timeout
        ):
            if self._calls.is_of(found, key, user):
                return self._take_up(found, timeout)
        return self.start_task(
            key=key, user=user, config=config, inherit=inherit, system_message=system_message, timeout=timeout
        )

    def _take_up(self, found: TaskInfo, timeout: float | None) -> Task:
        if found.status == task_pb2.TASK_STATUS_PAUSED:
            task = self.resume_task(found.uuid, timeout=timeout)
        else:
            task = self.start_task(task_uuid=found.uuid, timeout=timeout)
        task.resumed = True
        return task

    def list_tasks(
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
    ) -> Generator[TaskInfo, None, None]:
        """The tasks that match, page by page; what is left out matches everything. Times without a zone are UTC.

        `statuses` are of `running`, `paused`, `completed` and `failed`. `order` is `created_desc` (the default),
        `created_asc`, `updated_desc` or `updated_asc`. The list is behind the tasks by at most a second.
        """
        page: Call[pb.ListTasksResponse] | None = self._calls.list_tasks(
            statuses, key, user, created_from, created_before, order, page_size
        )
        while page is not None:
            answer = self._run(page, timeout)
            yield from answer.tasks
            page = self._calls.next_page(page, answer)

    def collect_garbage(
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
        return self._run(_outputs.collect_garbage(task_uuid, dry_run, min_age), timeout)

    def _method(self, name: str) -> Any:
        return getattr(self.stub, name, None) or getattr(self.outputs_stub, name)

    def _failed(self, raised: grpc.RpcError, *, waiting: bool = False, method: str = "") -> ContextStoreError:
        """What a call failed with; in plain words, if the server could not be reached."""
        error = from_rpc_error(raised)
        if is_lost(error):
            return self._explained(error, look(self._address), waiting)
        self._heard(error)
        if isinstance(error, UnsupportedByServer):
            return error.explain(method, self._server_version())
        return error

    def _server_version(self) -> str:
        """The version of the server, if that can be learnt at once."""
        try:
            return (self.stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=_LOOK)).version
        except grpc.RpcError:
            return ""

    def _check_size(self, request: Message) -> None:
        """Refuses what is larger than the server takes before it is sent."""
        if (size := request.ByteSize()) > TAKEN_BYTES:
            require_taken(size, (self.server_info()).limits.message_bytes)

    def _run(self, call: Call[T], timeout: float | None) -> T:
        self._check_size(call.request)
        attempts = Attempts(self.timeout if timeout is None else timeout)
        method = self._method(call.method)
        while True:
            try:
                longest = max(attempts.remaining(), call.least if timeout is None else 0.0)
                response = method(call.request, timeout=longest)
                self._reached = True
                return call.answer(response)
            except grpc.RpcError as raised:
                error = self._failed(raised, method=call.method)
            if call.none_if(error, attempts.failures > 0):
                return cast(T, None)
            pause(self, attempts.pause_after(error, repeatable=call.repeatable))

    def _upload(self, upload: Upload, timeout: float | None) -> outputs_pb.PutToolOutputResponse:
        usual = self.timeout if upload.small else max(self.timeout, self.stream_timeout)
        attempts = Attempts(usual if timeout is None else timeout)
        while True:
            try:
                requests = upload.requests()
                response = self.outputs_stub.PutToolOutput(requests, timeout=attempts.remaining())
                self._reached = True
                upload.check()
                return response
            except grpc.RpcError as raised:
                upload.check()
                error = upload_error(self._failed(raised, method="PutToolOutput"), upload, attempts)
            pause(self, attempts.pause_after(error, repeatable=upload.repeatable))

    def _read(self, cursor: Cursor[T]) -> Generator[T, None, None]:
        attempts = StreamAttempts(self.timeout)
        method = self._method(cursor.method)
        while True:
            call = method(cursor.request(), timeout=self.stream_timeout)
            try:
                cursor.begin(call.initial_metadata() or ())
                for response in call:
                    self._reached = True
                    attempts.progressed()
                    yield from cursor.take(response)
                    if cursor.done:
                        return
                return
            except grpc.RpcError as raised:
                error = cursor.refine(self._failed(raised, method=cursor.method))
            finally:
                call.cancel()
            pause(self, attempts.pause_after(error, idle=cursor.follows))

    def _stream(self, streamed: Streamed[T], timeout: float | None) -> Generator[T, None, None]:
        self._check_size(streamed.request)
        attempts, failed = Attempts(self.timeout), False
        method = self._method(streamed.method)
        while True:
            call = method(streamed.request, timeout=timeout)
            arrived = False
            try:
                for response in call:
                    self._reached = arrived = True
                    yield from streamed.take(response)
                return
            except grpc.RpcError as raised:
                error = self._failed(raised, method=streamed.method)
            finally:
                call.cancel()
            if arrived and streamed.repeats and not failed:
                # It may have gone on for long before that; but a server that fails at each try is left alone.
                attempts, failed = Attempts(self.timeout), True
            pause(self, attempts.pause_after(error, repeatable=streamed.repeats or not arrived))
