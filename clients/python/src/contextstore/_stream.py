"""Appending without waiting, with threads: a stream of AppendMessages, and what opens another when one breaks."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import grpc

from ._pipeline import Ack, Pipeline, Tally, together
from .errors import ContextStoreError, DeadlineExceeded, Internal
from .types import Appended
from .v1 import context_store_pb2 as pb

if TYPE_CHECKING:
    from .client import Client


def ended_early() -> ContextStoreError:
    """The server ended the stream as if all were well, but has not answered everything."""
    return Internal(
        "the server closed the stream before it acknowledged everything", code=grpc.StatusCode.INTERNAL
    )


def no_answer(timeout: float) -> ContextStoreError:
    """The server took a message and said nothing."""
    return DeadlineExceeded(
        f"no acknowledgement within {timeout:g} s", code=grpc.StatusCode.DEADLINE_EXCEEDED
    )


def checked(answer: Ack | BaseException) -> Ack | ContextStoreError | grpc.RpcError:
    """What was collected; raises what is neither an answer nor an error of the call."""
    if isinstance(answer, BaseException) and not isinstance(answer, (ContextStoreError, grpc.RpcError)):
        raise answer
    return answer


class AppendStream:
    """A stream that is open; one thread feeds it, one collects its answers. `close` must be called."""

    def __init__(self, client: Client, pipeline: Pipeline) -> None:
        self._client = client
        self._alone = pipeline.alone
        self._tally = Tally()
        self._requests: queue.SimpleQueue[pb.AppendMessageRequest | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Ack | Exception] = queue.SimpleQueue()
        for request in pipeline:
            self._requests.put(request)
        self._call = client.stub.AppendMessages(self._feed(), timeout=client.stream_timeout)
        self._collector = threading.Thread(target=self._collect, name="contextstore-acks", daemon=True)
        self._collector.start()

    def send(self, request: pb.AppendMessageRequest) -> None:
        """Hands on a message; does not wait."""
        self._requests.put(request)

    def finish(self) -> None:
        """Nothing more will be sent."""
        self._requests.put(None)

    def answer(self, timeout: float | None) -> Ack | ContextStoreError | None:
        """The next answer, or why there is none. Without a timeout: None if none is here yet."""
        try:
            answer = checked(self._answers.get(block=timeout is not None, timeout=timeout))
        except queue.Empty:
            return None if timeout is None else no_answer(timeout)
        return self._client._failed(answer) if isinstance(answer, grpc.RpcError) else answer

    def close(self) -> None:
        """Ends the stream and its threads."""
        self._call.cancel()
        self.finish()
        self._collector.join()

    def _feed(self) -> Iterator[pb.AppendMessagesRequest]:
        held = None
        while (one := held or self._requests.get()) is not None:
            request, held = together(one, self._requests, self._alone)
            self._tally.sent(request)
            yield request

    def _collect(self) -> None:
        try:
            for response in self._call:
                for ack in self._tally.acks(response):
                    self._answers.put(ack)
            self._answers.put(ended_early())
        except Exception as error:
            self._answers.put(error)


class Appender:
    """Appends without waiting for each, in order; a stream that breaks is followed by another. `close` must be called."""

    def __init__(self, client: Client, timeout: float) -> None:
        self._client = client
        self._pipeline = Pipeline(timeout)
        self._stream: AppendStream | None = None

    def send(self, request: pb.AppendMessageRequest) -> Iterator[Appended]:
        """Sends a message; the acknowledgements that are here. Waits if too many are not."""
        if self._stream is None:
            self._stream = AppendStream(self._client, self._pipeline)
        self._pipeline.add(request)
        self._stream.send(request)
        return self._acks(self._stream)

    def finish(self) -> Iterator[Appended]:
        """Waits for all acknowledgements that are missing. Nothing can be sent after it."""
        if self._stream is None:
            return iter(())
        self._pipeline.finish()
        self._stream.finish()
        return self._acks(self._stream)

    def close(self) -> None:
        """Ends the stream, if there is one."""
        if self._stream is not None:
            self._stream.close()

    def _acks(self, stream: AppendStream) -> Iterator[Appended]:
        pipeline = self._pipeline
        while not pipeline.done and (answer := stream.answer(pipeline.wait)) is not None:
            if not isinstance(answer, ContextStoreError):
                yield pipeline.acknowledge(answer)
                continue
            self._client._pause(pipeline.pause_after(answer))
            stream.close()
            stream = self._stream = AppendStream(self._client, pipeline)
            if pipeline.finished:
                stream.finish()
