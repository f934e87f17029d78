"""What every channel has in common: its options, the token on every call, and the question whether it is ready."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc

from ._address import Address, TlsConfig
from ._token import NoToken, Token
from .errors import ContextStoreError, DeadlineExceeded, Unavailable

MAX_MESSAGE_BYTES = 32 << 20

_OPTIONS: list[tuple[str, str | int]] = [
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # A sidecar that was restarted is back within moments; the defaults would wait for up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # It is on this machine: no proxy is in between, and each client has a connection of its own.
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
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


class WithToken:
    """A channel, of either kind, whose calls carry a token; the bare stub on it does too.

    An interceptor would have to be written once for each kind of call and of channel. grpcio's credentials for
    calls refuse a channel without TLS.
    """

    def __init__(self, channel: Any, token: Token) -> None:
        self._channel = channel
        self._token = token

    def __getattr__(self, kind: str) -> Any:
        """`unary_unary` and so on."""
        # Only a call that answers at once may fail at once: others are awaited or iterated over.
        fails_at_once = not isinstance(self._channel, grpc.aio.Channel) and kind.endswith("_unary")

        def method(*args: Any, **kwargs: Any) -> _MethodWithToken:
            return _MethodWithToken(getattr(self._channel, kind)(*args, **kwargs), self._token, fails_at_once)

        return method


class _MethodWithToken:
    def __init__(self, method: Any, token: Token, fails_at_once: bool) -> None:
        self._method = method
        self._token = token
        self._fails_at_once = fails_at_once

    def __call__(self, *args: Any, metadata: Any = None, **kwargs: Any) -> Any:
        try:
            authorization = ("authorization", f"Bearer {self._token.get()}")
        except NoToken as error:
            if self._fails_at_once:
                raise
            return _FailedCall(error)
        return self._method(*args, metadata=(*(metadata or ()), authorization), **kwargs)

    def __getattr__(self, name: str) -> _MethodWithToken:
        """`with_call` and `future`."""
        return _MethodWithToken(getattr(self._method, name), self._token, fails_at_once=True)


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
