"""Client of contextstore, the sidecar that keeps an LLM agent's whole context on disk.

`Client` for threads, `AsyncClient` for asyncio; `contextstore.errors` for what can fail; `contextstore.v1` for the
protocol itself.
"""

from .async_client import AsyncClient
from .async_task import AsyncTask
from .client import Client
from .errors import (
    ContextStoreError,
    DeadlineExceeded,
    InvalidField,
    LeaseHeld,
    NotFound,
    Overloaded,
    StaleLease,
    StaleView,
    Unavailable,
    ViewRewritten,
    WrongStatus,
)
from .task import Task
from .types import (
    Appended,
    ChatMessage,
    CompressionConfig,
    Event,
    NewMessage,
    Plan,
    Pressure,
    Record,
    ServerInfo,
    StoredMessage,
    Summary,
    TaskConfig,
    TaskInfo,
    TaskKey,
    TaskState,
    TaskStatistics,
)

__all__ = [
    "Appended",
    "AsyncClient",
    "AsyncTask",
    "ChatMessage",
    "Client",
    "CompressionConfig",
    "ContextStoreError",
    "DeadlineExceeded",
    "Event",
    "InvalidField",
    "LeaseHeld",
    "NewMessage",
    "NotFound",
    "Overloaded",
    "Plan",
    "Pressure",
    "Record",
    "ServerInfo",
    "StaleLease",
    "StaleView",
    "StoredMessage",
    "Summary",
    "Task",
    "TaskConfig",
    "TaskInfo",
    "TaskKey",
    "TaskState",
    "TaskStatistics",
    "Unavailable",
    "ViewRewritten",
    "WrongStatus",
]
