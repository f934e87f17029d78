"""What is sent and read of outputs when the server fails in a way that the test chooses."""

from __future__ import annotations

import asyncio
import io
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from test_retries import UNAVAILABLE, Scripted
from wire import error_info, status

from contextstore import AsyncClient, Client, errors, short_name, tools
from contextstore._outputs import OutputCursor
from contextstore.v1 import tool_outputs_pb2 as pb
from contextstore.v1.context_store_pb2_grpc import add_ContextStoreServicer_to_server
from contextstore.v1.tool_outputs_pb2_grpc import ToolOutputsServicer, add_ToolOutputsServicer_to_server

pytestmark = pytest.mark.quick
LARGE = bytes(range(256)) * 4000
HUGE = LARGE * 10


class Outputs(ToolOutputsServicer):
    """Takes what it is sent; fails as it is told in the middle of it."""

    def __init__(self) -> None:
        self.failures: list[tuple[grpc.StatusCode, bytes]] = []
        self.headers: list[pb.PutToolOutputHeader] = []
        self.content = b""
        self.kept = b""
        self.late = False

    def _fail(self, context: Any) -> None:
        if self.failures:
            code, details = self.failures.pop(0)
            context.set_trailing_metadata((("grpc-status-details-bin", details),))
            context.abort(code, "as the script says")

    def PutToolOutput(self, request_iterator: Any, context: Any) -> Any:
        header = next(request_iterator).header
        self.headers.append(header)
        parts = [header.content]
        for number, request in enumerate(request_iterator):
            if request.HasField("header"):
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a second header")
            parts.append(request.data)
            if number == 1 and not self.late:
                self._fail(context)
        self._fail(context)
        self.content = b"".join(parts)
        response = pb.PutToolOutputResponse(view=f"{len(self.content)} bytes", seq=7 if header.append else 0)
        response.ref.id = "out-1"
        response.masked.add(rule="openai_key", count=2)
        return response

    def ReadToolOutput(self, request: Any, context: Any) -> Any:
        lines = [f"{n:6}\tline {n}\n".encode() for n in range(1, 101)]
        end = request.offset + request.limit if request.limit else len(lines)
        data = self.kept[request.offset :] if request.raw else b"".join(lines[request.offset : end])
        for at in range(0, len(data), 100):
            yield pb.ReadToolOutputResponse(data=data[at : at + 100])
            if at == 500:
                self._fail(context)

    def GrepToolOutput(self, request: Any, context: Any) -> Any:
        if request.pattern == "(":
            self.failures = [
                (grpc.StatusCode.INVALID_ARGUMENT, status(error_info("ERROR_REASON_INVALID_FIELD", {})))
            ]
        self._fail(context)
        for number in range(3):
            line = pb.GrepLine(
                ref_id=request.ref_id or f"out-{number}",
                line_number=number,
                text=request.pattern,
                is_match=number != 1,
                gap_before=number == 2,
            )
            yield pb.GrepToolOutputResponse(lines=[line])
        yield pb.GrepToolOutputResponse(matches=2)

    def StatToolOutput(self, request: Any, context: Any) -> Any:
        self._fail(context)
        return pb.StatToolOutputResponse(
            output=pb.ToolOutput(ref=pb.ToolOutputRef(id="out-1", line_count=100))
        )

    def ListToolOutputs(self, request: Any, context: Any) -> Any:
        number = int(request.page_token or 0)
        output = pb.ToolOutput(ref=pb.ToolOutputRef(id=f"out-{number}"))
        return pb.ListToolOutputsResponse(
            outputs=[output], next_page_token=str(number + 1) if number < 2 else ""
        )


@contextmanager
def serve() -> Iterator[tuple[Outputs, str]]:
    outputs = Outputs()  # type: ignore[abstract]  # The other methods answer UNIMPLEMENTED.
    server = grpc.server(futures.ThreadPoolExecutor(4))
    add_ToolOutputsServicer_to_server(outputs, server)
    add_ContextStoreServicer_to_server(Scripted(), server)  # type: ignore[abstract]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield outputs, f"tcp:127.0.0.1:{port}"
    server.stop(0).wait()


def pieces(of: bytes, size: int = 100_000) -> Iterator[bytes]:
    return (of[at : at + size] for at in range(0, len(of), size))


