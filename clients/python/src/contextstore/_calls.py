"""Every unary call as a value: what is sent, how the answer is read, whether it may be repeated. No I/O.

Both clients run these. Reading in streams is in `_cursors`.
"""

from __future__ import annotations

import copy
import json
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Generic, TypeVar, cast

import grpc
from google.protobuf.message import Message

from ._enums import many, number, numbers
from ._fields import duration, moment, named
from ._values import (
    Key,
    dump,
    masked,
    new_message,
    new_request_id,
    new_task_uuid,
    part,
    task_key,
    tools_json,
    well_formed,
)
from .errors import ContextStoreError, ForkUnsafe, PlanNotFound, SummaryNotFound, TaskNotFound
from .types import (
    Appended,
    ChatMessage,
    ContextUsage,
    InheritanceContext,
    NewMessage,
    Plan,
    PlanAppended,
    Pressure,
    PreviousContext,
    Rewound,
    ServerInfo,
    StoredMessage,
    Summary,
    TaskConfig,
    TaskInfo,
    TaskKey,
    TaskState,
    TaskStatistics,
    ToolCallRecorded,
    Tools,
)
from .v1 import context_store_pb2 as pb
from .v1 import message_pb2, task_pb2

T = TypeVar("T")

_SUMMARISING = 300.0


@dataclass(frozen=True)
class Call(Generic[T]):
    """One call: a method of the stub, its request, and what to make of the response."""

    method: str
    request: Message
    answer: Callable[[Any], T]
    reads: bool = False
    none_if: Callable[[ContextStoreError, bool], bool] = lambda error, repeated: False
    """Whether an error means that the answer is None; the second argument: whether the call was repeated."""
    least: float = 0.0
    """Seconds that a try may take at least, unless the caller has a timeout of its own for the call."""

    @property
    def repeatable(self) -> bool:
        """Whether a second one changes nothing that the first has not changed."""
        if isinstance(self.request, pb.AppendMessageRequest):
            return bool(self.request.message.request_id)
        return self.reads or bool(getattr(self.request, "request_id", ""))


def appended(response: pb.AppendMessageResponse) -> Appended:
    """What an acknowledgement says."""
    return Appended(
        response.seq, response.tokens, response.duplicate, response.pressure, masked(response.masked)
    )


def completed_message(
    message: NewMessage | ChatMessage, pinned: bool, output_ref: str, request_id: str | None
) -> NewMessage:
    """A message, which may know itself how it is to be appended: one of `not_appended` does."""
    if not isinstance(message, NewMessage):
        return NewMessage(message, pinned, output_ref, request_id)
    return NewMessage(
        message.message,
        pinned or message.pinned,
        output_ref or message.output_ref,
        message.request_id if request_id is None else request_id,
    )


def append_alone(sent: pb.AppendMessageRequest) -> Call[pb.AppendMessageResponse]:
    """A message by a call of its own."""
    return Call("AppendMessage", sent, lambda response: response)


def tool_call_status(error: str | None) -> message_pb2.ToolCallStatus.ValueType:
    """Returns the status of a tool call."""
    return message_pb2.TOOL_CALL_STATUS_SUCCESS if error is None else message_pb2.TOOL_CALL_STATUS_ERROR


def nothing(response: Message) -> None:
    """For answers that say no more than that it was done."""
    return None


def _task(response: Any) -> TaskInfo:
    task: TaskInfo = response.task
    return task


def _optional_json(value: Any, name: str) -> str:
    return "" if value is None else dump(value, name)


def _request_id(given: str | None) -> str:
    return new_request_id() if given is None else given


def _inherit(given: str) -> dict[str, Any]:
    """Returns what a task takes over as it is sent: a mode, or the id of a task."""
    if not isinstance(given, str):
        raise TypeError(f"inherit: must be 'auto', 'never' or the id of a task, not {type(given).__name__}")
    if not given:
        return {}
    mode = numbers(pb.InheritMode.DESCRIPTOR).get(given.lower())
    return {"inherit_from": given} if mode is None else {"inherit_mode": mode}


