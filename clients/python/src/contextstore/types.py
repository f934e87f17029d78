"""What the clients take and give: names for the protocol's messages, and a few small classes of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeAlias, Union

from .v1 import context_store_pb2 as pb
from .v1 import message_pb2, task_pb2, tool_outputs_pb2

TaskInfo: TypeAlias = task_pb2.Task
"""A task as the server describes it."""
TaskKey: TypeAlias = task_pb2.TaskKey
"""Where a task comes from."""
TaskConfig: TypeAlias = task_pb2.TaskConfig
"""The configuration of a task."""
CompressionConfig: TypeAlias = task_pb2.CompressionConfig
"""How a task's context is kept small."""
PruneConfig: TypeAlias = task_pb2.PruneConfig
"""How the strategy `prune` chooses."""
WindowConfig: TypeAlias = task_pb2.WindowConfig
"""What the strategy `window` keeps."""
InheritanceConfig: TypeAlias = task_pb2.InheritanceConfig
"""What a task takes over from an earlier one."""
TaskStatistics: TypeAlias = task_pb2.TaskStatistics
"""A task's counters."""
TaskState: TypeAlias = pb.GetTaskResponse
"""A task as it is now (`task`), and how full its context is (`pressure`)."""
Pressure: TypeAlias = message_pb2.Pressure
"""How full a context is."""
ContextUsage: TypeAlias = pb.GetContextUsageResponse
"""How full a context is (`pressure`), and how that is counted."""
Summary: TypeAlias = message_pb2.Summary
"""A summary that stands in the view for the messages it covers."""
ServerInfo: TypeAlias = pb.GetServerInfoResponse
"""What the server is and what it takes."""
Rewound: TypeAlias = pb.RewindTaskResponse
"""The new `generation` of a view that was taken back, and its `pressure`."""
CompressProgress: TypeAlias = pb.CompressResponse.Progress
"""How far a compression is: its `stage`, and the messages and tokens it is about."""
CompressResult: TypeAlias = pb.CompressDone
"""What a compression did: `compressed`, or the `skip_reason` why not, and the numbers before and after."""
Undone: TypeAlias = pb.UndoCompactionResponse
"""The new `generation` of a view whose compaction was taken back, and its `pressure`."""
PreviousContext: TypeAlias = pb.PreviousContext
"""A task that ended, which another can go on with."""
InheritanceContext: TypeAlias = pb.GetInheritanceContextResponse
"""What a task would take over from an earlier one: its `text`, and a `comment` for people."""
ToolCallRecorded: TypeAlias = pb.RecordToolCallResponse
"""The `seq` of a recorded tool call, and whether it is a `duplicate`."""
PlanAppended: TypeAlias = pb.AppendPlanResponse
"""The `id` of a plan, and whether it is a `duplicate`."""
Event: TypeAlias = pb.WatchTaskResponse
"""Something that happened to a task; `WhichOneof("event")` says what."""
OutputsConfig: TypeAlias = task_pb2.OutputsConfig
"""How the outputs of tools are shown."""
OutputRef: TypeAlias = tool_outputs_pb2.ToolOutputRef
"""An output that is kept: its `id`, size, lines, media type and hash."""
OutputInfo: TypeAlias = tool_outputs_pb2.ToolOutput
"""An output (`ref`), the tool that it comes from, and what it takes on disk."""
GrepLine: TypeAlias = tool_outputs_pb2.GrepLine
"""A line that matches (`is_match`) or stands near one: its `ref_id`, `line_number` and `text`."""
Trimmed: TypeAlias = tool_outputs_pb2.TrimToolOutputsResponse
"""How many outputs in the view were `trimmed`, and the tokens before and after."""
GarbageCollected: TypeAlias = tool_outputs_pb2.CollectGarbageResponse
"""What was `removed`, or would be, and what was `kept`."""

Record: TypeAlias = dict[str, Any]
"""A line of one of a task's files, parsed."""


@dataclass(frozen=True)
class MessageToolCall:
    """A call of a tool in a Message."""

    id: str = ""
    name: str = ""
    arguments: str = ""
    """JSON, as the model wrote it; of a `custom` call any text."""
    type: str = ""
    """`function`, which is the default, or `custom`."""


