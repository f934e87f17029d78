"""Addresses, tokens, and the environment that names them."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from serving import Server

from contextstore import AsyncClient, Client, Unauthenticated, Unavailable, _address
from contextstore._token import DataDirToken, FixedToken, NoToken
from contextstore.v1 import context_store_pb2 as pb

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("unix:/run/c.sock", "unix:/run/c.sock"),
        ("unix:///run/c.sock", "unix:/run/c.sock"),
        ("unix:contexts/c.sock", "unix:contexts/c.sock"),
        ("unix:a%41#b?c d,\u00fc.sock", "unix:a%2541%23b%3Fc%20d%2C%C3%BC.sock"),
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
        "unix-abstract:c",
        "unix:\0c",
        "unix:\ud800",
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
    secret = FixedToken("token", "secret")
    assert _address.parse("tcp:127.0.0.2:1", secret).token == secret
    assert _address.parse("tcp:[::1]:1", secret).token == secret
    assert _address.parse("unix:/s", secret).token is None
    for host in ("10.0.0.1", "example.org", "0.0.0.0"):
        with pytest.raises(ValueError, match="in the clear"):
            _address.parse(f"tcp:{host}:1", secret)
    assert _address.parse("tls:example.org:1", secret).token == secret
    with pytest.raises(ValueError, match="^tls: "):
        _address.parse("tcp:127.0.0.1:1", None, _address.TlsConfig())
    for token in (
        "",
        "\n",
        "two words",
        " padded",
        "line\n\n",
        "line\r",
        "line\r\n\r\n",
        "line\n\r\n",
        "tab\t",
        "ü",
    ):
        with pytest.raises(ValueError, match="^token: a token is one word"):
            FixedToken("token", token)


def from_env(env: dict[str, str]) -> tuple[str, str | None]:
    address, token = _address.from_env(env)
    token = _address.parse(address, token).token
    return address, None if token is None else token.get()


@contextlib.contextmanager
def running(data_dir: Path, *addresses: str) -> Iterator[None]:
    """Holds the lock of a data directory, and says where it listens, as its server does."""
    (data_dir / "addresses").write_text("".join(f"{address}\n" for address in addresses))
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
    with running(tmp_path, "tcp:127.0.0.1:1"):
        assert from_env({**tcp, **data_dir}) == ("tcp:127.0.0.1:1", "from-data-dir")
    assert from_env({**tcp, **data_dir, **file}) == ("tcp:127.0.0.1:1", "from-file")
    assert from_env({**tcp, **data_dir, **file, **given}) == ("tcp:127.0.0.1:1", "given")
    assert from_env({}) == ("unix:contexts/contextstore.sock", None)
    with pytest.raises(ValueError, match="CONTEXTSTORE_TOKEN_FILE: cannot read"):
        from_env({**tcp, "CONTEXTSTORE_TOKEN_FILE": str(tmp_path / "none")})


# feature: token-only-to-holder
def test_a_token_goes_to_a_running_server_only(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    token = DataDirToken(tmp_path).sent_to("tcp:127.0.0.1:1")
    with pytest.raises(NoToken, match="it has no running server"):
        token.get()
    with running(tmp_path):
        with pytest.raises(NoToken, match="does not listen at tcp:127.0.0.1:1, nor anywhere else yet"):
            token.get()
    with running(tmp_path, "unix:/s", "tcp:127.0.0.1:1"):
        assert token.get() == "first"
        (tmp_path / "token").write_text("second\n")
        assert token.get() == "second"
    with pytest.raises(NoToken, match="it has no running server"):
        token.get()


def test_nobody_on_a_port_where_the_server_does_not_listen_gets_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port that the server had before, and that somebody else took; also on another address of this machine."""
    (tmp_path / "token").write_text("secret\n")
    monkeypatch.setenv("CONTEXTSTORE_DATA_DIR", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as other, running(tmp_path, "unix:/s", "tcp:127.0.0.1:2"):
        for host in ("127.0.0.1", "localhost"):
            monkeypatch.setenv("CONTEXTSTORE_ADDRESS", f"tcp:{host}:{other.getsockname()[1]}")
            with Client.from_env(timeout=0.2) as client, pytest.raises(Unavailable) as refused:
                client.server_info()
            assert "its server does not listen at tcp:127.0.0.1:" in str(refused.value)
            assert "but at unix:/s, tcp:127.0.0.1:2" in str(refused.value)
    # The server knows this name by one address only, so it is called at that one.
    assert _address.parse("tcp:localhost:2", DataDirToken(tmp_path)).target == "dns:///127.0.0.1:2"


def test_a_token_of_a_data_directory_is_not_for_other_machines(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    env = {"CONTEXTSTORE_ADDRESS": "tls:store.example.org:1", "CONTEXTSTORE_DATA_DIR": str(tmp_path)}
    with running(tmp_path, "tcp:127.0.0.1:1"):
        assert from_env(env) == ("tls:store.example.org:1", None)
        assert from_env({"CONTEXTSTORE_ADDRESS": "tcp:127.0.0.1:1"}) == ("tcp:127.0.0.1:1", None)


# feature: token-file
def test_a_token_may_end_with_a_newline(shared_server: Server, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{shared_server.token}\n")
    windows = tmp_path / "token of Windows"
    windows.write_bytes(f"{shared_server.token}\r\n".encode())
    for option in (
        {"token": file.read_text()},
        {"token_file": file},
        {"token_file": str(file)},
        {"token": f"{shared_server.token}\r\n"},
        {"token_file": windows},
    ):
        with Client(shared_server.tcp, **cast(Any, option)) as client:
            assert client.server_info().process_id
    # It is read for every call: a server that starts makes a new one.
    with Client(shared_server.tcp, token_file=file) as client:
        file.write_text("of-another-server")
        with pytest.raises(Unauthenticated):
            client.server_info()
        file.write_text(shared_server.token)
        assert client.server_info().process_id
    for words in ("two words", " padded", "two\nlines\n", "return\r", "returns\r\n\r\n", ""):
        file.write_bytes(words.encode())
        with pytest.raises(ValueError, match="^token_file: cannot read the token in .*a token is one word"):
            Client(shared_server.tcp, token_file=file)
    with pytest.raises(ValueError, match="^token_file: cannot read the token in .*No such file"):
        Client(shared_server.tcp, token_file=tmp_path / "none")


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
    with running(tmp_path, "tcp:127.0.0.1:1", "tcp:127.0.0.1:2"):
        assert from_env(data_dir) == ("tcp:127.0.0.1:1", "from-data-dir")
    (tmp_path / "addresses").write_text("tcp:127.0.0.1:1\nunix:/run/c.sock\nunix:/run/d.sock\n")
    assert from_env(data_dir) == ("unix:/run/c.sock", None)
    (tmp_path / "contextstore.sock").touch()
    assert from_env(data_dir) == usual
