"""Addresses, tokens, and the environment that names them."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from contextstore import AsyncClient, Client, Unavailable, _address
from contextstore._token import DataDirToken, FixedToken, NoToken
from contextstore.v1 import context_store_pb2 as pb

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("unix:/run/c.sock", "unix:/run/c.sock"),
        ("unix:///run/c.sock", "unix:/run/c.sock"),
        ("unix:contexts/c.sock", "unix:contexts/c.sock"),
        ("tcp:127.0.0.1:4711", "dns:///127.0.0.1:4711"),
        ("tcp://localhost:4711", "dns:///localhost:4711"),
        ("tcp:[::1]:4711", "dns:///[::1]:4711"),
        ("tls:store.example.org:4711", "dns:///store.example.org:4711"),
    ],
)
def test_an_address_is_read(address: str, target: str) -> None:
    assert _address.parse(address, None).target == target


@pytest.mark.parametrize(
    "address",
    [
        "",
        "unix:",
        "tcp:",
        "tcp:host",
        "tcp::1",
        "tcp:::1:4711",
        "tcp:h:p",
        "tcp:h:0",
        "tcp:h:65536",
        "h:1",
        "/run/c",
    ],
)
def test_a_bad_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="^address: "):
        _address.parse(address, None)


def test_a_socket_path_that_cannot_be_is_refused() -> None:
    _address.parse("unix:" + "s" * 107, None)
    with pytest.raises(ValueError, match="at most 107 bytes"):
        _address.parse("unix:" + "s" * 108, None)


def test_a_token_is_for_this_machine() -> None:
    secret = FixedToken("secret")
    assert _address.parse("tcp:127.0.0.2:1", secret).token == secret
    assert _address.parse("tcp:[::1]:1", secret).token == secret
    assert _address.parse("unix:/s", secret).token is None
    for host in ("10.0.0.1", "example.org", "0.0.0.0"):
        with pytest.raises(ValueError, match="in the clear"):
            _address.parse(f"tcp:{host}:1", secret)
    assert _address.parse("tls:example.org:1", secret).token == secret
    with pytest.raises(ValueError, match="^tls: "):
        _address.parse("tcp:127.0.0.1:1", None, _address.TlsConfig())
    for token in ("", "two words", "line\n", "ü"):
        with pytest.raises(ValueError, match="^token: "):
            FixedToken(token)


def from_env(env: dict[str, str]) -> tuple[str, str | None]:
    address, token = _address.from_env(env)
    return address, None if token is None else token.get()


@contextlib.contextmanager
def running(data_dir: Path) -> Iterator[None]:
    """Holds the lock of a data directory, as its server does."""
    with (data_dir / "LOCK").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_the_environment(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-data-dir\n")
    (tmp_path / "other").write_text("from-file\n")
    data_dir = {"CONTEXTSTORE_DATA_DIR": str(tmp_path)}
    tcp = {"CONTEXTSTORE_ADDRESS": "tcp:127.0.0.1:1"}
    file = {"CONTEXTSTORE_TOKEN_FILE": str(tmp_path / "other")}
    given = {"CONTEXTSTORE_TOKEN": "given"}
    assert from_env(data_dir) == (f"unix:{tmp_path}/contextstore.sock", None)
    assert from_env(tcp) == ("tcp:127.0.0.1:1", None)
    with running(tmp_path):
        assert from_env({**tcp, **data_dir}) == ("tcp:127.0.0.1:1", "from-data-dir")
    assert from_env({**tcp, **data_dir, **file}) == ("tcp:127.0.0.1:1", "from-file")
    assert from_env({**tcp, **data_dir, **file, **given}) == ("tcp:127.0.0.1:1", "given")
    assert from_env({}) == ("unix:contexts/contextstore.sock", None)
    with pytest.raises(ValueError, match="CONTEXTSTORE_TOKEN_FILE: cannot read"):
        from_env({**tcp, "CONTEXTSTORE_TOKEN_FILE": str(tmp_path / "none")})


def test_a_token_goes_to_a_running_server_only(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    token = DataDirToken(tmp_path)
    with pytest.raises(NoToken, match="it has no running server"):
        token.get()
    with running(tmp_path):
        assert token.get() == "first"
        (tmp_path / "token").write_text("second\n")
        assert token.get() == "second"
    with pytest.raises(NoToken, match="it has no running server"):
        token.get()


def test_nobody_on_the_port_of_a_dead_server_gets_the_token(tmp_path: Path) -> None:
    """Calls of every kind fail before anything is sent."""
    (tmp_path / "token").write_text("secret\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"tcp:127.0.0.1:{listener.getsockname()[1]}"
        token = DataDirToken(tmp_path)
        with Client(address, token=cast(str, token), timeout=0.2) as client:
            with pytest.raises(Unavailable, match="it has no running server"):
                client.server_info()
            with pytest.raises(Unavailable, match="it has no running server"):
                list(client.list_tasks())
            with pytest.raises(NoToken):
                list(client.stub.StreamMessages(pb.StreamMessagesRequest()))

        async def asynchronously() -> None:
            async with AsyncClient(address, token=cast(str, token), timeout=0.2) as client:
                with pytest.raises(Unavailable, match="it has no running server"):
                    await client.server_info()
                with pytest.raises(NoToken):
                    async for _ in client.stub.StreamMessages(pb.StreamMessagesRequest()):
                        pass

        asyncio.run(asynchronously())


def test_certificates_of_the_environment() -> None:
    assert _address.tls_from_env({}) is None
    named = {"CONTEXTSTORE_CA_FILE": "ca", "CONTEXTSTORE_CERT_FILE": "cert", "CONTEXTSTORE_KEY_FILE": "key"}
    assert _address.tls_from_env(named) == _address.TlsConfig("ca", "cert", "key")


def test_a_data_directory_says_where_its_server_is(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-data-dir\n")
    data_dir = {"CONTEXTSTORE_DATA_DIR": str(tmp_path)}
    usual = (f"unix:{tmp_path}/contextstore.sock", None)
    (tmp_path / "addresses").write_text("")
    assert from_env(data_dir) == usual
    (tmp_path / "addresses").write_text("tcp:127.0.0.1:1\ntcp:127.0.0.1:2\n")
    with running(tmp_path):
        assert from_env(data_dir) == ("tcp:127.0.0.1:1", "from-data-dir")
    (tmp_path / "addresses").write_text("tcp:127.0.0.1:1\nunix:/run/c.sock\nunix:/run/d.sock\n")
    assert from_env(data_dir) == ("unix:/run/c.sock", None)
    (tmp_path / "contextstore.sock").touch()
    assert from_env(data_dir) == usual
