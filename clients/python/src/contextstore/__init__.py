"""Client of contextstore, the sidecar that keeps an LLM agent's whole context on disk.

`Client` for threads, `AsyncClient` for asyncio; `spawn` for a private server, `connect_or_spawn` for
a shared one; `contextstore.tools` for tools that the
model can call; `contextstore.errors` for what can fail; `contextstore.v1` for the protocol itself.

    import contextstore

    with contextstore.spawn() as client, client.task("fix-the-test") as task:
        task.append({"role": "user", "content": "Fix the failing test, please."})
        print(task.current().to_list())
"""

from . import _frames, tools
from ._address import TlsConfig
from ._enums import short_name
from ._hooks import Ending, HookErrors, HookFailure
from ._opening import Opening
from ._outputs import StoredOutput
from ._unsaved import UnsavedWarning
from ._upload import AsyncOutputContent, OutputContent
from .async_client import AsyncClient
from .async_compaction import AsyncCompaction
from .async_outputs import AsyncGrep, AsyncOutputs
from .async_task import AsyncTask
from .async_toolcall import AsyncToolCall
from .client import Client
from .compaction import Compaction
from .errors import (
    CompactionNotFound,
    ContextStoreError,
    DeadlineExceeded,
    ForkUnsafe,
    HookFailed,
    InvalidField,
    LeaseHeld,
    LimitUnknown,
    NotFound,
    NothingToInherit,
    NothingToSummarize,
    NothingToUndo,
    NotInView,
    OutputNotFound,
    Overloaded,
    ProviderFailed,
    ProviderNotConfigured,
    ProviderRefused,
    RequestTooLarge,
    StaleLease,
    StaleView,
    SummaryRefused,
    TaskNotFound,
    Unauthenticated,
    Unavailable,
    Unreachable,
    UnsupportedByServer,
    ViewRewritten,
    WrongStatus,
)
from .outputs import Grep, Outputs
from .sharing import async_connect_or_spawn, connect_or_spawn
from .spawning import Spawned, SpawnFailed, find_binary, spawn
from .streams import (
    AsyncByteStream,
    AsyncCurrent,
    AsyncOutputStream,
    AsyncRequestBody,
    ByteStream,
    Current,
    OutputStream,
    RequestBody,
)
from .task import Task
from .toolcall import ToolCall
from .types import (
    Appended,
    ChatDone,
    ChatEvent,
    ChatMessage,
    ChatReasoning,
    ChatStarted,
    ChatText,
    ChatToolCall,
    ChatUsage,
    CompressionConfig,
    CompressProgress,
    CompressResult,
    ContextUsage,
    Event,
    GarbageCollected,
    GrepLine,
    InheritanceConfig,
    InheritanceContext,
    Message,
    MessageToolCall,
    NewMessage,
    OutputInfo,
    OutputRef,
    OutputsConfig,
    Plan,
    Pressure,
    PreviousContext,
    PruneConfig,
    Record,
    ServerInfo,
    StoredMessage,
    Summary,
    TaskConfig,
    TaskInfo,
    TaskKey,
    TaskState,
    TaskStatistics,
    Trimmed,
    Undone,
    WindowConfig,
)

_frames.show(Client, Task, Outputs, Grep, Compaction, ToolCall, Spawned)
_frames.show(AsyncClient, AsyncTask, AsyncOutputs, AsyncGrep, AsyncCompaction, AsyncToolCall, Opening)
_frames.show(Current, OutputStream, ByteStream, RequestBody)
_frames.show(AsyncCurrent, AsyncOutputStream, AsyncByteStream, AsyncRequestBody)

__all__ = [
    "Appended",
    "AsyncByteStream",
    "AsyncClient",
    "AsyncCompaction",
    "AsyncCurrent",
    "AsyncGrep",
    "AsyncOutputContent",
    "AsyncOutputStream",
    "AsyncOutputs",
    "AsyncRequestBody",
    "AsyncTask",
    "AsyncToolCall",
    "ByteStream",
    "ChatDone",
    "ChatEvent",
    "ChatMessage",
    "ChatReasoning",
    "ChatStarted",
    "ChatText",
    "ChatToolCall",
    "ChatUsage",
    "Client",
    "Compaction",
    "CompactionNotFound",
    "CompressProgress",
    "CompressResult",
    "CompressionConfig",
    "ContextStoreError",
    "ContextUsage",
    "Current",
    "DeadlineExceeded",
    "Ending",
    "Event",
    "ForkUnsafe",
    "GarbageCollected",
    "Grep",
    "GrepLine",
    "HookErrors",
    "HookFailed",
    "HookFailure",
    "InheritanceConfig",
    "InheritanceContext",
    "InvalidField",
    "LeaseHeld",
    "LimitUnknown",
    "Message",
    "MessageToolCall",
    "NewMessage",
    "NotFound",
    "NotInView",
    "NothingToInherit",
    "NothingToSummarize",
    "NothingToUndo",
    "Opening",
    "OutputContent",
    "OutputInfo",
    "OutputNotFound",
    "OutputRef",
    "OutputStream",
    "Outputs",
    "OutputsConfig",
    "Overloaded",
    "Plan",
    "Pressure",
    "PreviousContext",
    "ProviderFailed",
    "ProviderNotConfigured",
    "ProviderRefused",
    "PruneConfig",
    "Record",
    "RequestBody",
    "RequestTooLarge",
    "ServerInfo",
    "SpawnFailed",
    "Spawned",
    "StaleLease",
    "StaleView",
    "StoredMessage",
    "StoredOutput",
    "Summary",
    "SummaryRefused",
    "Task",
    "TaskConfig",
    "TaskInfo",
    "TaskKey",
    "TaskNotFound",
    "TaskState",
    "TaskStatistics",
    "TlsConfig",
    "ToolCall",
    "Trimmed",
    "Unauthenticated",
    "Unavailable",
    "Undone",
    "Unreachable",
    "UnsavedWarning",
    "UnsupportedByServer",
    "ViewRewritten",
    "WindowConfig",
    "WrongStatus",
    "async_connect_or_spawn",
    "connect_or_spawn",
    "find_binary",
    "short_name",
    "spawn",
    "tools",
]
