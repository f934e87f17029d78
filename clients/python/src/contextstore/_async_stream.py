"""One stream of AppendMessages on an event loop. Knows nothing of retries."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import grpc

from ._pipeline import Ack, Pipeline, Tally, together
from ._stream import checked, ended_early, no_answer
from .errors import Cancelled, ContextStoreError
from .v1 import context_store_pb2 as pb

if TYPE_CHECKING:
    from .v1.context_store_pb2_grpc import ContextStoreAsyncStub


def lost_status(error: ContextStoreError) -> bool:
    """Whether a stream ended for a reason that nobody knows.

    grpcio replaces the server's status by INTERNAL if the stream ends while it is being written to
    (https://github.com/grpc/grpc/issues/36066). The server's own errors have a reason.
    """
    return error.code is grpc.StatusCode.INTERNAL and not error.reason and error.__cause__ is not None


class AsyncAppendStream:
    """A stream that is open. `close` must be called."""

    def __init__(self, stub: ContextStoreAsyncStub, pipeline: Pipeline, deadline: float) -> None:
        self._alone = pipeline.alone
        self._tally = Tally()
        self._requests: asyncio.Queue[pb.AppendMessageRequest | None] = asyncio.Queue()
        self._answers: asyncio.Queue[Ack | Exception] = asyncio.Queue()
        for request in pipeline:
            self._requests.put_nowait(request)
        self._call = stub.AppendMessages(self._feed(), timeout=deadline)
        self._collector = asyncio.create_task(self._collect())

    def send(self, request: pb.AppendMessageRequest) -> None:
        """Hands on a message; does not wait."""
        self._requests.put_nowait(request)

    def finish(self) -> None:
        """Nothing more will be sent."""
        self._requests.put_nowait(None)

    async def answer(self, timeout: float | None) -> Ack | ContextStoreError | None:
        """The next answer, or why there is none. Without a timeout: None if none is here yet."""
        if timeout is None:
            return None if self._answers.empty() else checked(self._answers.get_nowait())
        try:
            return checked(await asyncio.wait_for(self._answers.get(), timeout))
        except asyncio.TimeoutError:
            return no_answer(timeout)

    async def close(self) -> None:
        """Ends the stream and its task."""
        self._call.cancel()
        self._collector.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._collector

    async def _feed(self) -> AsyncIterator[pb.AppendMessagesRequest]:
        held = None
        while (one := held or await self._requests.get()) is not None:
            request, held = together(one, self._requests, self._alone)
            self._tally.sent(request)
            yield request

    async def _collect(self) -> None:
        try:
            async for response in self._call:
                for ack in self._tally.acks(response):
                    self._answers.put_nowait(ack)
            self._answers.put_nowait(ended_early())
        except asyncio.CancelledError:
            # The client was closed; or this stream was, and nobody asks.
            self._answers.put_nowait(Cancelled("the call was cancelled", code=grpc.StatusCode.CANCELLED))
            raise
        except Exception as error:
            self._answers.put_nowait(error)
