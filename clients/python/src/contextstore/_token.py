"""The token that calls over TCP carry. One in a file is read for every call: a server that starts makes a new one."""

from __future__ import annotations

import fcntl
import os
from abc import ABC, abstractmethod
from pathlib import Path

import grpc


class NoToken(grpc.RpcError):
    """A call was not made, as there was no token to send with it."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.status = code


class Token(ABC):
    """Where a token comes from."""

    @abstractmethod
    def get(self) -> str:
        """The token to send now; raises NoToken if there is none."""


class FixedToken(Token):
    """A token that never changes."""

    def __init__(self, text: str) -> None:
        if problem := _problem_of(text):
            raise ValueError(f"token: {problem}")
        self._text = text

    def get(self) -> str:
        """The token."""
        return self._text


class TokenFile(Token):
    """A file that holds the token, and must do so from the start."""

    def __init__(self, name: str, path: str | Path) -> None:
        self._name, self._path = name, Path(path)
        try:
            _read(self._path)
        except (OSError, ValueError) as error:
            raise ValueError(f"{name}: cannot read the token in {path}: {error}") from error

    def get(self) -> str:
        """What the file holds now."""
        try:
            return _read(self._path)
        except (OSError, ValueError) as error:
            message = f"{self._name}: cannot read the token in {self._path}: {error}"
            raise NoToken(grpc.StatusCode.UNAUTHENTICATED, message) from error


class DataDirToken(Token):
    """The token of a server on this machine. It is sent only while a server holds the lock of its data directory: when that
    is dead, somebody else may listen on its port."""

    def __init__(self, data_dir: str | Path) -> None:
        self._data_dir = Path(data_dir)

    def get(self) -> str:
        """The token of the server that runs now."""
        try:
            if not _is_locked(self._data_dir / "LOCK"):
                raise ValueError("it has no running server")
            return _read(self._data_dir / "token")
        except (OSError, ValueError) as error:
            message = f"the token of {self._data_dir} is not sent: {error}"
            raise NoToken(grpc.StatusCode.UNAVAILABLE, message) from error


def _read(path: Path) -> str:
    token = path.read_text("ascii").strip()
    if problem := _problem_of(token):
        raise ValueError(problem)
    return token


def _problem_of(token: str) -> str | None:
    if token and all("!" <= c <= "~" for c in token):
        return None
    return "it is not one word of visible ASCII characters; a line end at its end counts too"


def _is_locked(path: Path) -> bool:
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
