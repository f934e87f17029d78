# Made from async_compaction.py by unasync.py: change that module, then run `make gen-sync`.
"""A compaction by the agent itself, for threads: it reads what is to be summarised, and summarises."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable
from types import TracebackType
from typing import TYPE_CHECKING

from . import _compress
from ._calls import TaskCalls
from .errors import ContextStoreError
from .types import CompressResult, Record
from .v1 import context_store_pb2 as pb

if TYPE_CHECKING:
    from .client import Client


class Compaction(_compress.CompactionBase):
    """What an agent is to summarise. Made by `Task.begin_compaction`.

        with task.begin_compaction() as compaction:
            compaction.commit(my_model(compaction.prompt, compaction.messages()))

    Leaving the block without a commit gives it up.
    """

    def __init__(
        self,
        client: Client,
        calls: TaskCalls,
        begun: pb.BeginCompactionResponse.Begun,
        stream: Generator[pb.BeginCompactionResponse, None, None],
    ) -> None:
        super().__init__(calls, begun)
        self._client = client
        self._stream = stream

    @classmethod
    def _begin(
        cls,
        client: Client,
        calls: TaskCalls,
        stream: Generator[pb.BeginCompactionResponse, None, None],
    ) -> Compaction:
        """Waits for what has to be known first."""
        first = next(stream, None)
        if first is None or not first.HasField("begun"):
            stream.close()
            raise _compress.cut_off("before it told what to summarise")
        return cls(client, calls, first.begun, stream)

    def __enter__(self) -> Compaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # What went wrong in the block is what the caller has to hear.
        with contextlib.suppress(*((ContextStoreError,) if error else ())):
            self.abort()

    def messages(self) -> Generator[Record, None, None]:
        """The messages that are to be summarised, one by one as they arrive; once."""
        rest = b""
        for response in self._stream:
            whole, rest = _compress.lines(rest, response.data)
            yield from whole

    def commit(
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
        result = self._client._run(call, timeout)
        self._open = False
        self._stream.close()
        return result

    def abort(self, *, timeout: float | None = None) -> None:
        """Gives it up, if it was not committed: nothing is changed, and other compressions may begin."""
        if self._open:
            self._open = False
            self._stream.close()
            self._client._run(_compress.abort(self._calls, self.token), timeout)
