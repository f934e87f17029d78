"""Callers give and get short names for the enums of the protocol."""

from __future__ import annotations

import pytest
from serving import Server

from contextstore import Client, Message, MessageToolCall, short_name
from contextstore._enums import number, numbers
from contextstore.v1 import context_store_pb2, message_pb2, task_pb2

pytestmark = pytest.mark.quick

ENUMS = [
    enum
    for file in (context_store_pb2, message_pb2, task_pb2)
    for enum in file.DESCRIPTOR.enum_types_by_name.values()
]


def test_short_names_of_every_enum() -> None:
    for enum in ENUMS:
        names = numbers(enum)
        assert len(names) == len(enum.values) - 1 and "unspecified" not in names
        for name, value in names.items():
            assert name == name.lower() and enum.values_by_number[value].name.endswith("_" + name.upper())
            assert number(enum, "x", name) == number(enum, "x", value) == value
    assert list(numbers(task_pb2.TaskStatus.DESCRIPTOR)) == ["running", "paused", "completed", "failed"]
    assert "newer_format" in numbers(task_pb2.TaskHealth.DESCRIPTOR)


def test_the_short_name_of_a_field() -> None:
    info = task_pb2.Task(status=task_pb2.TASK_STATUS_PAUSED)
    assert (short_name(info, "status"), short_name(info, "health")) == ("paused", "")
    with pytest.raises(ValueError, match="field: Task has no enum 'uuid'"):
        short_name(info, "uuid")


def test_enums_are_sent_as_names_or_numbers(shared_server: Server) -> None:
    with Client(shared_server.unix) as client:
        compression = {"strategy": "compact", "preset": task_pb2.COMPRESSION_PRESET_AGGRESSIVE}
        config = client.start_task(config={"durability": "each", "compression": compression}).info.config
        assert short_name(config, "durability") == "each"
        assert short_name(config.compression, "strategy") == "compact"
        assert short_name(config.compression, "preset") == "aggressive"

        task = client.start_task(config=config)
        call = MessageToolCall(id="c1", name="run", arguments="ls", type="custom")
        task.append(Message(role="developer", content="Hello"))
        task.append(Message(role="assistant", tool_calls=[call]))
        task.append(message_pb2.Message(role=message_pb2.ROLE_TOOL, tool_call_id="c1", content="a.txt"))
        said = list(task.messages(kinds="message"))
        assert [record["role"] for record in said] == ["developer", "assistant", "tool"]
        assert said[1]["tool_calls"][0]["type"] == "custom"
        assert [record["event"] for record in task.messages(kinds=["started"])] == ["started"]
