"""The Python client of this repository, and what bounds it: calls that do nothing, and grpcio by itself."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import grpc
import orjson
from contextstore import Client
from measure import MESSAGE, at_once, rate, repeat


def cells(address: str) -> tuple[dict[str, Callable[..., dict[str, Any]]], Callable[[], None]]:
    """The cells by name, and what ends them."""
    client = Client(address)
    tasks = {
        word: client.start_task(user="bench", config={"durability": word}) for word in ("group", "process")
    }

    def append(durability: str, callers: int, seconds: float) -> dict[str, Any]:
        # A Task is for one thread at a time.
        handles = [copy.copy(tasks[durability]) for _ in range(callers)]
        if callers == 1:
            return repeat(partial(handles[0].append, MESSAGE), seconds)
        return at_once([partial(handle.append, MESSAGE) for handle in handles], seconds)

    def pipelined(durability: str, seconds: float) -> dict[str, Any]:
        began = time.perf_counter()
        acks = sum(1 for _ in tasks[durability].append_many(_for(seconds)))
        return rate(acks, time.perf_counter() - began, [])

    def stream(task_uuid: str) -> dict[str, Any]:
        task = client.task(task_uuid)
        return _bytes_of(task.current())

    def context(task_uuid: str, seconds: float) -> dict[str, Any]:
        task = client.task(task_uuid)
        return repeat(lambda: list(task.current_messages()), seconds)

    return {
        "no-op": lambda seconds: repeat(client.server_info, seconds),
        "no-op, bare": lambda seconds: repeat(partial(client._health, b""), seconds),
        "append": append,
        "pipelined": pipelined,
        "stream": stream,
        "ceiling": _ceiling,
        "floor": _floor,
        "context": context,
        "file": _file,
        "cpu": lambda: {"seconds": time.process_time()},
    }, client.close


def _for(seconds: float) -> Iterator[dict[str, str]]:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        yield MESSAGE


def _bytes_of(chunks: Iterator[bytes]) -> dict[str, Any]:
    began = time.perf_counter()
    count = sum(map(len, chunks))
    seconds = time.perf_counter() - began
    return {"per_second": count / seconds / 1e6, "p50": None, "bytes": count}


def _ceiling(address: str) -> dict[str, Any]:
    """The same bytes in the same pieces from a server that reads and encodes nothing, and nothing is decoded."""
    with grpc.insecure_channel(address, options=[("grpc.default_authority", "localhost")]) as channel:
        grpc.channel_ready_future(channel).result(timeout=10)
        return _bytes_of(channel.unary_stream("/bench.Replay/Replay")(b""))


def _floor(address: str, method: str, seconds: float) -> dict[str, Any]:
    """One call after the other to a server that does next to nothing, with nothing of ours around it."""
    with grpc.insecure_channel(address, options=[("grpc.default_authority", "localhost")]) as channel:
        grpc.channel_ready_future(channel).result(timeout=10)
        call = channel.unary_unary(f"/bench.Floor/{method}")
        return repeat(partial(call, b"x" * 1200 if method == "Sync" else b""), seconds)


def _file(path: str, seconds: float) -> dict[str, Any]:
    """A context in a file of one's own: read and parsed with the fastest parser there is."""

    def read() -> list[Any]:
        with open(path, "rb") as file:
            return [orjson.loads(line) for line in file.read().splitlines()]

    with open(path, "rb") as file:
        assert read() == [json.loads(line) for line in file]
    return repeat(read, seconds)
