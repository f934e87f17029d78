"""The connection of a client: its options, the token on every call, what a fork does to it; and whether a server is ready."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from ._address import Address, TlsConfig, unix_target
from ._fields import seconds
from ._fork import Forkable, leave, register, require_safe
from ._token import NoToken, Token
from .errors import ContextStoreError, DeadlineExceeded, TooLarge, Unavailable

_OPTIONS: list[tuple[str, str | int]] = [
    # The server's limit counts, and its own error says more.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # A sidecar that was restarted is back within moments; the defaults would wait for up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # It is on this machine: no proxy is in between, and each client has a connection of its own.
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    # A server that stops when it is idle counts connections.
    ("grpc.client_idle_timeout_ms", 2**31 - 1),
]


def options(address: Address) -> list[tuple[str, str | int]]:
    """How a channel behaves."""
    if address.tls is None:
        # Without it grpcio sends the path of a Unix socket as the authority, which HTTP/2 servers refuse.
        return [*_OPTIONS, ("grpc.default_authority", "localhost")]
    if address.tls.server_name is not None:
        return [*_OPTIONS, ("grpc.ssl_target_name_override", address.tls.server_name)]
    return _OPTIONS


def credentials(tls: TlsConfig) -> grpc.ChannelCredentials:
    """What a channel over TLS shows and asks for."""
    return grpc.ssl_channel_credentials(
        _pem("ca", tls.ca), _pem("key", tls.key), _pem("certificate", tls.certificate)
    )


def _pem(name: str, given: str | Path | bytes | None) -> bytes | None:
    if given is None or isinstance(given, bytes):
        return given
    try:
        return Path(given).read_bytes()
    except OSError as error:
        raise ValueError(f"tls.{name}: cannot read {given}: {error.strerror}") from error


TAKEN_BYTES = 16 << 20
"""The size of a request above which the server is asked first how much it takes: its limit, unless it is configured."""


def require_taken(size: int, limit: int) -> None:
    """Raises TooLarge for a request that the server would refuse, in its own words."""
    if size > limit:
        raise TooLarge(
            f"the request has {size} bytes; at most {limit} are allowed (limits.message_bytes)",
            code=grpc.StatusCode.INVALID_ARGUMENT,
            reason="TOO_LARGE",
            metadata={"size": str(size), "limit": str(limit)},
        )


HEALTH_CHECK = "/grpc.health.v1.Health/Check"
HEALTH_CHECK_REQUEST = b""  # grpc.health.v1.HealthCheckRequest for the whole server
_SERVING = b"\x08\x01"  # grpc.health.v1.HealthCheckResponse with status SERVING


def require_serving(response: bytes) -> None:
    """Raises Unavailable unless a HealthCheckResponse says that the server takes calls."""
    if response != _SERVING:
        raise Unavailable("the server is not ready yet", code=grpc.StatusCode.UNAVAILABLE)


def not_yet(error: ContextStoreError) -> ContextStoreError:
    """What the question whether a server is ready failed with; one that has not answered in time is not."""
    if isinstance(error, DeadlineExceeded):
        return Unavailable("the server has not answered in time", code=grpc.StatusCode.UNAVAILABLE)
    return error


_unused_channel: Any = None


def _keep_grpcio_running() -> None:
    """Keeps grpcio initialized until this process ends.

    Otherwise grpcio shuts down in a thread of its own when its last channel is closed. A fork at that moment aborts the
    process, or leaves a child whose first call never returns.
    """
    global _unused_channel
    if _unused_channel is None:
        # A channel connects with its first call, and this one has none.
        _unused_channel = grpc.insecure_channel("unix:/nonexistent")


def _forget_unused_channel() -> None:
    """In a forked child: with GRPC_ENABLE_FORK_SUPPORT, grpcio has closed the channels of the parent."""
    global _unused_channel
    if _unused_channel is not None:
        leave(_unused_channel)
        _unused_channel = None


os.register_at_fork(after_in_child=_forget_unused_channel)


_KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


class Connection(Forkable):
    """A channel for threads: it is made by the first call, and made anew in a forked child. The calls of a stub on it carry
    the token.

    An interceptor would have to be written once for each kind of call and of channel. grpcio's credentials for
    calls refuse a channel without TLS.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._credentials = None if address.tls is None else credentials(address.tls)
        self._channel: Any = None
        self._link: weakref.finalize[..., Connection] | None = None
        self._closed = False
        self._calls = 0
        self._forking = False
        self._changed = threading.Condition(threading.RLock())
        register(self)

    def __getattr__(self, kind: str) -> Callable[..., Method]:
        """`unary_unary` and so on, as a stub wants them."""
        if kind not in _KINDS:
            raise AttributeError(kind)
        return functools.partial(Method, self, kind, self._address.token)

    def without_token(self, path: str) -> Method:
        """A unary method that needs no token."""
        return Method(self, "unary_unary", None, path)

    def close(self) -> Any:
        """Ends all calls; there can be no others."""
        with self._changed:
            self._closed = True
            channel, self._channel = self._channel, None
        if self._link is not None:
            self._link()
        return self._close(channel)

    def begin(self) -> Any:
        """The channel for a call, which has to be followed by `end`."""
        require_safe()
        with self._changed:
            while self._forking:
                self._changed.wait()
            if self._closed:
                raise ValueError("the client is closed: make another one")
            if self._channel is None:
                _keep_grpcio_running()
                self._channel = self._make(self._target(), options(self._address))
            self._calls += 1
            return self._channel

    def end(self) -> None:
        """A call has ended."""
        with self._changed:
            self._calls -= 1
            self._changed.notify_all()

    def call(self, method: Callable[..., Any], args: Any, kwargs: Any, streams: bool) -> Any:
        """Calls a method of grpcio. One that streams ends later than it is called."""
        try:
            answer = method(*args, **kwargs)
        except BaseException:
            self.end()
            raise
        if not streams or not answer.add_callback(self.end):
            self.end()
        return answer

    def _target(self) -> str:
        """The address in the words of grpcio, which takes a Unix socket for a URI, and a comma in it for the end of one path:
        such a path is reached by a link."""
        path = self._address.path
        if "," not in path:
            return self._address.target
        folder = tempfile.mkdtemp(prefix="contextstore-")
        self._link = weakref.finalize(self, _remove, folder, os.getpid())
        link = os.path.join(folder, "link")
        os.symlink(os.path.abspath(path), link)
        return unix_target(link)

    def _make(self, target: str, options: list[tuple[str, str | int]]) -> Any:
        if self._credentials is None:
            return grpc.insecure_channel(target, options=options)
        return grpc.secure_channel(target, self._credentials, options=options)

    def _close(self, channel: Any) -> Any:
        if channel is not None:
            channel.close()

    def _before_fork(self, end: float) -> bool:
        with self._changed:
            self._forking = True
            while self._calls and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)
            return self._calls == 0

    def _is_connected(self) -> bool:
        return self._channel is not None

    def _after_fork_in_parent(self) -> None:
        with self._changed:
            self._forking = False
            self._changed.notify_all()

    def _after_fork_in_child(self) -> None:
        leave(self._channel)
        self._channel, self._link, self._calls, self._forking = None, None, 0, False
        self._changed = threading.Condition(threading.RLock())


