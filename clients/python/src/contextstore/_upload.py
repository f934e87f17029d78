"""What is sent of an output, as often as it has to be, whatever it was given as."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from copy import deepcopy
from typing import IO, TypeAlias, Union, cast

from ._values import well_formed
from .v1 import tool_outputs_pb2 as pb

_PIECE = 256 << 10
_KEPT = 8 << 20
"""What is kept of an iterator, so that it can be sent again."""

OutputContent: TypeAlias = Union[
    str, bytes, bytearray, memoryview, "os.PathLike[str]", IO[bytes], IO[str], Iterable[Union[bytes, str]]
]
"""An output of a tool: text, bytes, the path of a file, an open file, or pieces of it."""
AsyncOutputContent: TypeAlias = Union[OutputContent, AsyncIterable[Union[bytes, str]]]
"""The same, or pieces that come asynchronously."""


class Upload:
    """An output on its way. Made of pieces; those of what can be read only once are kept, up to 8 MiB."""

    def __init__(self, header: pb.PutToolOutputHeader, content: AsyncOutputContent) -> None:
        self._header = header
        self._content = content
        self._whole = _whole(content)
        self._start = _position(content)
        if hasattr(content, "read"):
            self._once = self._start is None
        else:
            self._once = isinstance(content, (Iterator, AsyncIterable))
        self._log = _Log()
        self._lock = threading.Lock()
        self._source: Iterator[bytes] | None = None
        self._async_lock: asyncio.Lock | None = None
        self._async_source: AsyncIterator[bytes] | None = None
        self._asked = 0
        self._try = 0
        """The newest try: one that was given up may still be at it, in a thread of its own."""
        self.error: BaseException | None = None
        """What the caller's own iterator or file raised."""

    @property
    def small(self) -> bool:
        """Whether it goes with the header."""
        return self._whole is not None and len(self._whole) <= _PIECE

    @property
    def repeatable(self) -> bool:
        """Whether all of it can be sent again."""
        return self.error is None and not (self._once and self._log.forgot)

    def check(self) -> None:
        """Raises what the caller's own iterator or file has raised."""
        if self.error is not None:
            raise self.error from None

    def ask_again(self) -> bool:
        """For an answer that was lost because something was being sent: whether to send it once more, and slowly."""
        self._asked += 1
        return self._asked <= 3

    def requests(self) -> Iterator[pb.PutToolOutputRequest]:
        """The header and the pieces, from the start."""
        self._try += 1
        yield self._first()
        if self.small:
            return
        try:
            for piece in self._again(self._try) if self._once else self._anew(self._try):
                yield pb.PutToolOutputRequest(data=piece)
        except _TakenOver:
            yield self._refused()
        except Exception as error:
            self.error = error
            yield self._refused()

    async def async_requests(self) -> AsyncIterator[pb.PutToolOutputRequest]:
        """The same, also of pieces that come asynchronously."""
        if not isinstance(self._content, AsyncIterable):
            for number, request in enumerate(self.requests()):
                yield request
                await self._listen(number)
            return
        self._try += 1
        yield self._first()
        await self._listen(0)
        try:
            async for piece in self._async_again(self._content, self._try):
                yield pb.PutToolOutputRequest(data=piece)
        except _TakenOver:
            yield self._refused()
        except Exception as error:
            self.error = error
            yield self._refused()

    async def _listen(self, number: int) -> None:
        """Waits behind the header, if an answer was lost: what is refused is refused for what stands there."""
        if number == 0 and self._asked:
            await asyncio.sleep(0.2 * self._asked)

    def _first(self) -> pb.PutToolOutputRequest:
        header = deepcopy(self._header)
        if self.small and self._whole is not None:
            header.content = self._whole
        return pb.PutToolOutputRequest(header=header)

    def _refused(self) -> pb.PutToolOutputRequest:
        """A second header, which the server refuses, and all before it: a call that is only cancelled may look to it as
        if it had come to its end."""
        return pb.PutToolOutputRequest(header=self._header)

    def _anew(self, mine: int) -> Iterator[bytes]:
        """What is read from the start; a file has one place at which it is read."""
        source = self._pieces()
        while True:
            with self._lock:
                self._check(mine)
                piece = next(source, None)
            if piece is None:
                return
            yield piece

    def _again(self, mine: int) -> Iterator[bytes]:
        """What was read before, then the rest."""
        at = 0
        while True:
            with self._lock:
                self._check(mine)
                if at == len(self._log):
                    self._source = self._source or self._pieces()
                    piece = next(self._source, None)
                    if piece is None:
                        return
                    self._log.append(piece, needed=self._try != mine)
                else:
                    piece = self._log[at]
            yield piece
            at += 1

    async def _async_again(self, content: AsyncIterable[bytes | str], mine: int) -> AsyncIterator[bytes]:
        self._async_lock = self._async_lock or asyncio.Lock()
        at = 0
        while True:
            async with self._async_lock:
                self._check(mine)
                if at == len(self._log):
                    self._async_source = self._async_source or _gathered(content)
                    piece = await anext(self._async_source, None)
                    if piece is None:
                        return
                    self._log.append(piece, needed=self._try != mine)
                else:
                    piece = self._log[at]
            yield piece
            at += 1

    def _check(self, mine: int) -> None:
        """Ends a try that was given up: it reads no more once the next one has begun."""
        if self._try != mine:
            raise _TakenOver

    def _pieces(self) -> Iterator[bytes]:
        gather = _Gather()
        for part in self._parts():
            yield from gather.take(part)
        yield from gather.rest()

    def _parts(self) -> Iterator[bytes | str]:
        content = self._content
        if self._whole is not None:
            yield self._whole
        elif isinstance(content, os.PathLike):
            with open(content, "rb") as file:
                yield from iter(lambda: file.read(_PIECE), b"")
        elif hasattr(content, "read"):
            opened = cast("IO[bytes] | IO[str]", content)
            if self._start is not None:
                opened.seek(self._start)
            while (part := cast("bytes | str | None", opened.read(_PIECE))) is not None:
                if not part:
                    return
                yield part
            raise BlockingIOError("content: the file does not block, and has no more bytes now")
        else:
            yield from cast("Iterable[bytes | str]", content)


