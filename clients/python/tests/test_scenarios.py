"""Runs tests/scenarios of the repository; the format is described there."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format, message_factory
from google.protobuf.message import Message
from serving import DEADLINE, REPOSITORY, Server

from contextstore import Client
from contextstore.errors import from_rpc_error, short_reason
from contextstore.v1 import context_store_pb2, tool_outputs_pb2

FILES = sorted((REPOSITORY / "tests/scenarios").glob("*.json"))
METHODS = {
    **context_store_pb2.DESCRIPTOR.services_by_name["ContextStore"].methods_by_name,
    **tool_outputs_pb2.DESCRIPTOR.services_by_name["ToolOutputs"].methods_by_name,
}
KEYS = {
    "call",
    "request",
    "requests",
    "expect",
    "expect_stream",
    "expect_text",
    "expect_records",
    "error",
    "save",
}


def load(file: Path) -> dict[str, Any]:
    scenario: dict[str, Any] = json.loads(file.read_text())
    return scenario


def filled_in(value: Any, saved: dict[str, Any]) -> Any:
    """The value with every `$name` replaced."""
    if isinstance(value, dict):
        return {key: filled_in(inner, saved) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled_in(inner, saved) for inner in value]
    if isinstance(value, str) and value.startswith("$"):
        return saved[value[1:]]
    return value


def differs(expected: Any, found: Any, at: str = "answer") -> str | None:
    """Where `expected` is not a subset of what was found; None if it is one."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key, inner in expected.items():
            if key not in found:
                return f"{at} has no {key}: {found}"
            if problem := differs(inner, found[key], f"{at}.{key}"):
                return problem
        return None
    if isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            return f"{at} has {len(found)} elements, not {len(expected)}: {found}"
        pairs = enumerate(zip(expected, found, strict=True))
        return next((p for n, (want, have) in pairs if (p := differs(want, have, f"{at}[{n}]"))), None)
    same = type(expected) is type(found) and expected == found
    return None if same else f"{at} is {found!r}, not {expected!r}"


def as_json(message: Message) -> dict[str, Any]:
    return json_format.MessageToDict(message, always_print_fields_with_no_presence=True)


def test_a_difference_is_found() -> None:
    assert differs({"a": [{"b": "1"}]}, {"a": [{"b": "1", "c": 2}], "d": 0}) is None
    for expected, found in (
        ({"a": 1}, {}),
        ({"a": 1}, {"a": 2}),
        ({"a": "1"}, {"a": 1}),
        ({"a": False}, {"a": 0}),
        ([1], [1, 2]),
        ([], [1]),
        ({}, []),
        ([{"a": 1}], [{"a": 2}]),
    ):
        assert differs(expected, found), (expected, found)


def test_every_method_is_used() -> None:
    used = {step["call"] for file in FILES for step in load(file)["steps"]}
    assert used == set(METHODS)


def test_scenarios_are_well_formed() -> None:
    for file in FILES:
        scenario = load(file)
        assert list(scenario) == ["name", "about", "steps"], file
        for step in scenario["steps"]:
            assert set(step) <= KEYS, (file, step)
            streams = METHODS[step["call"]].client_streaming
            assert ("requests" in step) == streams and ("request" in step) != streams, (file, step)
            assert set(step) & {"expect", "expect_stream", "expect_text", "expect_records", "error"}, (
                file,
                step,
            )


class Runner:
    """Carries out one scenario."""

    def __init__(self, client: Client) -> None:
        self._stubs = {"ContextStore": client.stub, "ToolOutputs": client.outputs_stub}
        self._saved: dict[str, Any] = {}

    def run(self, step: dict[str, Any]) -> None:
        deadline = time.monotonic() + DEADLINE
        while problem := self._try(step):
            if step["call"] != "ListTasks" or time.monotonic() > deadline:
                pytest.fail(f"{json.dumps(step, ensure_ascii=False)}\n{problem}")
            time.sleep(0.05)

    def _try(self, step: dict[str, Any]) -> str | None:
        method = METHODS[step["call"]]
        expected = filled_in(step, self._saved)
        responses: list[dict[str, Any]] = []
        failure = None
        try:
            answers = self._call(step["call"], expected)
            for response in self._as_many_as_expected(answers, expected):
                responses.append(as_json(response))
        except grpc.RpcError as error:
            failure = from_rpc_error(error)
        found = {
            "expect": responses[0] if responses else {},
            "expect_stream": responses,
            "expect_text": b"".join(base64.b64decode(r.get("data", "")) for r in responses).decode(),
            "expect_records": [
                json.loads(base64.b64decode(x)) for r in responses for x in r.get("records", [])
            ],
        }
        if "error" in expected:
            wanted = dict(expected["error"])
            if failure is None:
                return f"no error; the answer is {responses}"
            wanted["reason"] = short_reason(wanted["reason"])
            field = wanted.pop("field", None)
            if problem := differs(wanted, {"code": failure.code.name, "reason": failure.reason}, "error"):
                return f"{problem}: {failure}"
            if field is not None and field not in failure.fields:
                return f"the error names {failure.fields}, not {field}"
        elif failure is not None:
            return str(failure)
        for key, value in found.items():
            if key in expected and (problem := differs(expected[key], value, key)):
                return problem
        for name, path in step.get("save", {}).items():
            part: Any = responses if method.server_streaming else responses[0]
            for step_down in path.split("."):
                part = part[int(step_down)] if isinstance(part, list) else part[step_down]
            self._saved[name] = part
        return None

    def _call(self, name: str, step: dict[str, Any]) -> Iterator[Message]:
        method = METHODS[name]
        kind = message_factory.GetMessageClass(method.input_type)
        requests = [json_format.ParseDict(r, kind()) for r in step.get("requests", [step.get("request")])]
        argument = iter(requests) if method.client_streaming else requests[0]
        answer = getattr(self._stubs[method.containing_service.name], name)(argument, timeout=DEADLINE)
        return iter(answer) if method.server_streaming else iter([answer])

    def _as_many_as_expected(self, answers: Any, step: dict[str, Any]) -> Iterator[Message]:
        """All there are; of what does not end by itself, as many as are expected."""
        endless = step["call"] == "WatchTask" or step.get("request", {}).get("follow")
        if not endless or "error" in step:
            yield from answers
            return
        if "expect_stream" in step:
            yield from islice(answers, len(step["expect_stream"]))
        else:
            wanted = len(step["expect_records"])
            while wanted > 0:
                response = next(answers)
                wanted -= len(response.records)
                yield response
        answers.cancel()


@pytest.fixture(scope="module", params=["unix", "tcp"])
def fresh_client(request: pytest.FixtureRequest) -> Iterator[Client]:
    server = Server()
    address, token_file = server.client_args(request.param)
    with Client(address, token_file=token_file) as client:
        yield client
    server.remove()


@pytest.mark.quick
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_scenario(fresh_client: Client, file: Path) -> None:
    runner = Runner(fresh_client)
    for step in load(file)["steps"]:
        runner.run(step)
