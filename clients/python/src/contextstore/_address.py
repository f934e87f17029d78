"""Where the server is and how to get in: addresses, tokens, and the environment that names them."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ._token import DataDirToken, FixedToken, Token, TokenFile

LONGEST_SOCKET = 107  # sockaddr_un has 108 bytes, the last of them 0


@dataclass(frozen=True)
class TlsConfig:
    """How a server over TLS is recognised (`tls:HOST:PORT`), and how this client is, if the server asks for that.

        Client("tls:store.example.org:50551", token=token, tls=TlsConfig(ca="ca.pem"))

    Certificates and keys are PEM: a file, or the bytes themselves.
    """

    ca: str | Path | bytes | None = None
    """Certificates of who may vouch for the server; None: those that the machine trusts."""
    certificate: str | Path | bytes | None = None
    """This client's certificate, with those between it and its CA."""
    key: str | Path | bytes | None = None
    """The key of that certificate."""
    server_name: str | None = None
    """The name in the server's certificate, if it is not the host of the address."""


@dataclass(frozen=True)
class Address:
    """Where a server is: in grpcio's words and in those of the caller, and the token to present there."""

    target: str
    token: Token | None = None
    shown: str = ""
    """As the caller wrote it."""
    path: str = ""
    """Of a Unix socket."""
    host: str = ""
    port: int = 0
    tls: TlsConfig | None = None


def parse(address: str, token: Token | None, tls: TlsConfig | None = None) -> Address:
    """Reads `unix:PATH`, `tcp:HOST:PORT` or `tls:HOST:PORT`; an IPv6 host stands in brackets."""
    if not isinstance(address, str):
        raise TypeError(
            f"address: must be a str (unix:PATH, tcp:HOST:PORT or tls:HOST:PORT), not {type(address).__name__}"
        )
    if tls is not None and not isinstance(tls, TlsConfig):
        raise TypeError(f"tls: must be a TlsConfig, not {type(tls).__name__}")
    kind, _, rest = address.partition(":")
    if kind == "unix" and rest:
        return _unix(address, rest)
    rest = rest.removeprefix("//")
    host, _, port = rest.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    bracketed = host.startswith("[") and host.endswith("]")
    if (
        kind not in ("tcp", "tls")
        or not bare
        or not (port.isascii() and port.isdecimal())
        or (":" in bare) != bracketed
    ):
        raise ValueError(f"address: none of unix:PATH, tcp:HOST:PORT and tls:HOST:PORT: {address!r}")
    if not 0 < int(port) < 65536:
        raise ValueError(f"address: a port is 1 to 65535: {address!r}")
    if kind == "tls":
        tls = tls or TlsConfig()
    elif tls is not None:
        raise ValueError(f"tls: is for an address tls:HOST:PORT, not {address!r}")
    if token is not None and tls is None and not _is_loopback(bare):
        raise ValueError(
            f"address: a token is sent in the clear, so only to this machine (127.0.0.1) or over TLS "
            f"(tls:HOST:PORT): {address!r}"
        )
    if isinstance(token, DataDirToken):
        # As its server writes it. Somebody else may listen on the same port of another address of this machine.
        bare = "127.0.0.1" if bare == "localhost" else str(ipaddress.ip_address(bare))
        host = f"[{bare}]" if bracketed else bare
        token = token.sent_to(f"tcp:{host}:{int(port)}")
    target = f"dns:///{quote(host, safe='[]:')}:{port}"
    return Address(target, token, address, host=bare, port=int(port), tls=tls)


def _unix(address: str, path: str) -> Address:
    if "\0" in path:
        raise ValueError(f"address: the path of a Unix socket has no zero bytes: {address!r}")
    try:
        length = len(os.fsencode(path))
    except UnicodeEncodeError as error:
        raise ValueError(f"address: no path of a file: {error}") from None
    if length > LONGEST_SOCKET:
        raise ValueError(
            f"address: the path of a Unix socket has at most {LONGEST_SOCKET} bytes: {address!r}"
        )
    return Address(unix_target(path), shown=address, path=path)


def unix_target(path: str) -> str:
    """The path of a Unix socket in the words of grpcio, which reads it as a URI: as all of it is escaped, it is taken as it is."""
    slashes = len(path) - len(path.lstrip("/"))
    # Two would begin the name of a host.
    return "unix:" + quote(os.fsencode("/" * min(slashes, 1) + path[slashes:]), safe="/")


def can_be_listened_on(path: Path) -> bool:
    """Whether a server can be told to listen on a Unix socket of this name: it is short enough, and text."""
    try:
        return len(str(path).encode()) <= LONGEST_SOCKET
    except UnicodeEncodeError:
        return False


def tls_from_env(env: Mapping[str, str]) -> TlsConfig | None:
    """The certificates that the environment names; None if it names none."""
    ca, certificate, key = (env.get(f"CONTEXTSTORE_{name}_FILE") for name in ("CA", "CERT", "KEY"))
    return TlsConfig(ca, certificate, key) if ca or certificate or key else None


def token_of(token: str | Token | None, token_file: str | Path | None) -> Token | None:
    """The token that the options name."""
    if token is not None and token_file is not None:
        raise ValueError("token_file: cannot be used with token")
    if token is not None:
        return token if isinstance(token, Token) else FixedToken("token", token)
    return None if token_file is None else TokenFile("token_file", token_file)


def from_env(env: Mapping[str, str]) -> tuple[str, Token | None]:
    """The address and token that the environment names; see Client.from_env."""
    data_dir = env.get("CONTEXTSTORE_DATA_DIR")
    address = env.get("CONTEXTSTORE_ADDRESS")
    if not address:
        data_dir = data_dir or "contexts"
        address = _of_data_dir(Path(data_dir))
    token = env.get("CONTEXTSTORE_TOKEN")
    if token or address.startswith("unix:"):
        return address, FixedToken("CONTEXTSTORE_TOKEN", token) if token else None
    if file := env.get("CONTEXTSTORE_TOKEN_FILE"):
        return address, TokenFile("CONTEXTSTORE_TOKEN_FILE", file)
    # That of a server on this machine, so never for one over TLS.
    return address, DataDirToken(data_dir) if data_dir and address.startswith("tcp:") else None


def _of_data_dir(data_dir: Path) -> str:
    """Where the server of a data directory is: at its usual socket, also if it is not there yet, unless a server that
    does not listen there has written down where it does."""
    usual = Path(data_dir, "contextstore.sock")
    return f"unix:{usual}" if usual.exists() else (addresses_of(data_dir) or [f"unix:{usual}"])[0]


def addresses_of(data_dir: Path) -> list[str]:
    """Where a server has written down that it listens, sockets first; none if it has not."""
    try:
        lines = Path(data_dir, "addresses").read_text("utf-8", "surrogateescape").split("\n")
    except OSError:
        return []
    return [line for kind in ("unix:", "tcp:") for line in lines if line.startswith(kind)]


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
