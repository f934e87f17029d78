"""A server that is not there: told at once and in plain words, unless it is waited for. TLS, and tokens over it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from serving import DEADLINE, free_port
from test_retries import Scripted, serve

from contextstore import AsyncClient, Client, Task, TlsConfig, Unavailable, Unreachable
from contextstore.v1 import context_store_pb2 as pb
from contextstore.v1.context_store_pb2_grpc import ContextStoreServicer, add_ContextStoreServicer_to_server

pytestmark = pytest.mark.quick
SHORT = 3.0
"""Seconds that a client may try for which is to give up: enough for a first answer on a busy machine."""


def said_by_both(address: str) -> str:
    """What both clients say of a server that is not there; the same, and at the first try."""

    async def ask() -> str:
        async with AsyncClient(address) as client:
            with pytest.raises(Unreachable) as raised:
                await client.start_task()
            assert raised.value.tries == 1
            return str(raised.value)

    with Client(address) as client, pytest.raises(Unreachable) as raised:
        client.start_task()
    assert raised.value.code is grpc.StatusCode.UNAVAILABLE and raised.value.tries == 1
    assert asyncio.run(ask()) == str(raised.value)
    return str(raised.value)


# feature: no-server-advice
def test_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = said_by_both(f"unix:{tmp_path}/contextstore.sock")
    assert said.startswith(
        f"there is no server at unix:{tmp_path}/contextstore.sock: there is no such socket. "
    )
    assert f"contextstore serve --data-dir {tmp_path}" in said and "grpc" not in said
    assert f"contextstore.connect_or_spawn('{tmp_path}')" in said
    monkeypatch.chdir(tmp_path)
    assert f"(seen from {tmp_path})" in said_by_both("unix:contextstore.sock")
    assert f"there is no directory {tmp_path}/contexts" in said_by_both("unix:contexts/contextstore.sock")


def test_a_socket_whose_server_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "contextstore.sock"
    with socket.socket(socket.AF_UNIX) as ended:
        ended.bind(str(path))
    assert "its server has ended" in said_by_both(f"unix:{path}")


@contextlib.contextmanager
def not_as_root() -> Iterator[None]:
    """Root may connect to every socket; so this is somebody else for a while."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_a_socket_of_somebody_else(tmp_path: Path) -> None:
    path = tmp_path / "contextstore.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        path.chmod(0)
        with not_as_root():
            said = said_by_both(f"unix:{path}")
        assert "this user may not connect" in said


def test_no_port_and_no_host() -> None:
    said = said_by_both(f"tcp:127.0.0.1:{free_port()}")
    assert "nothing listens on that port" in said and "Is the address right" in said
    assert "`contextstore serve --listen tcp:127.0.0.1:" in said
    assert "the name of the host is not known" in said_by_both("tcp:contextstore.invalid:1")


def test_every_kind_of_call_says_so(tmp_path: Path) -> None:
    with serve() as (_, address), Client(address) as there:
        task = there.start_task()
    with Client(f"unix:{tmp_path}/none.sock") as client:
        task = Task(client, task.info, task.lease_generation, None)
        for call in (
            lambda: task.get(),
            lambda: list(task.current()),
            lambda: list(task.append_many(["{}"])),
            lambda: list(task.chat()),
            lambda: task.output.put("text"),
        ):
            with pytest.raises(Unreachable, match="there is no such socket") as raised:
                call()
            assert raised.value.tries == 1


def test_something_else_listens() -> None:
    """It is no server of ours, but it is there: the client goes on, and then says what it is about."""
    with socket.create_server(("127.0.0.1", 0)) as other:

        def hang_up() -> None:
            while True:
                try:
                    connection, _ = other.accept()
                except OSError:
                    return
                connection.close()

        threading.Thread(target=hang_up, daemon=True).start()
        address = f"tcp:127.0.0.1:{other.getsockname()[1]}"
        with Client(address, timeout=SHORT) as client, pytest.raises(Unavailable) as raised:
            client.server_info()
        assert f"the connection to the server at {address} failed: " in str(raised.value)
        other.shutdown(socket.SHUT_RDWR)


