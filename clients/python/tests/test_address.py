"""Addresses, tokens, and the environment that names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextstore import _address

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
    assert _address.parse("tcp:127.0.0.2:1", "secret").token == "secret"
    assert _address.parse("tcp:[::1]:1", "secret").token == "secret"
    assert _address.parse("unix:/s", "secret").token is None
    for host in ("10.0.0.1", "example.org", "0.0.0.0"):
        with pytest.raises(ValueError, match="in the clear"):
            _address.parse(f"tcp:{host}:1", "secret")
    assert _address.parse("tls:example.org:1", "secret").token == "secret"
    with pytest.raises(ValueError, match="^tls: "):
        _address.parse("tcp:127.0.0.1:1", None, _address.TlsConfig())
    for token in ("", "two words", "line\n", "ü"):
        with pytest.raises(ValueError, match="^token: "):
            _address.parse("tcp:127.0.0.1:1", token)


def test_the_environment(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-data-dir\n")
    (tmp_path / "other").write_text("from-file\n")
    data_dir = {"CONTEXTSTORE_DATA_DIR": str(tmp_path)}
    tcp = {"CONTEXTSTORE_ADDRESS": "tcp:127.0.0.1:1"}
    file = {"CONTEXTSTORE_TOKEN_FILE": str(tmp_path / "other")}
    given = {"CONTEXTSTORE_TOKEN": "given"}
    assert _address.from_env(data_dir) == (f"unix:{tmp_path}/contextstore.sock", None)
    assert _address.from_env(tcp) == ("tcp:127.0.0.1:1", None)
    assert _address.from_env({**tcp, **data_dir}) == ("tcp:127.0.0.1:1", "from-data-dir")
    assert _address.from_env({**tcp, **data_dir, **file}) == ("tcp:127.0.0.1:1", "from-file")
    assert _address.from_env({**tcp, **data_dir, **file, **given}) == ("tcp:127.0.0.1:1", "given")
    assert _address.from_env({}) == ("unix:contexts/contextstore.sock", None)
    with pytest.raises(ValueError, match="CONTEXTSTORE_TOKEN_FILE: cannot read"):
        _address.from_env({**tcp, "CONTEXTSTORE_TOKEN_FILE": str(tmp_path / "none")})


def test_certificates_of_the_environment() -> None:
    assert _address.tls_from_env({}) is None
    named = {"CONTEXTSTORE_CA_FILE": "ca", "CONTEXTSTORE_CERT_FILE": "cert", "CONTEXTSTORE_KEY_FILE": "key"}
    assert _address.tls_from_env(named) == _address.TlsConfig("ca", "cert", "key")


def test_a_data_directory_says_where_its_server_is(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-data-dir\n")
    data_dir = {"CONTEXTSTORE_DATA_DIR": str(tmp_path)}
    usual = (f"unix:{tmp_path}/contextstore.sock", None)
    (tmp_path / "addresses").write_text("")
    assert _address.from_env(data_dir) == usual
    (tmp_path / "addresses").write_text("tcp:127.0.0.1:1\ntcp:127.0.0.1:2\n")
    assert _address.from_env(data_dir) == ("tcp:127.0.0.1:1", "from-data-dir")
    (tmp_path / "addresses").write_text("tcp:127.0.0.1:1\nunix:/run/c.sock\nunix:/run/d.sock\n")
    assert _address.from_env(data_dir) == ("unix:/run/c.sock", None)
    (tmp_path / "contextstore.sock").touch()
    assert _address.from_env(data_dir) == usual