class ClientCalls:
    """Calls that are not about one running task, for one client: its instance id is in them."""

    def __init__(self, instance_id: str | None) -> None:
        self.holder = named(task_pb2.Holder)(
            instance_id=new_request_id() if instance_id is None else instance_id,
            process_id=os.getpid(),
            hostname=socket.gethostname(),
        )

    def start_task(
        self,
        key: Key | None,
        user: str,
        config: TaskConfig | Mapping[str, Any] | None,
        task_uuid: str | None,
        lease_generation: int,
        inherit: str,
        system_message: str,
    ) -> Call[pb.StartTaskResponse]:
        """The id is made here, so that a repeated call cannot make a second task."""
        request = named(pb.StartTaskRequest)(
            task_uuid=new_task_uuid() if task_uuid is None else task_uuid,
            key=task_key(key),
            user=user,
            config=part(TaskConfig, config),
            holder=self.holder,
            request_id=new_request_id(),
            lease_generation=lease_generation,
            **_inherit(inherit),
            system_message=well_formed(system_message),
        )
        return Call("StartTask", request, lambda response: response)

    def fork_task(
        self, task_uuid: str, at_seq: int, new_uuid: str | None, request_id: str | None
    ) -> Call[pb.ForkTaskResponse]:
        """The id is made here, so that a repeated call cannot make a second task."""
        request = named(pb.ForkTaskRequest)(
            task_uuid=task_uuid,
            at_seq=at_seq,
            new_task_uuid=new_task_uuid() if new_uuid is None else new_uuid,
            holder=self.holder,
            request_id=_request_id(request_id),
        )
        return Call("ForkTask", request, lambda response: response)

    def previous_contexts(self, key: Key, user: str, limit: int) -> Call[list[PreviousContext]]:
        request = named(pb.FindPreviousContextsRequest)(key=task_key(key), user=user, limit=limit)
        return Call("FindPreviousContexts", request, lambda response: list(response.contexts), reads=True)

    def inheritance_context(self, task_uuid: str, max_summary_tokens: int) -> Call[InheritanceContext]:
        request = named(pb.GetInheritanceContextRequest)(
            task_uuid=task_uuid, max_summary_tokens=max_summary_tokens
        )
        return Call("GetInheritanceContext", request, lambda response: response, reads=True)

    def resume_task(self, task_uuid: str, lease_generation: int) -> Call[pb.ResumeTaskResponse]:
        request = named(pb.ResumeTaskRequest)(
            task_uuid=task_uuid,
            holder=self.holder,
            request_id=new_request_id(),
            lease_generation=lease_generation,
        )
        return Call("ResumeTask", request, lambda response: response)

    def get_task(self, task_uuid: str) -> Call[TaskState]:
        return Call(
            "GetTask", named(pb.GetTaskRequest)(task_uuid=task_uuid), lambda response: response, reads=True
        )

    def server_info(self) -> Call[ServerInfo]:
        return Call("GetServerInfo", pb.GetServerInfoRequest(), lambda response: response, reads=True)

    def list_tasks(
        self,
        statuses: Iterable[str] | str,
        key: Key | None,
        user: str,
        created_from: datetime | None,
        created_before: datetime | None,
        order: str,
        page_size: int,
    ) -> Call[pb.ListTasksResponse]:
        """The first page."""
        wanted = task_key(key) or TaskKey()
        task_filter = named(pb.TaskFilter)(
            statuses=many(task_pb2.TaskStatus.DESCRIPTOR, "statuses", statuses),
            task_source=wanted.task_source,
            owner=wanted.owner,
            repo=wanted.repo,
            task_type=wanted.task_type,
            task_id=wanted.task_id,
            user=user,
        )
        if created_from is not None:
            task_filter.created_from.FromDatetime(moment("created_from", created_from))
        if created_before is not None:
            task_filter.created_before.FromDatetime(moment("created_before", created_before))
        request = named(pb.ListTasksRequest)(
            filter=task_filter,
            order=number(pb.TaskOrder.DESCRIPTOR, "order", order),
            page_size=page_size,
        )
        return self._page(request)

    def is_of(self, found: TaskInfo, key: Key, user: str) -> bool:
        """Whether a task that was listed has just this key and user: an empty part of a filter matches everything."""
        return found.key == task_key(key) and found.user == user

    def next_page(
        self, page: Call[pb.ListTasksResponse], answer: pb.ListTasksResponse
    ) -> Call[pb.ListTasksResponse] | None:
        """The page behind one; None at the end."""
        if not answer.next_page_token:
            return None
        request = cast(pb.ListTasksRequest, copy.deepcopy(page.request))
        request.page_token = answer.next_page_token
        return self._page(request)

    def _page(self, request: pb.ListTasksRequest) -> Call[pb.ListTasksResponse]:
        return Call("ListTasks", request, lambda response: response, reads=True)


