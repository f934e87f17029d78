"""What both clients and both tasks are, apart from how they do I/O."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Any, TypeVar

from . import _address
from ._calls import ClientCalls, TaskCalls
from ._hooks import HookErrors, HookFailure
from .types import TaskInfo

C = TypeVar("C", bound="ClientBase")


class ClientBase(ABC):
    """An address and how to behave there."""

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        timeout: float = 30.0,
        stream_timeout: float = 300.0,
        instance_id: str | None = None,
    ) -> None:
        """The address is `unix:PATH` or `tcp:HOST:PORT`; over TCP the server wants the token in the file `token` of
        its data directory.

        `timeout` is for a call with its repetitions, in seconds, unless the call has one of its own. `stream_timeout`
        is for one stretch of a stream, which is then taken up again where it was. `instance_id` names this client to
        leases: one that is the same after a restart of the agent gets its tasks back at once. Without one it is
        random.
        """
        self._address = _address.parse(address, token)
        self._calls = ClientCalls(instance_id)
        self.timeout = timeout
        self.stream_timeout = stream_timeout
        self._connect()

    @abstractmethod
    def _connect(self) -> None:
        """Makes the channel and the stub. Does not wait: the connection is made by the first call."""

    @classmethod
    def from_env(cls: type[C], **options: Any) -> C:
        """A client of the server that the environment names.

        `CONTEXTSTORE_ADDRESS` is the address; without it, the server is that of the data directory
        `CONTEXTSTORE_DATA_DIR` (`contexts`, if nothing says otherwise): at its `contextstore.sock`, or else where its `addresses` say, at the first socket or
        without one at the first port. Over TCP the token is `CONTEXTSTORE_TOKEN`, or that in the file
        `CONTEXTSTORE_TOKEN_FILE`, or that in the data directory. `options` are those of the constructor.
        """
        address, token = _address.from_env(os.environ)
        return cls(address, token=token, **options)

    @property
    def instance_id(self) -> str:
        """What leases know this client by."""
        return self._calls.holder.instance_id


class TaskBase:
    """A task and this client's lease of it."""

    def __init__(self, info: TaskInfo, lease_generation: int, lease_ttl: timedelta | None) -> None:
        self.info = info
        """The task as it was when this client last changed its status or configuration; `get` asks anew."""
        self.lease_ttl = lease_ttl
        """How long the lease lives without being renewed; None without a lease."""
        self._calls = TaskCalls(info.uuid, lease_generation)
        self._had = lease_generation
        self.inherited_from = ""
        """The task that this one took over from when it was started; empty if there was none."""
        self.inheritance_comment = ""
        """With it: a comment for people, as to post on the issue."""
        self.hook_errors: HookErrors = "continue"
        """What a hook that raises does. `continue`: it is logged and kept in `hook_failures`, the next one is called, and
        the task ends all the same. `stop`: HookFailed is raised, and the task goes on."""
        self.hook_failures: list[HookFailure] = []
        """The hooks that raised when the task was last completed or stopped."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.uuid} {self.info.status}, lease {self.lease_generation}>"

    @property
    def uuid(self) -> str:
        """Its id."""
        return self._calls.task_uuid

    @property
    def lease_generation(self) -> int:
        """The lease that changes are made under; 0: none."""
        return self._calls.lease_generation

    def _now(self, info: TaskInfo) -> TaskInfo:
        self.info = info
        return info

    def _without_lease(self, info: TaskInfo) -> TaskInfo:
        """A change of status ended the lease."""
        self._calls, self.lease_ttl = TaskCalls(self.uuid, 0), None
        return self._now(info)

    def _with_lease_of(self, other: TaskBase) -> TaskInfo:
        self._calls, self._had, self.lease_ttl = other._calls, other._had, other.lease_ttl
        return self._now(other.info)
