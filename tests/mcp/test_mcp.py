"""The official client of the Model Context Protocol lists and calls the tools of `contextstore mcp`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from contextstore import Client
from mcp import Client as McpClient
from mcp import StdioServerParameters
from mcp.types import CallToolResult
from serving import BINARY, ENVIRONMENT, Server

LINES = [f"line {number} of a log" for number in range(1, 5001)]
LINES[3210] = "ERROR: the disk is full"


@dataclass
class Kept:
    """A task with one long output."""

    server: Server
    task: str
    ref: str

    def tools(self, *arguments: str) -> McpClient:
        """A client of its tools."""
        command = ["mcp", "--data-dir", str(self.server.data_dir), *arguments]
        return McpClient(StdioServerParameters(command=str(BINARY), args=command, env=dict(ENVIRONMENT)))


@pytest.fixture(scope="module")
def kept() -> Iterator[Kept]:
    server = Server()
    with Client(server.unix) as client:
        task = client.start_task()
        task.append_plan({"steps": ["look", "repair"]}, plan_type="steps")
        task.append({"role": "tool", "tool_call_id": "c1", "content": "never stored\nbut kept"})
        put = task.output.put("".join(f"{line}\n" for line in LINES), tool_name="bash")
        yield Kept(server, task.uuid, put.ref)
    server.remove()


def text(result: CallToolResult) -> str:
    assert not result.is_error, result
    return "".join(part.text for part in result.content)


def refused(result: CallToolResult) -> str:
    assert result.is_error, result
    return "".join(part.text for part in result.content)


def test_the_tools_are_listed_with_what_a_model_has_to_know(kept: Kept) -> None:
    async def story() -> None:
        async with kept.tools("--task", kept.task) as tools:
            assert tools.server_info.name == "contextstore"
            assert "tool_output_cache" in (tools.instructions or "")
            listed = {tool.name: tool for tool in (await tools.list_tools()).tools}
        assert list(listed) == ["tool_output_cache", "tool_output_cache_grep", "latest_plan", "summaries"]
        for tool in listed.values():
            assert tool.description and tool.annotations and tool.annotations.read_only_hint
            properties = tool.input_schema["properties"]
            assert "task" not in properties
            assert all(value["description"] for value in properties.values())
        assert listed["tool_output_cache"].input_schema["required"] == ["ref_id"]

    asyncio.run(story())


def test_an_output_is_read_in_pieces_that_say_how_to_go_on(kept: Kept) -> None:
    async def story() -> None:
        async with kept.tools("--task", kept.task) as tools:
            read, offset, calls = [], 0, 0
            while True:
                arguments = {"ref_id": kept.ref, "offset": offset}
                answer = text(await tools.call_tool("tool_output_cache", arguments))
                assert len(answer) < 52 * 1024
                *lines, last = answer.splitlines()
                read += lines
                offset, calls = len(read), calls + 1
                if last.endswith("the end]"):
                    break
                assert last.endswith(f"of 5000; call again with offset={offset} for more]"), last
            assert read == [f"{number:6}\t{line}" for number, line in enumerate(LINES, 1)]
            assert 3 <= calls <= 10
            few = text(
                await tools.call_tool("tool_output_cache", {"ref_id": kept.ref, "offset": 10, "limit": 2})
            )
            assert few.splitlines()[:2] == ["    11\tline 11 of a log", "    12\tline 12 of a log"]
            said = text(await tools.call_tool("tool_output_cache", {"ref_id": "seq=1", "offset": 1}))
            assert said.splitlines()[0] == "     2\tbut kept"
            behind = text(await tools.call_tool("tool_output_cache", {"ref_id": kept.ref, "offset": 5000}))
            assert behind == "[the output has 5000 lines; there is nothing behind line 5000]"

    asyncio.run(story())


def test_outputs_are_searched(kept: Kept) -> None:
    async def story() -> None:
        async with kept.tools("--task", kept.task) as tools:
            arguments = {"pattern": "error.*full$", "ignore_case": True, "before": 1, "ref_id": kept.ref}
            found = text(await tools.call_tool("tool_output_cache_grep", arguments)).splitlines()
            assert found == [
                f"{kept.ref}:",
                "  3210-\tline 3210 of a log",
                "  3211:\tERROR: the disk is full",
                "[1 matching lines in all]",
            ]
            everywhere = text(
                await tools.call_tool("tool_output_cache_grep", {"pattern": "line", "max_matches": 2})
            )
            assert everywhere.splitlines()[-1] == "[the first 2 matching lines; there may be more]"
            dots = text(await tools.call_tool("tool_output_cache_grep", {"pattern": "e.*l", "fixed": True}))
            assert dots == "[0 matching lines in all]"

    asyncio.run(story())


def test_the_plan_and_summaries_are_told(kept: Kept) -> None:
    async def story() -> None:
        async with kept.tools("--task", kept.task) as tools:
            plan = text(await tools.call_tool("latest_plan", {}))
            assert plan.startswith("Plan 1 (steps):") and '"repair"' in plan
            summaries = text(await tools.call_tool("summaries", {}))
            assert summaries == "There are no summaries: the whole conversation is in view."

    asyncio.run(story())


def test_what_is_wrong_is_told_to_the_model(kept: Kept) -> None:
    async def story() -> None:
        async with kept.tools("--task", kept.task) as tools:
            missing = {"ref_id": "out-" + "0" * 32}
            assert refused(await tools.call_tool("tool_output_cache", missing)).endswith(".")
            assert "ref_id" in refused(await tools.call_tool("tool_output_cache", {}))
            assert refused(await tools.call_tool("tool_output_cache_grep", {"pattern": "("}))
            # It goes on after that.
            assert text(await tools.call_tool("latest_plan", {}))

    asyncio.run(story())


def test_a_task_may_be_named_by_the_call(kept: Kept) -> None:
    async def story() -> None:
        async with kept.tools() as tools:
            listed = (await tools.list_tools()).tools
            assert all("task" in tool.input_schema["required"] for tool in listed)
            assert text(await tools.call_tool("latest_plan", {"task": kept.task})).startswith("Plan 1")
            assert "task" in refused(await tools.call_tool("latest_plan", {}))
            nobody = {"task": "00000000-0000-7000-8000-000000000000"}
            assert refused(await tools.call_tool("latest_plan", nobody))

    asyncio.run(story())


def test_a_server_that_is_not_there_is_told_with_each_call(kept: Kept) -> None:
    async def story() -> None:
        arguments = ["mcp", "--address", "tcp:127.0.0.1:1", "--task", kept.task]
        parameters = StdioServerParameters(command=str(BINARY), args=arguments, env=dict(ENVIRONMENT))
        async with McpClient(parameters) as tools:
            assert len((await tools.list_tools()).tools) == 4
            assert "connection" in refused(await tools.call_tool("latest_plan", {}))

    asyncio.run(story())
