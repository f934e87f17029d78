"""What is read in pieces: the view, the body of a request, an output of a tool; for threads and for asyncio."""

from __future__ import annotations

import io
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ._cursors import LinesOfView
from .types import Record

if TYPE_CHECKING:
    from typing_extensions import Self


class ByteStream(Iterator[bytes]):
    """Bytes as they arrive: an iterator of chunks that can also be read like a file. Read once, from start to end.

    for chunk in stream: ...          # as they come
    stream.read(100), stream.read()   # so many, or all
    stream.file().readline()          # as a file of the standard library
    """

    def __init__(self, chunks: Generator[bytes, None, None]) -> None:
        self._chunks = chunks
        self._rest = b""

    def __next__(self) -> bytes:
        if self._rest:
            chunk, self._rest = self._rest, b""
            return chunk
        return next(self._chunks)

    def read(self, size: int = -1, /) -> bytes:
        """The next `size` bytes, fewer only at the end; without a size, all that are left."""
        parts: list[bytes] = []
        while size != 0:
            chunk = next(self, b"")
            if not chunk:
                break
            if 0 < size < len(chunk):
                chunk, self._rest = chunk[:size], chunk[size:]
            parts.append(chunk)
            size -= len(chunk) if size > 0 else 0
        return b"".join(parts)

    def file(self) -> io.BufferedReader:
        """The same as a binary file, for what wants one."""
        return io.BufferedReader(_RawStream(self))

    def close(self) -> None:
        """Reads no more; a call that is under way is cancelled."""
        self._rest = b""
        self._chunks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Current(ByteStream):
    """What the model sees, as bytes of JSON lines; see `Task.current`.

    for chunk in task.current(): ...                # bytes to send on as they are
    for message in task.current().messages(): ...   # one message at a time
    messages = task.current().to_list()             # all at once
    """

    def messages(self) -> Generator[Record, None, None]:
        """OpenAI chat messages, one by one."""
        lines = LinesOfView()
        for chunk in self:
            yield from lines.take(chunk)

    def to_list(self) -> list[Record]:
        """All messages at once."""
        return list(self.messages())


class OutputStream(ByteStream):
    """Lines or bytes of an output of a tool; see `Outputs.read`.

    print(task.output.read(ref, limit=100).text())
    """

    def text(self) -> str:
        """All that is left, as text; what is not UTF-8 is shown as U+FFFD."""
        return self.read().decode("utf-8", "replace")

    def lines(self) -> Iterator[str]:
        """Line by line, without their ends."""
        with self.file() as file:
            for line in file:
                yield line.decode("utf-8", "replace").removesuffix("\n")


class RequestBody:
    """The body of a request to a provider, streamed from the server's disk each time it is iterated over.

        httpx.post(url, headers=headers, content=task.request_body("openai", model="gpt-5"))

    An HTTP client that has to send it again (a redirect, a retry) gets it anew.
    """

    def __init__(self, make: Callable[[], Generator[bytes, None, None]]) -> None:
        self._make = make

    def __iter__(self) -> Generator[bytes, None, None]:
        return self._make()

    def to_bytes(self) -> bytes:
        """The whole body at once."""
        return b"".join(self)


class _RawStream(io.RawIOBase):
    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        chunk = next(self._stream, b"")
        fits = len(memoryview(buffer))
        chunk, self._stream._rest = chunk[:fits], chunk[fits:]
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


class AsyncByteStream(AsyncIterator[bytes]):
    """Bytes as they arrive, for asyncio; see ByteStream.

    async for chunk in stream: ...
    await stream.read(100), await stream.read()
    """

    def __init__(self, chunks: AsyncGenerator[bytes, None]) -> None:
        self._chunks = chunks
        self._rest = b""

    async def __anext__(self) -> bytes:
        if self._rest:
            chunk, self._rest = self._rest, b""
            return chunk
        return await anext(self._chunks)

    async def read(self, size: int = -1, /) -> bytes:
        """The next `size` bytes, fewer only at the end; without a size, all that are left."""
        parts: list[bytes] = []
        while size != 0:
            chunk = await anext(self, b"")
            if not chunk:
                break
            if 0 < size < len(chunk):
                chunk, self._rest = chunk[:size], chunk[size:]
            parts.append(chunk)
            size -= len(chunk) if size > 0 else 0
        return b"".join(parts)

    async def aclose(self) -> None:
        """Reads no more; a call that is under way is cancelled."""
        self._rest = b""
        await self._chunks.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class AsyncCurrent(AsyncByteStream):
    """What the model sees, for asyncio; see Current.

    async for message in task.current().messages(): ...
    """

    async def messages(self) -> AsyncGenerator[Record, None]:
        """OpenAI chat messages, one by one."""
        lines = LinesOfView()
        async for chunk in self:
            for message in lines.take(chunk):
                yield message

    async def to_list(self) -> list[Record]:
        """All messages at once."""
        return [message async for message in self.messages()]


class AsyncOutputStream(AsyncByteStream):
    """Lines or bytes of an output of a tool, for asyncio; see OutputStream.

    print(await task.output.read(ref, limit=100).text())
    """

    async def text(self) -> str:
        """All that is left, as text; what is not UTF-8 is shown as U+FFFD."""
        return (await self.read()).decode("utf-8", "replace")

    async def lines(self) -> AsyncGenerator[str, None]:
        """Line by line, without their ends."""
        rest = b""
        async for chunk in self:
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield line.decode("utf-8", "replace")
        if rest:
            yield rest.decode("utf-8", "replace")


class AsyncRequestBody:
    """The body of a request to a provider, for asyncio; see RequestBody.

    await http.post(url, headers=headers, content=task.request_body("openai", model="gpt-5"))
    """

    def __init__(self, make: Callable[[], AsyncGenerator[bytes, None]]) -> None:
        self._make = make

    def __aiter__(self) -> AsyncGenerator[bytes, None]:
        return self._make()

    async def to_bytes(self) -> bytes:
        """The whole body at once."""
        return b"".join([chunk async for chunk in self])
