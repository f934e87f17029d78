"""Servers and clients for the tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from faking import FakeLlm
from serving import Server

from contextstore import Client

# A shell starts what runs in its background with SIGINT ignored, and Python leaves it so, here and in the programs of tests.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Server]:
    """A server that all tests share which do not stop it."""
    server = Server()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def fake_llm() -> Iterator[FakeLlm]:
    """The fake that `chat_server` asks."""
    fake = FakeLlm()
    yield fake
    fake.remove()


@pytest.fixture
def fake(fake_llm: FakeLlm) -> FakeLlm:
    """The same, without what it was told before."""
    fake_llm.reset()
    return fake_llm


@pytest.fixture(scope="session")
def chat_server(fake_llm: FakeLlm) -> Iterator[Server]:
    """A server that asks the fake, whoever is meant, and openai if nobody is. Shared, like shared_server."""
    asking = {"CONTEXTSTORE_LLM__RETRIES": "0", "CONTEXTSTORE_LLM__PROVIDER": "openai"}
    server = Server({**fake_llm.environment(), **asking})
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
    address, token_file = shared_server.client_args(transport)
    with Client(address, token_file=token_file) as client:
        yield client
