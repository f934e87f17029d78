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

    def __init__(self, name: str, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"{name}: must be a str, not {type(text).__name__}")
        try:
            self._text = _checked(text)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def get(self) -> str:
        """The token."""
        return self._text


class TokenFile(Token):
    """A file that holds the token, and must do so from the start."""

    def __init__(self, name: str, path: str | Path) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"{name}: must be a path, not {type(path).__name__}")
        self._name, self._path = name, Path(path)
        try:
            _read(self._path)
        except (OSError, ValueError) as error:
            raise ValueError(f"{name}: cannot read the token in {path}: {error}") from None

    def get(self) -> str:
        """What the file holds now."""
        try:
            return _read(self._path)
        except (OSError, ValueError) as error:
            message = f"{self._name}: cannot read the token in {self._path}: {error}"
            raise NoToken(grpc.StatusCode.UNAUTHENTICATED, message) from error


class DataDirToken(Token):
    """The token of a server on this machine. It is sent only while a server holds the lock of its data directory, and only to
    an address that this server has written down there: somebody else may listen on the port of one that has ended."""

    def __init__(self, data_dir: str | Path, address: str = "") -> None:
        self._data_dir, self._address = Path(data_dir), address

    def sent_to(self, address: str) -> DataDirToken:
        """The same token, for one address."""
        return DataDirToken(self._data_dir, address)

    def get(self) -> str:
        """The token of the server that runs now."""
        try:
            if not is_locked(self._data_dir):
                raise ValueError("it has no running server")
            if self._address not in (noted := self._noted()):
                where = f"but at {', '.join(noted)}" if noted else "nor anywhere else yet"
                raise ValueError(f"its server does not listen at {self._address}, {where}")
            return _read(self._data_dir / "token")
        except (OSError, ValueError) as error:
            message = f"the token of {self._data_dir} is not sent: {error}"
            raise NoToken(grpc.StatusCode.UNAVAILABLE, message) from error

    def _noted(self) -> list[str]:
        try:
            lines = (self._data_dir / "addresses").read_text("utf-8", "replace").split("\n")
        except FileNotFoundError:
            return []
        return [line for line in lines if line]


def _read(path: Path) -> str:
    return _checked(path.read_bytes().decode("ascii"))


def _checked(text: str) -> str:
    """The token in a text that may end with a line break, as files do."""
    token = text.removesuffix("\r\n" if text.endswith("\r\n") else "\n")
    if token and all("!" <= c <= "~" for c in token):
        return token
    raise ValueError("a token is one word of visible ASCII characters, and at most a line break behind it")


def is_locked(data_dir: Path) -> bool:
    """Whether a server holds a data directory."""
    try:
        lock = os.open(data_dir / "LOCK", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