class _TakenOver(Exception):
    """Another try reads the content now."""


class _Log:
    """Pieces that were read, for as long as they are few."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._bytes = 0
        self.forgot = False

    def __len__(self) -> int:
        return len(self._pieces)

    def __getitem__(self, at: int) -> bytes:
        return self._pieces[at]

    def append(self, piece: bytes, *, needed: bool) -> None:
        """Keeps a piece; one that another try has still to send is kept in any case."""
        self._pieces.append(piece)
        self._bytes += len(piece)
        if self._bytes > _KEPT and not needed:
            self.forgot = True
            self._pieces[-1] = b""
            if len(self._pieces) > 1 and self._pieces[0]:
                self._pieces = [b""] * len(self._pieces)


class _Gather:
    """Makes pieces of a good size out of parts of any size."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self._size = 0

    def take(self, part: bytes | str) -> Iterator[bytes]:
        """The pieces that are full."""
        data = well_formed(part).encode() if isinstance(part, str) else bytes(part)
        self._waiting.append(data)
        self._size += len(data)
        if self._size >= _PIECE:
            joined = b"".join(self._waiting)
            full = len(joined) - len(joined) % _PIECE
            self._waiting, self._size = [joined[full:]], len(joined) - full
            for at in range(0, full, _PIECE):
                yield joined[at : at + _PIECE]

    def rest(self) -> Iterator[bytes]:
        """What is left at the end."""
        if self._size:
            yield b"".join(self._waiting)


async def _gathered(parts: AsyncIterable[bytes | str]) -> AsyncIterator[bytes]:
    gather = _Gather()
    async for part in parts:
        for piece in gather.take(part):
            yield piece
    for piece in gather.rest():
        yield piece


def _whole(content: AsyncOutputContent) -> bytes | None:
    """The content, if it is here already."""
    if isinstance(content, str):
        return well_formed(content).encode()
    if isinstance(content, (bytes, bytearray, memoryview)):
        return bytes(content)
    if isinstance(content, Mapping) or not (
        isinstance(content, (os.PathLike, Iterable, AsyncIterable)) or hasattr(content, "read")
    ):
        raise TypeError(f"content: text, bytes, a file or pieces of it, not {type(content).__name__}")
    return None


def _position(content: AsyncOutputContent) -> int | None:
    """Where an open file stands, if it can be taken back there."""
    try:
        file = cast("IO[bytes]", content)
        return file.tell() if hasattr(file, "read") and file.seekable() else None
    except (AttributeError, OSError):
        return None