class TaskCalls:
    """Calls about one task, under one lease."""

    def __init__(self, task_uuid: str, lease_generation: int) -> None:
        self.task_uuid = task_uuid
        self.lease_generation = lease_generation
        self._process = os.getpid()

    @property
    def is_own(self) -> bool:
        """Whether the lease is this process's own: a forked child has it from its parent, which goes on with it."""
        return not self.lease_generation or self._process == os.getpid()

    def append(self, new: NewMessage) -> pb.AppendMessageRequest:
        """One message, for a call of its own."""
        return self._append(new, new.request_id)

    def append_in_stream(self, new: NewMessage, index: int | None = None) -> pb.AppendMessageRequest:
        """One message for the background; it always has a request id, as a broken stream is taken up again."""
        try:
            return self._append(new, new.request_id or None)
        except (TypeError, ValueError) as error:
            if index is None or type(error) not in (TypeError, ValueError):
                raise
            raise type(error)(f"messages[{index}]: {error}") from error

    def _append(self, new: NewMessage, request_id: str | None) -> pb.AppendMessageRequest:
        mutation = self.mutation(request_id)
        message = new_message(new, mutation.pop("request_id"))
        return named(pb.AppendMessageRequest)(message=message, **mutation)

    def get(self) -> Call[TaskState]:
        request = named(pb.GetTaskRequest)(task_uuid=self.task_uuid)
        return Call("GetTask", request, lambda response: response, reads=True)

    def context_usage(self, tools: Tools | None) -> Call[ContextUsage]:
        request = named(pb.GetContextUsageRequest)(task_uuid=self.task_uuid, tools_json=tools_json(tools))
        return Call("GetContextUsage", request, lambda response: response, reads=True)

    def get_message(self, seq: int) -> Call[StoredMessage]:
        request = named(pb.GetMessageRequest)(task_uuid=self.task_uuid, seq=seq)
        return Call(
            "GetMessage",
            request,
            lambda response: StoredMessage(json.loads(response.record), response.pinned),
            reads=True,
        )

    def pin(self, seq: int) -> Call[None]:
        return Call("PinMessage", named(pb.PinMessageRequest)(seq=seq, **self.mutation()), nothing)

    def unpin(self, seq: int) -> Call[None]:
        return Call("UnpinMessage", named(pb.UnpinMessageRequest)(seq=seq, **self.mutation()), nothing)

    def rewind(self, seq: int) -> Call[Rewound]:
        request = named(pb.RewindTaskRequest)(seq=seq, **self.mutation())
        return Call("RewindTask", request, lambda response: response)

    def record_tool_call(
        self,
        tool_name: str,
        arguments: Any,
        result: Any,
        output_ref: str,
        error: str | None,
        length: timedelta | float | None,
        message_seq: int | None,
        request_id: str | None,
    ) -> Call[ToolCallRecorded]:
        request = named(pb.RecordToolCallRequest)(
            tool_name=tool_name,
            arguments_json=_optional_json(arguments, "arguments"),
            result_json=_optional_json(result, "result"),
            output_ref=output_ref,
            status=tool_call_status(error),
            error=well_formed(error or ""),
            duration=duration("duration", length),
            message_seq=message_seq,
            **self.mutation(request_id),
        )
        return Call("RecordToolCall", request, lambda response: response)

    def append_plan(self, content: Any, plan_type: str, request_id: str | None) -> Call[PlanAppended]:
        request = named(pb.AppendPlanRequest)(
            plan_type=plan_type, plan_content_json=dump(content, "content"), **self.mutation(request_id)
        )
        return Call("AppendPlan", request, lambda response: response)

    def latest_plan(self) -> Call[Plan | None]:
        return Call(
            "GetLatestPlan",
            named(pb.GetLatestPlanRequest)(task_uuid=self.task_uuid),
            lambda response: Plan(
                response.id,
                response.plan_type,
                json.loads(response.plan_content_json),
                response.create_time.ToDatetime(timezone.utc),
            ),
            reads=True,
            none_if=lambda error, repeated: isinstance(error, PlanNotFound),
        )

    def latest_summary(self) -> Call[Summary | None]:
        return Call(
            "GetLatestSummary",
            named(pb.GetLatestSummaryRequest)(task_uuid=self.task_uuid),
            lambda response: response.summary,
            reads=True,
            none_if=lambda error, repeated: isinstance(error, SummaryNotFound),
        )

    def record_usage(
        self,
        input_tokens: int,
        output_tokens: int,
        cache_creation_tokens: int,
        cache_read_tokens: int,
        tools_tokens: int,
    ) -> Call[Pressure]:
        request = named(pb.RecordUsageRequest)(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cache_creation_tokens=cache_creation_tokens,
            cache_read_tokens=cache_read_tokens,
            tools_tokens=tools_tokens,
            **self.mutation(),
        )
        return Call("RecordUsage", request, lambda response: response.pressure)

    def update_statistics(
        self, llm_calls: int, tool_calls: int, tokens: int, compressions: int
    ) -> Call[TaskStatistics]:
        request = named(pb.UpdateStatisticsRequest)(
            llm_calls=llm_calls,
            tool_calls=tool_calls,
            tokens=tokens,
            compressions=compressions,
            **self.mutation(),
        )
        return Call("UpdateStatistics", request, lambda response: response.statistics)

    def update(self, config: TaskConfig | Mapping[str, Any]) -> Call[TaskInfo]:
        request = named(pb.UpdateTaskRequest)(config=part(TaskConfig, config), **self.mutation())
        return Call("UpdateTask", request, _task)

    def pause(self) -> Call[TaskInfo]:
        return Call("PauseTask", named(pb.PauseTaskRequest)(**self.mutation()), _task)

    def complete(self, final_summary: str) -> Call[TaskInfo]:
        """Without a summary the server makes one, for which it may ask a model."""
        request = named(pb.CompleteTaskRequest)(final_summary=well_formed(final_summary), **self.mutation())
        return Call("CompleteTask", request, _task, least=0.0 if final_summary else _SUMMARISING)

    def fail(self, error_message: str, final_summary: str) -> Call[TaskInfo]:
        request = named(pb.FailTaskRequest)(
            error_message=well_formed(error_message),
            final_summary=well_formed(final_summary),
            **self.mutation(),
        )
        return Call("FailTask", request, _task)

    def delete(self) -> Call[None]:
        """A removed task remembers no request ids: that it is gone is the answer to a repeated call."""
        return Call(
            "DeleteTask",
            named(pb.DeleteTaskRequest)(**self.mutation()),
            nothing,
            none_if=lambda error, repeated: repeated and isinstance(error, TaskNotFound),
        )

    def renew_lease(self) -> Call[timedelta]:
        """Changes nothing on disk, so it may be repeated like a read."""
        self._require_own()
        request = named(pb.RenewLeaseRequest)(
            task_uuid=self.task_uuid, lease_generation=self.lease_generation
        )
        return Call("RenewLease", request, lambda response: response.lease_ttl.ToTimedelta(), reads=True)

    def mutation(self, request_id: str | None = None) -> dict[str, Any]:
        """What every change carries."""
        self._require_own()
        return {
            "task_uuid": self.task_uuid,
            "request_id": _request_id(request_id),
            "lease_generation": self.lease_generation,
        }

    def _require_own(self) -> None:
        if not self.is_own:
            raise ForkUnsafe(
                f"the task {self.task_uuid} belongs to process {self._process}, which forked this one and goes on with it: "
                "here it can be read, and changed only if this process opens it, such as by client.task(key)",
                code=grpc.StatusCode.FAILED_PRECONDITION,
            )
