"""The server of a data directory that several programs share: used if it runs, started if it does not."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc

from ._address import addresses_of, can_be_listened_on, parse
from ._fields import items, path, seconds
from ._frames import shown
from ._reach import look
from ._token import DataDirToken, is_locked
from .async_client import AsyncClient
from .client import Client
from .errors import DeadlineExceeded, Unavailable
from .spawning import SpawnFailed, environment, program_of
from .types import ServerInfo

_IDLE = "30s"
"""How long a server goes on that no client is connected to."""
_STARTS = 3
"""A server that ends at once is started this often: another one may just have been ending in the same directory."""
_PAUSE = 0.02
_PATIENCE = 1.0
"""Seconds that a server has to answer before it is looked whether there is still one."""


class _Shared:
    """The server of a data directory, as one call of `connect_or_spawn` looks for it."""

    def __init__(
        self,
        data_dir: str | os.PathLike[str],
        binary: str | os.PathLike[str] | None,
        arguments: Sequence[str],
        env: Mapping[str, str] | None,
        timeout: float,
    ) -> None:
        path("data_dir", data_dir)
        self._data_dir = Path(data_dir).absolute()
        self._binary, self._arguments, self._env = binary, items("arguments", arguments), environment(env)
        self._end = time.monotonic() + seconds("start_timeout", timeout)
        self._process: subprocess.Popen[bytes] | None = None
        self._log = self._data_dir / "server.log"
        self._failures = 0

    def candidates(self) -> list[dict[str, Any]]:
        """Where a server of the directory may listen and somebody does, as options of a client."""
        usual = self._data_dir / "contextstore.sock"
        noted = addresses_of(self._data_dir)
        found = []
        for address in [*([f"unix:{usual}"] if can_be_listened_on(usual) else []), *noted]:
            token = DataDirToken(self._data_dir) if address.startswith("tcp:") else None
            options = {"address": address, "token": token}
            # One of a server of another version may have no meaning here.
            with contextlib.suppress(ValueError):
                if look(parse(address, token)) is None:
                    found.append(options)
        return found

    def found(self, server: ServerInfo) -> None:
        """A server has answered: its log is the one that stays."""
        self._keep_log(server.process_id)

    def go_on(self) -> None:
        """Nobody has answered: starts a server if there is none, and waits for a moment; SpawnFailed when the time is over."""
        self._start_if_there_is_none()
        if time.monotonic() > self._end:
            raise self._failed("no server of it answers")
        time.sleep(_PAUSE)

    def _start_if_there_is_none(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        try:
            # By a server that is starting, or stopping.
            if is_locked(self._data_dir):
                return
            if self._process is not None:
                # One that ended in order was idle, before this program could reach it.
                self._failures += self._process.returncode != 0
                if self._failures == _STARTS:
                    raise self._failed(f"its server ended at once (exit code {self._process.returncode})")
                self._log.unlink(missing_ok=True)
            self._process = self._start()
        except OSError as error:
            raise SpawnFailed(f"data_dir: {self._data_dir} cannot be used: {error.strerror}") from error

    def _start(self) -> subprocess.Popen[bytes]:
        program = program_of(self._binary)
        self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Under a name of its own until the server answers: one that ends as another was faster leaves the log of that one alone.
        log, name = tempfile.mkstemp(prefix=".server.log-", dir=self._data_dir)
        self._log = Path(name)
        socket, folder = self._data_dir / "contextstore.sock", None
        if not can_be_listened_on(socket):
            folder = tempfile.mkdtemp(prefix="contextstore-")
            socket = Path(folder, "contextstore.sock")
        command: list[str | os.PathLike[str]] = [program, "serve", "--data-dir", self._data_dir]
        command += ["--listen", f"unix:{socket}", *self._arguments]
        if not any(argument.startswith("--stop-when-idle") for argument in self._arguments):
            command += ["--stop-when-idle", _IDLE]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env,
                start_new_session=True,
            )
        except OSError as error:
            self._log.unlink(missing_ok=True)
            raise SpawnFailed(f"{program} cannot be run: {error.strerror}") from error
        finally:
            os.close(log)
        threading.Thread(
            target=_reap, args=(process, folder), name="contextstore-server", daemon=True
        ).start()
        return process

    def _keep_log(self, server: int | None) -> None:
        """Gives the log of the process that was started its name if that process is the server, and else removes it."""
        if self._process is None:
            return
        with contextlib.suppress(FileNotFoundError):
            if self._process.pid == server:
                self._log = self._log.rename(self._data_dir / "server.log")
            else:
                self._log.unlink()

    def _holder(self) -> int | None:
        """The process that holds the directory, by what it has written there."""
        try:
            return int((self._data_dir / "LOCK").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return None

    def _failed(self, problem: str) -> SpawnFailed:
        words = ""
        with contextlib.suppress(OSError):
            words = self._log.read_text("utf-8", "replace").strip()[-2000:]
        alive = self._process is not None and self._process.poll() is None
        self._keep_log(self._holder() if alive else None)
        return SpawnFailed(
            f"data_dir: {self._data_dir} cannot be used: {problem}; the end of its log: {words or 'it is empty'}",
            code=grpc.StatusCode.UNAVAILABLE,
        )


def _reap(process: subprocess.Popen[bytes], folder: str | None) -> None:
    process.wait()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


@shown
def connect_or_spawn(
    data_dir: str | os.PathLike[str],
    *,
    binary: str | os.PathLike[str] | None = None,
    arguments: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    start_timeout: float = 30.0,
    **options: Any,
) -> Client:
    """Connects to the server of a data directory, or starts one, for all programs that use the directory.

        with contextstore.connect_or_spawn("contexts") as client, client.task("7") as task:
            task.append({"role": "user", "content": "Hello"})

    The server goes on when this client is closed, and when this program ends; it stops by itself half a minute after the last
    client has gone. What it says is in `server.log` of the directory. `binary`, `arguments` and `env` are as for
    `spawn`, and only matter if a server is started; `options` are those of the client. SpawnFailed if no server answers within
    `start_timeout` seconds.
    """
    shared = _Shared(data_dir, binary, arguments, env, start_timeout)
    while True:
        for where in shared.candidates():
            client = Client(**where, **options)
            try:
                client.wait_until_ready(_PATIENCE)
                shared.found(client.server_info(timeout=_PATIENCE))
                return client
            except BaseException as error:
                client.close()
                # It may be starting, or have stopped just now.
                if not isinstance(error, (Unavailable, DeadlineExceeded)):
                    raise
        shared.go_on()


@shown
async def async_connect_or_spawn(
    data_dir: str | os.PathLike[str],
    *,
    binary: str | os.PathLike[str] | None = None,
    arguments: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    start_timeout: float = 30.0,
    **options: Any,
) -> AsyncClient:
    """The same as `connect_or_spawn`, for asyncio.

    async with await contextstore.async_connect_or_spawn("contexts") as client: ...
    """
    shared = _Shared(data_dir, binary, arguments, env, start_timeout)
    while True:
        for where in await asyncio.to_thread(shared.candidates):
            client = AsyncClient(**where, **options)
            try:
                await client.wait_until_ready(_PATIENCE)
                shared.found(await client.server_info(timeout=_PATIENCE))
                return client
            except BaseException as error:
                await client.close()
                if not isinstance(error, (Unavailable, DeadlineExceeded)):
                    raise
        await asyncio.to_thread(shared.go_on)
