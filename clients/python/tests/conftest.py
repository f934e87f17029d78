"""Servers and clients for the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from serving import Server

from contextstore import Client


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Server]:
    """A server that all tests share which do not stop it."""
    server = Server()
    yield server
    server.remove()


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of the test's own."""
    server = Server()
    yield server
    server.remove()


@pytest.fixture(params=["unix", "tcp"])
def transport(request: pytest.FixtureRequest) -> str:
    """Both ways to the server."""
    return str(request.param)


@pytest.fixture
def client(shared_server: Server, transport: str) -> Iterator[Client]:
    """A client of the shared server, over each transport."""
    address, token = shared_server.client_args(transport)
    with Client(address, token=token) as client:
        yield client