async def async_pieces(of: bytes) -> AsyncIterator[bytes]:
    for piece in pieces(of):
        await asyncio.sleep(0)
        yield piece


class Pipe(io.RawIOBase):
    """A file that cannot be read twice."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def readinto(self, buffer: Any, /) -> int:
        return self._data.readinto(buffer)


FORMS: dict[str, Callable[[Path], Any]] = {
    "bytes": lambda folder: LARGE,
    "bytearray": lambda folder: bytearray(LARGE),
    "text": lambda folder: LARGE.decode("latin-1"),
    "path": lambda folder: folder / "large",
    "file": lambda folder: io.BytesIO(LARGE),
    "pipe": lambda folder: Pipe(LARGE),
    "list": lambda folder: list(pieces(LARGE)),
    "iterator": lambda folder: pieces(LARGE),
    "small pieces": lambda folder: pieces(LARGE, 999),
}


@pytest.mark.parametrize("form", FORMS)
def test_whatever_it_is_given_as_it_is_sent_whole_and_again(form: str, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(LARGE)
    whole = LARGE.decode("latin-1").encode() if form == "text" else LARGE

    async def put(address: str) -> None:
        async with AsyncClient(address) as client:
            task = await client.start_task()
            assert (await task.output.put(FORMS[form](tmp_path))).ref == "out-1"

    with serve() as (outputs, address):
        with Client(address) as client:
            for failures in ([], [UNAVAILABLE], [UNAVAILABLE, UNAVAILABLE, UNAVAILABLE]):
                outputs.failures, outputs.headers = failures, []
                tries = len(failures) + 1
                stored = client.start_task().output.put(FORMS[form](tmp_path), tool_name="cat")
                assert outputs.content == whole and stored.view == f"{len(whole)} bytes"
                assert len(outputs.headers) == tries
                assert len({header.request_id for header in outputs.headers}) == 1
                assert outputs.headers[0].tool_name == "cat" and stored.masked == {"openai_key": 2}
        outputs.failures, outputs.content = [UNAVAILABLE], b""
        asyncio.run(put(address))
        assert outputs.content == whole


def test_pieces_that_come_asynchronously() -> None:
    async def put(address: str) -> None:
        async with AsyncClient(address) as client:
            task = await client.start_task()
            await task.output.put(async_pieces(LARGE), append=True, tool_call_id="c1", tool_name="cat")

    with serve() as (outputs, address):
        outputs.failures = [UNAVAILABLE]
        asyncio.run(put(address))
        assert outputs.content == LARGE and len(outputs.headers) == 2
        assert outputs.headers[0].append and outputs.headers[0].tool_call_id == "c1"


def test_small_ones_go_with_the_header() -> None:
    with serve() as (outputs, address), Client(address) as client:
        for content in ("", "ü", b"\x00"):
            client.start_task().output.put(
                content, record=True, arguments={"a": 1}, duration=0.003, error="no"
            )
            expected = content.encode() if isinstance(content, str) else content
            assert outputs.content == outputs.headers[-1].content == expected
            assert outputs.headers[-1].HasField("content")
        record = outputs.headers[-1].record
        assert (record.arguments_json, short_name(record, "status"), record.error) == (
            '{"a":1}',
            "error",
            "no",
        )
        assert record.duration.ToMilliseconds() == 3


def test_what_is_too_large_to_be_kept_is_sent_once() -> None:
    with serve() as (outputs, address), Client(address) as client:
        task = client.start_task()
        task.output.put(pieces(HUGE))
        assert outputs.content == HUGE
        # At the end of it: nothing of the iterator is left by then.
        outputs.failures, outputs.late = [UNAVAILABLE], True
        with pytest.raises(errors.Unavailable):
            task.output.put(pieces(HUGE))


class Slow(io.BytesIO):
    """A file whose third piece is not there until another try has begun."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads = 0
        self.begun = threading.Event()

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        if self.reads == 3:
            self.begun.wait(0.3)
        return super().read(size)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        if self.reads >= 2:
            self.begun.set()
        return super().seek(offset, whence)


