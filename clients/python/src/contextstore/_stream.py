"""One stream of AppendMessages with threads: one feeds it, one collects its answers. Knows nothing of retries."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import grpc

from ._pipeline import Ack, Pipeline, Tally, together
from .errors import ContextStoreError, DeadlineExceeded, Internal, from_rpc_error
from .v1 import context_store_pb2 as pb
from .v1.context_store_pb2_grpc import ContextStoreStub


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


def checked(answer: Ack | BaseException) -> Ack | ContextStoreError:
    """What was collected; raises what is neither an answer nor an error of the call."""
    if isinstance(answer, grpc.RpcError):
        return from_rpc_error(answer)
    if isinstance(answer, BaseException) and not isinstance(answer, ContextStoreError):
        raise answer
    return answer


class AppendStream:
    """A stream that is open. `close` must be called."""

    def __init__(self, stub: ContextStoreStub, pipeline: Pipeline, deadline: float) -> None:
        self._alone = pipeline.alone
        self._tally = Tally()
        self._requests: queue.SimpleQueue[pb.AppendMessageRequest | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Ack | Exception] = queue.SimpleQueue()
        for request in pipeline:
            self._requests.put(request)
        self._call = stub.AppendMessages(self._feed(), timeout=deadline)
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
            return checked(self._answers.get(block=timeout is not None, timeout=timeout))
        except queue.Empty:
            return None if timeout is None else no_answer(timeout)

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