class AsyncConnection(Connection):
    """The same for asyncio. grpcio then has a thread that never rests, so a fork while it is open is one in a call."""

    def call(self, method: Callable[..., Any], args: Any, kwargs: Any, streams: bool) -> Any:
        """Calls a method of grpcio."""
        self.end()
        return method(*args, **kwargs)

    def _make(self, target: str, options: list[tuple[str, str | int]]) -> Any:
        if self._credentials is None:
            return grpc.aio.insecure_channel(target, options=options)
        return grpc.aio.secure_channel(target, self._credentials, options=options)

    async def _close(self, channel: Any) -> None:
        if channel is not None:
            await channel.close()

    def _before_fork(self, end: float) -> bool:
        return super()._before_fork(end) and self._channel is None


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


class Method:
    """A method of the server on a connection, as a stub has it."""

    def __init__(
        self, connection: Connection, kind: str, token: Token | None, path: str, *args: Any, **kwargs: Any
    ) -> None:
        self._connection, self._kind, self._token = connection, kind, token
        self._args, self._kwargs = (path, *args), kwargs
        self._made: tuple[Any, Any] = (None, None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call("__call__", not self._kind.endswith("_unary"), args, kwargs)

    def with_call(self, *args: Any, **kwargs: Any) -> Any:
        """The answer, and the call that it is of."""
        return self._call("with_call", False, args, kwargs)

    def future(self, *args: Any, **kwargs: Any) -> Any:
        """The call, whose answer can be waited for."""
        return self._call("future", True, args, kwargs)

    def _call(self, name: str, streams: bool, args: Any, kwargs: Any) -> Any:
        if self._token is not None:
            try:
                authorization = ("authorization", f"Bearer {self._token.get()}")
            except NoToken as error:
                # Only a call that answers at once may fail at once: others are awaited or iterated over.
                if name == "__call__" and (streams or isinstance(self._connection, AsyncConnection)):
                    return _FailedCall(error)
                raise
            kwargs["metadata"] = (*(kwargs.get("metadata") or ()), authorization)
        if (timeout := kwargs.get("timeout")) is not None:
            seconds("timeout", timeout)
        channel = self._connection.begin()
        made_of, made = self._made
        if made_of is not channel:
            made = getattr(channel, self._kind)(*self._args, **self._kwargs)
            self._made = (channel, made)
        return self._connection.call(getattr(made, name), args, kwargs, streams)


class _FailedCall:
    """A call that was not made: whatever is asked of it, it fails."""

    def __init__(self, error: NoToken) -> None:
        self._error = error

    def _fail(self, *_: Any) -> Any:
        raise self._error

    __iter__ = __aiter__ = __await__ = initial_metadata = _fail

    def cancel(self) -> bool:
        """There is nothing to cancel."""
        return False
