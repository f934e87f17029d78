"""What both clients and both tasks are, apart from how they do I/O."""

from __future__ import annotations

import os
from abc import abstractmethod
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from . import _address, _fork, _reach
from ._address import TlsConfig
from ._calls import ClientCalls, TaskCalls
from ._enums import short_name
from ._fields import seconds
from ._fork import Forkable
from ._hooks import HookErrors, HookFailure
from .errors import ContextStoreError
from .types import TaskInfo

C = TypeVar("C", bound="ClientBase")


class ClientBase(Forkable):
    """An address and how to behave there."""

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        token_file: str | Path | None = None,
        tls: TlsConfig | None = None,
        timeout: float = 30.0,
        stream_timeout: float = 300.0,
        llm_timeout: float = 3600.0,
        flush_timeout: float = 10.0,
        instance_id: str | None = None,
        renew_leases: bool = True,
    ) -> None:
        """The address is `unix:PATH`, `tcp:HOST:PORT` or `tls:HOST:PORT`; over TCP the server wants the token in the
        file `token` of its data directory: `token_file` names that file, which is read for every call, as every start of
        the server makes a new token; `token` is one that stays. `tls` says whom to trust.

        `timeout` is for a call with its repetitions, in seconds, unless the call has one of its own. `stream_timeout`
        is for one stretch of a stream, which is then taken up again where it was; `llm_timeout` for a call that may wait
        for a model (`chat`, `compress`); `flush_timeout` is for what was appended without waiting, when the client is closed
        or the program ends. `instance_id` names this client to leases: one that is the same after a restart of the agent
        gets its tasks back at once. Without one it is random, and another one in each process that is forked.
        `renew_leases`: whether the leases
        of its tasks are kept alive in the background, for as long as their objects live.
        """
        self._address = _address.parse(address, _address.token_of(token, token_file), tls)
        self._instance_id = instance_id
        self._calls = ClientCalls(instance_id)
        self._reached = False
        self._closed = False
        self.timeout = seconds("timeout", timeout)
        self.stream_timeout = seconds("stream_timeout", stream_timeout)
        self.llm_timeout = seconds("llm_timeout", llm_timeout)
        self.flush_timeout = seconds("flush_timeout", flush_timeout)
        self._renew_leases = renew_leases
        self._connect()
        _fork.register(self)

    @abstractmethod
    def _connect(self) -> None:
        """Makes the stubs. Does not wait: the connection is made by the first call."""

    @abstractmethod
    def _start_renewing(self) -> None:
        """Makes what keeps leases alive."""

    def _after_fork_in_child(self) -> None:
        # To leases, the child is another client; its connection makes itself anew.
        self._calls = ClientCalls(self._instance_id)
        self._start_renewing()

    @classmethod
    def from_env(cls: type[C], **options: Any) -> C:
        """A client of the server that the environment names.

        `CONTEXTSTORE_ADDRESS` is the address; without it, the server is that of the data directory
        `CONTEXTSTORE_DATA_DIR` (`contexts`, if nothing says otherwise): at its `contextstore.sock`, or else where its
        `addresses` say, at the first socket or without one at the first port. Over TCP the token is
        `CONTEXTSTORE_TOKEN`, or that in the file `CONTEXTSTORE_TOKEN_FILE`, or that in the data directory, which is sent
        only while a server holds the directory, and only to an address that it has written down there. Over TLS, `CONTEXTSTORE_CA_FILE` is whom to trust, and
        `CONTEXTSTORE_CERT_FILE` and `CONTEXTSTORE_KEY_FILE` are the client's own. `options` are those of the constructor.
        """
        address, token = _address.from_env(os.environ)
        if address.startswith("tls:"):
            options.setdefault("tls", _address.tls_from_env(os.environ))
        if options.get("token_file") is None:
            options.setdefault("token", token)
        return cls(address, **options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address}>"

    @property
    def address(self) -> str:
        """Where its server is."""
        return self._address.shown

    @property
    def instance_id(self) -> str:
        """What leases know this client by."""
        return str(self._calls.holder.instance_id)

    def _heard(self, error: ContextStoreError) -> None:
        """An error that shows that the server is there, if it does."""
        if error.reason or error.code.name not in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"):
            self._reached = True

    def _explained(self, error: ContextStoreError, problem: str | None, waiting: bool) -> ContextStoreError:
        return _reach.explain(self._address, error, problem, was_there=self._reached or waiting)


def ended_by(error: BaseException) -> str | None:
    """What a task failed with; None if its program was only told to end, so that another one can go on with it."""
    if not isinstance(error, Exception):
        return None
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class TaskBase:
    """A task and this client's lease of it."""

    def __init__(self, info: TaskInfo, lease_generation: int, lease_ttl: timedelta | None) -> None:
        self.info = info
        """The task as it was when this client last changed its status or configuration; `get` asks anew."""
        self.lease_ttl = lease_ttl
        """How long the lease lives without being renewed; None without a lease."""
        self._calls = TaskCalls(info.uuid, lease_generation)
        self._had = lease_generation
        self.resumed = False
        """Whether `Client.task` has found it, rather than made it."""
        self.lease_lost: ContextStoreError | None = None
        """Why the lease could not be renewed in the background, if somebody took the task: changes are refused."""
        self.inherited_from = info.inherited_from
        """The task that this one took over from when it was started; empty if there was none."""
        self.inheritance_comment = ""
        """With it: a comment for people, as to post on the issue."""
        self.hook_errors: HookErrors = "continue"
        """What a hook that raises does. `continue`: it is logged and kept in `hook_failures`, the next one is called, and
        the task ends all the same. `stop`: HookFailed is raised, and the task goes on."""
        self.hook_failures: list[HookFailure] = []
        """The hooks that raised when the task was last completed or stopped."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.uuid} {self.status}, lease {self.lease_generation}>"

    @property
    def uuid(self) -> str:
        """Its id."""
        return self._calls.task_uuid

    @property
    def status(self) -> str:
        """The status in `info`: `running`, `paused`, `completed` or `failed`."""
        return short_name(self.info, "status")

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

    @property
    def _is_ours(self) -> bool:
        """Whether this object works on it, in this process, so that it can end it."""
        return self.lease_generation != 0 and self.status == "running" and self._calls.is_own

    def _gone(self) -> None:
        """It was removed."""
        self._calls, self.lease_ttl = TaskCalls(self.uuid, 0), None

    def _with_lease_of(self, other: TaskBase) -> TaskInfo:
        self.lease_lost = None
        self._calls, self._had, self.lease_ttl = other._calls, other._had, other.lease_ttl
        return self._now(other.info)
