"""What a call can fail with: one class for each thing a program would decide by.

The class follows from the reason that the server names, and without one from the gRPC code. Words are for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import grpc

from . import _details
from ._token import NoToken

if TYPE_CHECKING:
    from .types import NewMessage

_PREFIX = "ERROR_REASON_"


def short_reason(reason: str) -> str:
    """The name of a reason without the prefix that enums have in the protocol."""
    return reason.removeprefix(_PREFIX)


class ContextStoreError(Exception):
    """A call that failed. It has changed nothing, unless it was cut off on its way (see Unavailable).

    try:
        client.start_task(task_uuid=uuid)
    except contextstore.LeaseHeld as error:
        print(error.metadata["instance_id"], error.retry_after)
    except contextstore.ContextStoreError as error:
        print(error.reason, error.fields)
    """

    def __init__(
        self,
        message: str,
        *,
        code: grpc.StatusCode = grpc.StatusCode.UNKNOWN,
        reason: str = "",
        fields: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        """What happened, in words."""
        self.code = code
        """The gRPC code."""
        self.reason = short_reason(reason)
        """Why, as `contextstore.v1.ErrorReason` names it, without its prefix: `LEASE_HELD`; empty if the error did not
        come from the server."""
        self.fields = dict(fields or {})
        """Each field of the request that was refused, and why."""
        self.metadata = dict(metadata or {})
        """What the reason comes with: the holder of a lease, a limit, …"""
        self.retry_after = retry_after
        """After how many seconds the server says that a retry helps."""
        self.index: int | None = None
        """Which message was refused, from 0, where many were given (`append_many`): those before it are appended, it and
        those behind it are not."""
        self.not_appended: list[NewMessage] = []
        """The messages that were handed over and are not known to be on disk, in order, those of the call that raises this
        among them. Append them again as they are, by `append` or `append_many`: each will be there exactly once."""
        self.tries = 1
        """How often the call was made."""

    def __str__(self) -> str:
        where = "" if self.index is None else f"messages[{self.index}]: "
        again = f", tried {self.tries} times" if self.tries > 1 else ""
        return f"{where}{self.message} ({self.reason or self.code.name}{again})"


class InvalidField(ContextStoreError):
    """A field of the request cannot be accepted: `fields` says which and why."""


class TooLarge(InvalidField):
    """The request is larger than the server takes."""


class OutputMalformed(InvalidField):
    """An output was not sent as a header and then data."""


class SummaryRefused(InvalidField):
    """A summary is empty, not smaller than what it stands for, or leaves out what it has to name."""


class NotFound(ContextStoreError):
    """There is no such thing."""


class TaskNotFound(NotFound):
    """There is no such task."""


class MessageNotFound(NotFound):
    """The task has no such message."""


class PlanNotFound(NotFound):
    """The task has no plan."""


class SummaryNotFound(NotFound):
    """The task has no summary."""


class CompactionNotFound(NotFound):
    """The compaction was committed or given up, or its time is over: begin again."""


class OutputNotFound(NotFound):
    """The task has no such output of a tool."""


class NothingToInherit(NotFound):
    """The task has neither a summary nor a plan that another could take over."""


class TaskExists(ContextStoreError):
    """A task with that id is paused or has ended."""


class FailedPrecondition(ContextStoreError):
    """The task is not in a state that allows the call."""


class WrongStatus(FailedPrecondition):
    """The status of the task does not allow the call."""


class RequestIdReused(FailedPrecondition):
    """The request id was used for a call with other content."""


class NothingToUndo(FailedPrecondition):
    """No compaction is in force that could be undone."""


class NothingToSummarize(FailedPrecondition):
    """Of the context there is nothing that an agent could summarise; `metadata` has the `cause`."""


class NotInView(FailedPrecondition):
    """A message that is to be pinned is not in the view any more; `metadata` has its `seq`."""


class LimitUnknown(FailedPrecondition):
    """The limit of the task's model is not known, and the strategy `compact` does not guess."""


