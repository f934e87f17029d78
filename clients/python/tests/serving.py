"""Runs the real server for tests: a process on a directory of its own that can be killed and started again."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from contextstore import Client, Unavailable

REPOSITORY = Path(__file__).resolve().parents[3]
BINARY = Path(os.environ.get("CONTEXTSTORE_BIN") or REPOSITORY / "target/debug/contextstore").absolute()
"""The other programs that the tests run are built beside it."""
LONG = os.environ.get("CONTEXTSTORE_TEST_LONG") == "1"
"""Whether tests are to be as long as they are in `make test-long`."""
DEADLINE = 60.0
"""Seconds after which a test gives up on what it waits for; on an idle machine it is there in milliseconds."""
# Those are for the server too, and are not meant for this one.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXTSTORE_")}


def eventually(condition: Callable[[], bool]) -> None:
    """Waits until it holds."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it does not hold in time"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended may still wait for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def stopped(pid: int) -> bool:
    """Whether every thread of a process is stopped."""
    states = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            states.append((thread / "stat").read_text().rpartition(")")[2].split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return bool(states) and set(states) == {"T"}


def free_port() -> int:
    """A port that nobody listens on now; a server that is started again must get the same.

    It is below those that the system gives to connections: one of those could be taken by another test before the
    server has it, or by a client that tries to reach the server while it is away, and then reaches itself.
    """
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Server:
    """`contextstore serve`, on a Unix socket and on TCP."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = {**ENVIRONMENT, **(environment or {})}
        # Not pytest's own directory: the path of a socket must be short.
        self._directory = Path(tempfile.mkdtemp(prefix="contextstore-py-"))
        self._log = self._directory / "server.log"
        self.data_dir = self._directory / "data"
        self.unix = f"unix:{self.data_dir}/contextstore.sock"
        self.tcp = f"tcp:127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def token(self) -> str:
        """What TCP asks for."""
        return (self.data_dir / "token").read_text().strip()

    def start(self) -> None:
        """Starts it and waits until it takes calls."""
        self.start_without_waiting()
        assert self._process is not None
        deadline = time.monotonic() + DEADLINE
        with Client(self.unix) as client:
            while True:
                try:
                    return client.wait_until_ready(timeout=1)
                except Unavailable:
                    if self._process.poll() is not None or time.monotonic() > deadline:
                        said = self._log.read_text()
                        self.remove()
                        raise AssertionError(f"the server did not start: {said}") from None

    def start_without_waiting(self) -> None:
        """Starts it."""
        assert self._process is None
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [BINARY, "serve", "--data-dir", self.data_dir, "--listen", self.unix, "--listen", self.tcp],
                stdout=log,
                stderr=log,
                env=self._environment,
            )

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It takes and answers nothing meanwhile, as if it had no processor."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        # On a busy machine some threads may go on for a while.
        eventually(lambda: self._process is not None and stopped(self._process.pid))
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends it as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def stop(self) -> int:
        """Ends it in order; answers its exit code."""
        assert self._process is not None
        self._process.terminate()
        code = self._process.wait(timeout=DEADLINE)
        self._process = None
        return code

    def remove(self) -> None:
        """Ends it and removes its files."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self._directory)

    def client_args(self, transport: str) -> tuple[str, Path | None]:
        """Address and token file for a client."""
        return (self.unix, None) if transport == "unix" else (self.tcp, self.data_dir / "token")