@dataclass(frozen=True)
class Message:
    """A chat message by its fields: `Message(role="user", content="Hello")`."""

    role: str
    """`system`, `developer`, `user`, `assistant` or `tool`."""
    content: str = ""
    content_json: str = ""
    """The content as JSON, such as a list of parts, instead of `content`."""
    name: str = ""
    tool_calls: Iterable[MessageToolCall] = ()
    tool_call_id: str = ""
    tool_name: str = ""
    extra_json: str = ""
    """A JSON object of further fields."""


class SupportsModelDump(Protocol):
    """An object of another package that knows itself as JSON: pydantic's, and so the messages of OpenAI's."""

    def model_dump(self, *, mode: str, exclude_none: bool) -> dict[str, Any]: ...


ChatMessage: TypeAlias = Union[Mapping[str, Any], str, Message, message_pb2.Message, SupportsModelDump]
"""An OpenAI chat message: a mapping with at least a role, its JSON, a Message (of this package or of the protocol), or
an object of OpenAI's own package."""


@dataclass(frozen=True)
class NewMessage:
    """A message for append_many with more to it than its text."""

    message: ChatMessage
    pinned: bool = False
    output_ref: str = ""
    request_id: str | None = None
    """Names the call; without one the client makes one."""


@dataclass(frozen=True)
class Appended:
    """A message that is on disk."""

    seq: int
    tokens: int
    duplicate: bool
    """Whether a call with the same request id had appended it before."""
    pressure: Pressure
    """How full the context is with it."""
    masked: Mapping[str, int] = field(default_factory=dict)
    """Secrets that were replaced before it was written: how often, by the rule that found them."""


@dataclass(frozen=True)
class StoredMessage:
    """A message as it stands in the log."""

    record: Record
    pinned: bool


@dataclass(frozen=True)
class Plan:
    """A plan."""

    id: int
    plan_type: str
    content: Any
    create_time: datetime


NewMessages: TypeAlias = Union[NewMessage, ChatMessage, Iterable[Union[NewMessage, ChatMessage]]]
"""One message or several."""
Tools: TypeAlias = Iterable[Mapping[str, Any]]
"""Tools in the form of OpenAI's chat completions, whoever is asked."""


@dataclass(frozen=True)
class ChatStarted:
    """The new messages are on disk, and the model is being asked."""

    seqs: tuple[int, ...]
    """The numbers of the new messages."""
    provider: str
    model: str


@dataclass(frozen=True)
class ChatText:
    """More text of the answer."""

    text: str


@dataclass(frozen=True)
class ChatReasoning:
    """More of what the model thinks, where the provider tells it."""

    text: str


@dataclass(frozen=True)
class ChatToolCall:
    """More of a tool call. The whole calls are in `ChatDone.tool_calls`."""

    index: int
    """Which call of the answer, from 0."""
    id: str
    """With the first piece only."""
    name: str
    """With the first piece only."""
    arguments: str


@dataclass(frozen=True)
class ChatUsage:
    """What the provider charged. The four are disjoint. It is recorded: do not report it by `record_usage`."""

    input_tokens: int
    output_tokens: int
    cache_creation_tokens: int
    cache_read_tokens: int


@dataclass(frozen=True)
class ChatDone:
    """The answer is whole and on disk."""

    seq: int
    message: Record
    """The assistant message."""
    finish_reason: str
    """`stop`, `tool_calls`, `length`, `content_filter` or another word of the provider."""
    pressure: Pressure
    """How full the context is with it."""
    duplicate: bool
    """Whether a call with the same request id was answered before."""

    @property
    def tool_calls(self) -> list[Record]:
        """The calls in the message; each is to be answered by a message with the role `tool`."""
        calls: list[Record] = self.message.get("tool_calls") or []
        return calls


ChatEvent: TypeAlias = Union[ChatStarted, ChatText, ChatReasoning, ChatToolCall, ChatUsage, ChatDone]
"""Something that a model said, or that became of it."""
