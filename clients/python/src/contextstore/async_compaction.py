"""A compaction by the agent itself, for asyncio: it reads what is to be summarised, and summarises."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterable
from types import TracebackType
from typing import TYPE_CHECKING

from . import _compress
from ._calls import TaskCalls
from .errors import ContextStoreError
from .types import CompressResult, Record
from .v1 import context_store_pb2 as pb

if TYPE_CHECKING:
    from .async_client import AsyncClient


class AsyncCompaction(_compress.CompactionBase):
    """What an agent is to summarise. Made by `AsyncTask.begin_compaction`.

        async with await task.begin_compaction() as compaction:
            messages = [message async for message in compaction.messages()]
            await compaction.commit(await my_model(compaction.prompt, messages))

    Leaving the block without a commit gives it up.
    """

    def __init__(
        self,
        client: AsyncClient,
        calls: TaskCalls,
        begun: pb.BeginCompactionResponse.Begun,
        stream: AsyncGenerator[pb.BeginCompactionResponse, None],
    ) -> None:
        super().__init__(calls, begun)
        self._client = client
        self._stream = stream

    @classmethod
    async def _begin(
        cls,
        client: AsyncClient,
        calls: TaskCalls,
        stream: AsyncGenerator[pb.BeginCompactionResponse, None],
    ) -> AsyncCompaction:
        """Waits for what has to be known first."""
        first = await anext(stream, None)
        if first is None or not first.HasField("begun"):
            await stream.aclose()
            raise _compress.cut_off("before it told what to summarise")
        return cls(client, calls, first.begun, stream)

    async def __aenter__(self) -> AsyncCompaction:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # What went wrong in the block is what the caller has to hear.
        with contextlib.suppress(*((ContextStoreError,) if error else ())):
            await self.abort()

    async def messages(self) -> AsyncGenerator[Record, None]:
        """The messages that are to be summarised, one by one as they arrive; once."""
        rest = b""
        async for response in self._stream:
            whole, rest = _compress.lines(rest, response.data)
            for message in whole:
                yield message

    async def commit(
        self,
        summary: str,
        *,
        retain: str = "",
        keep_seqs: Iterable[int] = (),
        model: str = "",
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> CompressResult:
        """Puts the summary in the place of the messages.

        `retain` is to be kept word for word beside it, with the strategy `compact`; `keep_seqs` are messages that are
        to stay as they are. A summary that is empty, not smaller than the messages or without an output ref that it has
        to name raises SummaryRefused: another one may be committed.
        """
        call = _compress.commit(self._calls, self.token, summary, retain, keep_seqs, model, request_id)
        result = await self._client._run(call, timeout)
        self._open = False
        await self._stream.aclose()
        return result

    async def abort(self, *, timeout: float | None = None) -> None:
        """Gives it up, if it was not committed: nothing is changed, and other compressions may begin."""
        if self._open:
            self._open = False
            await self._stream.aclose()
            await self._client._run(_compress.abort(self._calls, self.token), timeout)