class Quarantined(FailedPrecondition):
    """Data of the task is damaged: it can be read, not written."""


class NewerFormat(FailedPrecondition):
    """A newer server wrote the task: it can be read, not written."""


class RequestTooLarge(FailedPrecondition):
    """The request to the provider would be larger than it may be; `metadata` has its size and the limit."""


class ProviderNotConfigured(FailedPrecondition):
    """The server cannot ask that provider: its key, model or address is missing."""


class ProviderRefused(FailedPrecondition):
    """The provider does not take the request; `metadata` has its status and its word for the error."""


class Aborted(ContextStoreError):
    """Somebody else was faster."""


class LeaseHeld(Aborted):
    """Another client works on the task; `metadata` names it."""


class StaleLease(Aborted):
    """The task was taken over since this client got its lease."""


class StaleView(Aborted):
    """The view was rewritten since it was looked at."""


class ViewRewritten(StaleView):
    """The view was rewritten while it was being read over a broken connection: read it again from the start."""


class RewriteInFlight(Aborted):
    """The view is being rewritten by another call."""


class HookFailed(Aborted):
    """A hook raised (see `__cause__`), and `hook_errors` of its task is `stop`: the call was not made."""


class ForkUnsafe(FailedPrecondition):
    """Something of the process that forked this one cannot be used here: a task that is the parent's, or a connection that was
    in use when it forked."""


class Stalled(Aborted):
    """A stream was read too slowly, so the server closed it."""


class ResourceExhausted(ContextStoreError):
    """Something is full."""


class Overloaded(ResourceExhausted):
    """The server is at a limit of what it does at once."""


class QuotaExceeded(ResourceExhausted):
    """The task or the store is as large as it may be."""


class DiskFull(ResourceExhausted):
    """The disk is full."""


class Unavailable(ContextStoreError):
    """The server cannot be reached, or cannot do it now. A call that was cut off may have happened or not: the
    client has then repeated it under the same request id for as long as its timeout allowed."""


class Unreachable(Unavailable):
    """Nothing listens at the address. A client that has never reached its server says so at once; one that has repeats
    the call first, as the server may be being restarted."""

    was_there = True
    """Whether this client has reached the server before, or waits for it."""


class ReadOnly(Unavailable):
    """The store takes no writes. `retry_after` is set if that may pass by itself."""


class WriteFailed(Unavailable):
    """Writing to disk failed. Whether the call was kept is unknown until it is retried with the same request id."""


class Stopping(Unavailable):
    """The server is stopping."""


class ProviderFailed(Unavailable):
    """The provider could not be reached, failed or broke off. What arrived of an answer is in the log."""


class DeadlineExceeded(ContextStoreError):
    """The call took longer than its timeout. It may have happened or not."""


class Cancelled(ContextStoreError):
    """The call was cancelled. It may have happened or not."""


class Unauthenticated(ContextStoreError):
    """The token is missing or wrong."""


class PermissionDenied(ContextStoreError):
    """The caller is not allowed to do this."""


class UnsupportedByServer(ContextStoreError):
    """The server does not have the method: it is older than this client. Everything else works on."""

    method = ""
    """The method, such as `ForkTask`; empty if it is not known."""
    server_version = ""
    """The version of the server; empty if it is not known."""

    def explain(self, method: str, version: str) -> UnsupportedByServer:
        """Names the method, and the server that does not have it."""
        self.method, self.server_version = method, version
        server = f"the server (version {version})" if version else "the server"
        self.message = f"{server} does not have the method {method}: upgrade the server"
        return self


class DataLoss(ContextStoreError):
    """A file holds other bytes than were written."""


class OutputDamaged(DataLoss):
    """An output of a tool holds other bytes than were put."""


class Internal(ContextStoreError):
    """The server failed in a way that it should not."""


