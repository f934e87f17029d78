"""Appending without waiting, on an event loop: a stream of AppendMessages, and what opens another when one breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import grpc

from ._calls import append_alone
from ._pipeline import Ack, Pipeline, Tally, together
from ._stream import checked, ended_early, no_answer
from .errors import Cancelled, ContextStoreError
from .types import Appended
from .v1 import context_store_pb2 as pb

if TYPE_CHECKING:
    from .async_client import AsyncClient


def lost_status(error: ContextStoreError) -> bool:
    """Whether a stream ended for a reason that nobody knows.

    grpcio replaces the server's status by INTERNAL if the stream ends while it is being written to
    (https://github.com/grpc/grpc/issues/36066). The server's own errors have a reason.
    """
    return error.code is grpc.StatusCode.INTERNAL and not error.reason and error.__cause__ is not None


class AsyncAppendStream:
    """A stream that is open. `close` must be called."""

    def __init__(self, client: AsyncClient, pipeline: Pipeline) -> None:
        self._client = client
        self._alone = pipeline.alone
        self._tally = Tally()
        self._requests: asyncio.Queue[pb.AppendMessageRequest | None] = asyncio.Queue()
        self._answers: asyncio.Queue[Ack | Exception] = asyncio.Queue()
        for request in pipeline:
            self._requests.put_nowait(request)
        self._call = client.stub.AppendMessages(self._feed(), timeout=client.stream_timeout)
        self._collector = asyncio.create_task(self._collect())

    def send(self, request: pb.AppendMessageRequest) -> None:
        """Hands on a message; does not wait."""
        self._requests.put_nowait(request)

    def finish(self) -> None:
        """Nothing more will be sent."""
        self._requests.put_nowait(None)

    async def answer(self, timeout: float | None) -> Ack | ContextStoreError | None:
        """The next answer, or why there is none. Without a timeout: None if none is here yet."""
        if timeout is None and self._answers.empty():
            return None
        try:
            if self._answers.empty():
                answer = checked(await asyncio.wait_for(self._answers.get(), timeout))
            else:
                answer = checked(self._answers.get_nowait())
        except asyncio.TimeoutError:
            return no_answer(timeout or 0.0)
        return await self._client._failed(answer) if isinstance(answer, grpc.RpcError) else answer

    async def close(self) -> None:
        """Ends the stream and its task."""
        self._call.cancel()
        self._collector.cancel()
        # Its cancellation is none of ours: that of the caller is not lost.
        await asyncio.gather(self._collector, return_exceptions=True)

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


class AsyncAppender:
    """Appends without waiting for each, in order; a stream that breaks is followed by another. `close` must be called."""

    def __init__(self, client: AsyncClient, timeout: float) -> None:
        self._client = client
        self._pipeline = Pipeline(timeout)
        self._stream: AsyncAppendStream | None = None

    def send(self, request: pb.AppendMessageRequest) -> AsyncIterator[Appended]:
        """Sends a message; the acknowledgements that are here. Waits if too many are not."""
        if self._stream is None:
            self._stream = AsyncAppendStream(self._client, self._pipeline)
        self._pipeline.add(request)
        self._stream.send(request)
        return self._acks(self._stream)

    def finish(self) -> AsyncIterator[Appended]:
        """Waits for all acknowledgements that are missing. Nothing can be sent after it."""
        self._pipeline.finish()
        if self._stream is not None:
            self._stream.finish()
        return self._acks(self._stream)

    async def close(self) -> None:
        """Ends the stream, if there is one."""
        if self._stream is not None:
            await self._stream.close()

    async def _acks(self, stream: AsyncAppendStream | None) -> AsyncIterator[Appended]:
        pipeline = self._pipeline
        while stream and not pipeline.done and (answer := await stream.answer(pipeline.wait)) is not None:
            if not isinstance(answer, ContextStoreError):
                yield pipeline.acknowledge(answer)
                continue
            if lost_status(answer) and (oldest := pipeline.oldest) is not None:
                # What the stream ended with, this one is answered with.
                try:
                    response = await self._client._run(append_alone(oldest), None)
                except ContextStoreError as error:
                    raise pipeline.ended(error) from error.__cause__
                yield pipeline.acknowledge(response)
            else:
                await asyncio.sleep(pipeline.pause_after(answer))
            await stream.close()
            stream = self._stream = AsyncAppendStream(self._client, pipeline)
            if pipeline.finished:
                stream.finish()