# feature: outputs-retry
def test_a_try_that_was_given_up_reads_no_more() -> None:
    with serve() as (outputs, address), Client(address) as client:
        for content in (Slow(HUGE), iter(Slow(HUGE[:7_000_000]).readlines()), Slow(LARGE)):
            outputs.failures, outputs.headers = [UNAVAILABLE], []
            whole = content.getvalue() if isinstance(content, Slow) else HUGE[:7_000_000]
            client.start_task().output.put(content)
            assert outputs.content == whole and len(outputs.headers) == 2


# feature: outputs-input-breaks
def test_a_file_that_has_nothing_now_has_not_ended() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with serve() as (outputs, address), Client(address) as client:
        with open(reading, "rb", buffering=0) as file, open(writing, "wb", buffering=0) as other:
            other.write(b"the first half")
            with pytest.raises(BlockingIOError, match="does not block"):
                client.start_task().output.put(file)
        assert outputs.content == b""


# feature: outputs-input-breaks
def test_an_error_of_the_callers_own(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield LARGE
        raise KeyError("mine")

    async def async_broken() -> AsyncIterator[bytes]:
        yield LARGE
        raise KeyError("mine")

    async def put(address: str, content: Any) -> None:
        async with AsyncClient(address) as client:
            task = await client.start_task()
            with pytest.raises(KeyError, match="mine"):
                await task.output.put(content)

    with serve() as (outputs, address):
        with Client(address) as client:
            task = client.start_task()
            with pytest.raises(KeyError, match="mine"):
                task.output.put(broken())
            with pytest.raises(FileNotFoundError):
                task.output.put(tmp_path / "none")
            for wrong in (None, 7, {"a": 1}):
                with pytest.raises(TypeError, match="^content: "):
                    task.output.put(wrong)  # type: ignore[arg-type]
        asyncio.run(put(address, broken()))
        asyncio.run(put(address, async_broken()))
        assert outputs.content == b""


def test_reading_goes_on_where_it_was() -> None:
    with serve() as (outputs, address), Client(address) as client:
        task = client.start_task()
        whole = task.output.read("out-1").text()
        assert whole.count("\n") == 100
        outputs.failures = [UNAVAILABLE] * 2
        assert task.output.read("out-1").text() == whole and outputs.failures == []
        outputs.failures = [UNAVAILABLE]
        assert (
            list(task.output.read("out-1", offset=10, limit=60).lines())
            == whole.removesuffix("\n").split("\n")[10:70]
        )
        outputs.kept = LARGE[:5000]
        outputs.failures = [UNAVAILABLE]
        assert task.output.read("out-1", offset=7, raw=True).read() == LARGE[7:5000]


def test_every_place_of_a_broken_line() -> None:
    data = b"     1\tone\n     2\ttwo\n     3\tthree\n"
    lines = data.splitlines(keepends=True)
    for cut in range(len(data)):
        cursor = OutputCursor("task", "out-1", 0, 0, False, 0)
        cursor.request()
        read = b"".join(cursor.take(pb.ReadToolOutputResponse(data=data[:cut])))
        again = b"".join(lines[cursor.request().offset :])
        for size in (1, 5, 100):
            copy = OutputCursor("task", "out-1", 0, 0, False, 0)
            copy.request()
            list(copy.take(pb.ReadToolOutputResponse(data=data[:cut])))
            copy.request()
            rest = b"".join(
                b"".join(copy.take(pb.ReadToolOutputResponse(data=piece))) for piece in pieces(again, size)
            )
            assert read + rest == data, (cut, size)


def test_searching_and_listing() -> None:
    async def story(address: str) -> list[Any]:
        async with AsyncClient(address) as client:
            task = await client.start_task()
            found = task.output.grep("x")
            lines = [line.line_number async for line in found]
            outputs = [output.ref.id async for output in task.output.list()]
            text = await task.output.read("out-1", limit=2).text()
            lined = [line async for line in task.output.read("out-1", limit=2).lines()]
            return [lines, found.matches, outputs, text, lined]

    with serve() as (outputs, address):
        with Client(address) as client:
            task = client.start_task()
            outputs.failures = [UNAVAILABLE]
            found = task.output.grep("x")
            lines = [line.line_number for line in found]
            assert (lines, found.matches, found.limited) == ([0, 1, 2], 2, False)
            assert [output.ref.id for output in task.output.list()] == ["out-0", "out-1", "out-2"]
            with pytest.raises(errors.UnsupportedByServer):
                task.output.trim()
            text = task.output.read("out-1", limit=2).text()
        expected = [[0, 1, 2], 2, ["out-0", "out-1", "out-2"], text, text.splitlines()]
        assert asyncio.run(story(address)) == expected


CALLS: dict[str, Callable[[str, dict[str, Any]], dict[str, Any]]] = {
    "openai": lambda name, arguments: {
        "id": "c1",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    },
    "openai_responses": lambda name, arguments: {
        "type": "function_call",
        "call_id": "c1",
        "name": name,
        "arguments": json.dumps(arguments),
    },
    "anthropic": lambda name, arguments: {"type": "tool_use", "id": "c1", "name": name, "input": arguments},
}


@pytest.mark.parametrize("form", CALLS)
def test_the_model_may_ask(form: str) -> None:
    call = CALLS[form]

    def content(answer: dict[str, Any] | None) -> str:
        assert answer is not None
        key = "output" if form == "openai_responses" else "content"
        who = {"anthropic": "tool_use_id", "openai": "tool_call_id", "openai_responses": "call_id"}[form]
        assert answer[who] == "c1"
        return str(answer[key])

    async def ask(address: str, asked: dict[str, Any]) -> dict[str, Any] | None:
        async with AsyncClient(address) as client:
            return await tools.async_dispatch(await client.start_task(), asked)

    with serve() as (outputs, address), Client(address) as client:
        task = client.start_task()
        for name, arguments, expected in (
            (
                tools.READ,
                {"ref_id": "out-1", "limit": 2},
                "     1\tline 1\n     2\tline 2\n[lines 1 to 2 of 100; offset=2 reads on]",
            ),
            (
                tools.READ,
                {"ref_id": "out-1", "offset": 99},
                "   100\tline 100\n[end: 100 lines]",
            ),
            (
                tools.READ,
                {"ref_id": "out-1", "offset": 100.0},
                "There are no lines behind 100: the output has 100.",
            ),
            (tools.GREP, {"pattern": "x", "ref_id": "out-1"}, "0:x\n1-x\n--\n2:x\n[2 matches]"),
            (tools.GREP, {"pattern": "x"}, "out-0:\n0:x\nout-1:\n1-x\n--\nout-2:\n2:x\n[2 matches]"),
            (tools.GREP, {"pattern": "("}, "Error: as the script says"),
            (tools.READ, {}, "Error: ref_id: a text is required"),
            (tools.READ, {"ref_id": "out-1", "limit": -1}, "Error: limit: a whole number from 0 on"),
            (tools.GREP, {"pattern": "x", "ignore_case": 3}, "Error: ignore_case: true or false"),
        ):
            answer = tools.dispatch(task, call(name, arguments))
            assert content(answer) == expected
            assert asyncio.run(ask(address, call(name, arguments))) == answer
        assert tools.dispatch(task, call("another_tool", {})) is None
        refused = tools.dispatch(task, call(tools.READ, {}))
        assert refused is not None and refused.get("is_error") == (True if form == "anthropic" else None)


def test_tools_are_described_for_each() -> None:
    names = [tools.READ, tools.GREP] == ["tool_output_cache", "tool_output_cache_grep"]
    assert names and [tool["function"]["name"] for tool in tools.OPENAI] == [tools.READ, tools.GREP]
    assert [tool["name"] for tool in tools.ANTHROPIC] == [tool["name"] for tool in tools.OPENAI_RESPONSES]
    read = tools.ANTHROPIC[0]["input_schema"]
    assert set(read["properties"]) == {"ref_id", "offset", "limit"} and read["required"] == ["ref_id"]
    grep = tools.OPENAI[1]["function"]["parameters"]
    assert set(grep["properties"]) == {
        "pattern",
        "ref_id",
        "ignore_case",
        "before",
        "after",
        "max_matches",
    }
    bad = {"id": "c1", "function": {"name": tools.READ, "arguments": "{"}}
    with serve() as (_, address), Client(address) as client:
        answer = tools.dispatch(client.start_task(), bad)
        assert answer is not None and answer["content"].startswith("Error: the arguments are not JSON")
        with pytest.raises(TypeError, match="^call: "):
            tools.dispatch(client.start_task(), 7)