def test_a_server_that_was_there_is_waited_for() -> None:
    with serve() as (_, address):
        client = Client(address, timeout=SHORT)
        client.get_task("x")
    with client, pytest.raises(Unreachable, match="nothing listens.*tried [0-9]+ times") as raised:
        client.get_task("x")
    assert raised.value.tries > 2


def test_a_server_that_comes_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "contextstore.sock"
    with Client(f"unix:{path}") as client:
        waiting = threading.Thread(target=client.wait_until_ready)
        waiting.start()
        server = grpc.server(futures.ThreadPoolExecutor(2))
        scripted = Scripted()  # type: ignore[abstract]
        health: dict[str, Any] = {"Check": grpc.unary_unary_rpc_method_handler(scripted.check)}
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("grpc.health.v1.Health", health),)
        )
        add_ContextStoreServicer_to_server(scripted, server)
        server.add_insecure_port(f"unix:{path}")
        server.start()
        waiting.join(DEADLINE)
        assert not waiting.is_alive()
        client.get_task("x")
        server.stop(0).wait()


class Open(ContextStoreServicer):
    """Says who calls."""

    def GetServerInfo(self, request: Any, context: Any) -> Any:
        token = dict(context.invocation_metadata()).get("authorization", "")
        names = (context.auth_context() or {}).get("x509_common_name", [])
        return pb.GetServerInfoResponse(version=f"{token} {b''.join(names).decode()}")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA, a server for `store.test` and a client, as openssl makes them."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1")
    openssl("req", "-x509", *new, "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem")
    for name, host in (("server", "store.test"), ("client", "agent")):
        (folder / f"{name}.ext").write_text(f"subjectAltName=DNS:{host}\n")
        openssl("req", *new[:-2], "-subj", f"/CN={host}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1")
        files = ("-in", f"{name}.csr", "-out", f"{name}.pem", "-extfile", f"{name}.ext")
        openssl("x509", "-req", *files, *signed)
    return folder


@pytest.fixture(params=[False, True], ids=["server", "both"])
def tls_server(certificates: Path, request: pytest.FixtureRequest) -> Iterator[tuple[str, bool]]:
    pem = {file.name: file.read_bytes() for file in certificates.iterdir()}
    server = grpc.server(futures.ThreadPoolExecutor(2))
    add_ContextStoreServicer_to_server(Open(), server)  # type: ignore[abstract]
    credentials = grpc.ssl_server_credentials(
        [(pem["server.key"], pem["server.pem"])], pem["ca.pem"] if request.param else None, request.param
    )
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    yield f"tls:127.0.0.1:{port}", request.param
    server.stop(0).wait()


def test_tls(tls_server: tuple[str, bool], certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address, both = tls_server
    own, key = (certificates / "client.pem", certificates / "client.key") if both else (None, None)
    tls = TlsConfig(certificates / "ca.pem", own, key, server_name="store.test")

    async def ask() -> str:
        async with AsyncClient(address, token="secret", tls=tls, timeout=DEADLINE) as client:
            return (await client.server_info()).version

    expected = "Bearer secret agent" if both else "Bearer secret "
    with Client(address, token="secret", tls=tls, timeout=DEADLINE) as client:
        assert client.server_info().version == expected == asyncio.run(ask())

    # Not for whom it was made, and by nobody that the machine knows.
    for wrong in (TlsConfig(certificates / "ca.pem", own, key), TlsConfig(server_name="store.test")):
        with Client(address, tls=wrong, timeout=SHORT) as client, pytest.raises(Unavailable):
            client.server_info()

    monkeypatch.setenv("CONTEXTSTORE_ADDRESS", address)
    monkeypatch.setenv("CONTEXTSTORE_TOKEN", "secret")
    monkeypatch.setenv("CONTEXTSTORE_CA_FILE", str(certificates / "none.pem"))
    with pytest.raises(ValueError, match="tls.ca: cannot read"):
        Client.from_env()
