"""A private server for scripts and tests: started, found ready, and stopped with the program that started it."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import grpc

from ._address import can_be_listened_on
from ._base import ClientBase
from ._calls import ClientCalls
from ._fields import items, mapping, path, seconds
from ._fork import Forkable, register
from ._frames import shown
from .async_client import AsyncClient
from .client import Client
from .errors import ContextStoreError, Unavailable

C = TypeVar("C", bound=ClientBase)

BINARY_VARIABLE = "CONTEXTSTORE_BINARY"
_PACKAGE = "contextstore_bin"

# Who holds the leases in a directory of a private server: always the one program whose server it is. Under a name of its own,
# each start would have to wait for the leases of the one before.
_INSTANCE = "spawned"


class SpawnFailed(ContextStoreError):
    """No server could be started: its binary was not found, or it ended at once (its words are in the message)."""

    def __str__(self) -> str:
        return self.message


def find_binary() -> Path:
    """The server's binary: `CONTEXTSTORE_BINARY`, else that of the package `contextstore-bin`, else that on the PATH."""
    if named := os.environ.get(BINARY_VARIABLE):
        if not os.access(named, os.X_OK):
            raise SpawnFailed(f"{BINARY_VARIABLE} is {named}, which is no program that can be run")
        return Path(named)
    try:
        return Path(importlib.import_module(_PACKAGE).binary())
    except ModuleNotFoundError as error:
        if error.name != _PACKAGE:
            raise
    if found := shutil.which("contextstore"):
        return Path(found)
    raise SpawnFailed(
        f"the server's binary was not found: {BINARY_VARIABLE} is not set, the package contextstore-bin is not "
        "installed, and there is no `contextstore` on the PATH"
    )


def program_of(binary: str | os.PathLike[str] | None) -> Path:
    """The server's binary, which the caller may name."""
    if binary is None:
        return find_binary()
    path("binary", binary)
    return Path(binary)


def environment(env: Mapping[str, str] | None) -> dict[str, str]:
    """The environment of a server that this program starts: what its own says is meant for other servers."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXTSTORE_")}
    return {**given, **mapping("env", env or {})}


class Spawned(Forkable):
    """A server that belongs to this program. Made by `spawn`.

        with contextstore.spawn() as client: ...
        async with contextstore.spawn() as client: ...

    Entering gives a client (an AsyncClient for `async with`); leaving stops the server. It also ends when this program
    ends, whatever ends it. It belongs to the process that started it: in a process that was forked from that one,
    `client` works, and `stop` and the end of the process leave the server alone.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None,
        binary: str | os.PathLike[str] | None,
        arguments: Sequence[str],
        env: Mapping[str, str] | None,
        timeout: float,
        options: dict[str, Any],
    ) -> None:
        if data_dir is not None:
            path("data_dir", data_dir)
        program, arguments, env = program_of(binary), items("arguments", arguments), environment(env)
        seconds("start_timeout", timeout)
        self._own = Path(tempfile.mkdtemp(prefix="contextstore-"))
        self._parent = os.getpid()
        self._options = options
        self._async_client: AsyncClient | None = None
        self.data_dir = Path(data_dir).absolute() if data_dir is not None else self._own / "data"
        """Where it keeps everything; removed when it stops, if none was given."""
        socket = self.data_dir / "contextstore.sock"
        if not can_be_listened_on(socket):
            socket = self._own / "contextstore.sock"
        self.address = f"unix:{socket}"
        """Where it is, for other clients."""
        self.log = self._own / "server.log"
        """What it says."""
        self._finalizer: weakref.finalize[..., Spawned] = weakref.finalize(
            self, _stop, None, self._own, self._parent
        )
        # It connects with its first call; an option that it refuses is told before anything is started.
        self.client = self._named(Client(self.address, **options))
        """A client of it, closed with it."""
        self._start(program, arguments, env)
        register(self)
        self._wait(timeout)

    def __repr__(self) -> str:
        return f"<Spawned {self.address}, process {self.pid}>"

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def _named(self, client: C) -> C:
        # Only in this process: a client in a forked child has a name of its own.
        if self._options.get("instance_id") is None and self._parent == os.getpid():
            client._calls = ClientCalls(_INSTANCE)
        return client

    def _after_fork_in_child(self) -> None:
        # The server ends when nobody holds the other end of its input any more.
        if self._process.stdin is not None:
            self._process.stdin.close()

    def stop(self) -> None:
        """Stops it in order, and removes its data if no directory was given. Can be called again."""
        try:
            self.client.close()
        finally:
            self._finalizer()

    def __enter__(self) -> Client:
        return self.client

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.client.__exit__(kind, error, traceback)
        finally:
            self.stop()

    async def __aenter__(self) -> AsyncClient:
        self._async_client = self._named(AsyncClient(self.address, **self._options))
        return self._async_client

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._async_client is not None:
                await self._async_client.__aexit__(kind, error, traceback)
        finally:
            self.stop()

    def _start(self, program: Path, arguments: Sequence[str], env: dict[str, str]) -> None:
        command: list[str | os.PathLike[str]] = [
            program,
            "serve",
            "--stop-with-stdin",
            "--data-dir",
            self.data_dir,
        ]
        command += ["--listen", self.address, *arguments]
        with open(self.log, "wb") as log:
            try:
                # Its input ends when this process ends, whatever ends it. In a session of its own: Ctrl-C is for this
                # program, which may still have something to write.
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    env=env,
                    start_new_session=True,
                )
            except OSError as error:
                self._finalizer()
                raise SpawnFailed(f"{program} cannot be run: {error.strerror}") from error
        self._finalizer.detach()
        self._finalizer = weakref.finalize(self, _stop, self._process, self._own, self._parent)

    def _wait(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        with Client(self.address) as probe:
            while True:
                try:
                    probe.wait_until_ready(timeout=0.2)
                    # Another one may be there, whose directory it is.
                    if probe.server_info(timeout=5).process_id == self._process.pid:
                        return
                    time.sleep(0.02)
                    raise Unavailable("another server is there")
                except Unavailable as error:
                    ended = self._process.poll()
                    if ended is None and time.monotonic() < end:
                        continue
                    what = "is not ready" if ended is None else f"ended at once (exit code {ended})"
                    said = self.log.read_text("utf-8", "replace").strip() or "it said nothing"
                    self._finalizer()
                    raise SpawnFailed(
                        f"the server {what}: {said[-2000:]}", code=grpc.StatusCode.UNAVAILABLE
                    ) from error


def _stop(process: subprocess.Popen[bytes] | None, own: Path, parent: int) -> None:
    """Stops the server and removes its files, in the process that started it."""
    if os.getpid() != parent:
        return
    if process is not None:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdin is not None:
            process.stdin.close()
    shutil.rmtree(own, ignore_errors=True)


@shown
def spawn(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    binary: str | os.PathLike[str] | None = None,
    arguments: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    start_timeout: float = 30.0,
    **options: Any,
) -> Spawned:
    """Starts a private server, waits until it is ready, and stops it at the end of the block or of the program.

        with contextstore.spawn() as client:
            task = client.start_task()

    `data_dir` is where it keeps everything; without one it is a temporary directory that is removed at the end. The
    binary is found by `find_binary`. `env` and `arguments` configure the server
    (`env={"CONTEXTSTORE_LLM__PROVIDER": "openai"}`), `options` are those of the client. A program that was killed and
    comes back to the same directory goes on with its tasks at once.
    """
    return Spawned(data_dir, binary, arguments, env, start_timeout, options)