BY_REASON: dict[str, type[ContextStoreError]] = {
    "INVALID_FIELD": InvalidField,
    "TASK_NOT_FOUND": TaskNotFound,
    "TASK_EXISTS": TaskExists,
    "MESSAGE_NOT_FOUND": MessageNotFound,
    "WRONG_STATUS": WrongStatus,
    "LEASE_HELD": LeaseHeld,
    "STALE_LEASE": StaleLease,
    "REQUEST_ID_REUSED": RequestIdReused,
    "STALE_VIEW": StaleView,
    "REWRITE_IN_FLIGHT": RewriteInFlight,
    "NOTHING_TO_UNDO": NothingToUndo,
    "QUARANTINED": Quarantined,
    "NEWER_FORMAT": NewerFormat,
    "WRITE_FAILED": WriteFailed,
    "DISK_FULL": DiskFull,
    "READ_ONLY": ReadOnly,
    "LOCKED": FailedPrecondition,
    "BAD_DATA_DIR": FailedPrecondition,
    "DAMAGED": DataLoss,
    "CATALOG": Unavailable,
    "IO": Unavailable,
    "UNAUTHENTICATED": Unauthenticated,
    "FORBIDDEN": PermissionDenied,
    "TOO_LARGE": TooLarge,
    "MALFORMED": InvalidField,
    "OVERLOADED": Overloaded,
    "QUOTA_EXCEEDED": QuotaExceeded,
    "STOPPING": Stopping,
    "STALLED": Stalled,
    "PLAN_NOT_FOUND": PlanNotFound,
    "SUMMARY_NOT_FOUND": SummaryNotFound,
    "INTERNAL": Internal,
    "REQUEST_TOO_LARGE": RequestTooLarge,
    "PROVIDER_NOT_CONFIGURED": ProviderNotConfigured,
    "PROVIDER_REFUSED": ProviderRefused,
    "PROVIDER_FAILED": ProviderFailed,
    "LIMIT_UNKNOWN": LimitUnknown,
    "COMPACTION_NOT_FOUND": CompactionNotFound,
    "SUMMARY_REFUSED": SummaryRefused,
    "NOTHING_TO_INHERIT": NothingToInherit,
    "NOTHING_TO_SUMMARIZE": NothingToSummarize,
    "NOT_IN_VIEW": NotInView,
    "OUTPUT_NOT_FOUND": OutputNotFound,
    "OUTPUT_DAMAGED": OutputDamaged,
    "OUTPUT_MALFORMED": OutputMalformed,
}
"""The class of each reason of `contextstore.v1.ErrorReason`, without its prefix."""

BY_CODE: dict[grpc.StatusCode, type[ContextStoreError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidField,
    grpc.StatusCode.OUT_OF_RANGE: InvalidField,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: TaskExists,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.ABORTED: Aborted,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.CANCELLED: Cancelled,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.DATA_LOSS: DataLoss,
    grpc.StatusCode.INTERNAL: Internal,
    grpc.StatusCode.UNIMPLEMENTED: UnsupportedByServer,
}
"""The class of an error whose reason is not known."""


def from_rpc_error(error: grpc.RpcError) -> ContextStoreError:
    """What an error of grpcio, of either kind of channel, says about the call."""
    if isinstance(error, NoToken):
        return BY_CODE[error.status](str(error), code=error.status)
    if not isinstance(error, (grpc.Call, grpc.aio.AioRpcError)):
        return ContextStoreError(str(error))
    code = error.code() or grpc.StatusCode.UNKNOWN
    # Not dict(…): the metadata of older versions of grpc.aio look like a mapping and are none.
    trailing = {key: value for key, value in error.trailing_metadata() or ()}
    packed = trailing.get("grpc-status-details-bin", b"")
    details = _details.parse(packed if isinstance(packed, bytes) else packed.encode())
    kind = BY_REASON.get(short_reason(details.reason)) or BY_CODE.get(code, ContextStoreError)
    failure = kind(
        error.details() or code.name,
        code=code,
        reason=details.reason,
        fields=details.fields,
        metadata=details.metadata,
        retry_after=details.retry_after,
    )
    failure.__cause__ = error
    return failure
