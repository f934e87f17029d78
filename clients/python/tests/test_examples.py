"""The examples of the repository, as a user runs them, with the fake in the place of the provider."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from faking import PROGRAM, FakeLlm
from serving import BINARY, DEADLINE, REPOSITORY, Server

from contextstore import Client

EXAMPLES = REPOSITORY / "examples/python"


def run(example: str, server: Server, *arguments: str, cwd: Path | None = None, **env: str) -> str:
    variables = {"CONTEXTSTORE_DATA_DIR": str(server.data_dir), "PYTHONPATH": ":".join(sys.path), **env}
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / example, *arguments],
        env={"PATH": os.environ["PATH"], **variables},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=5 * DEADLINE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_run() -> None:
    names = {path.name for path in EXAMPLES.iterdir() if path.suffix}
    assert names == {"chat_agent.py", "coding_agent.py", "offline.py", "own_http.py"}


@pytest.mark.parametrize("provider", ["openai", "anthropic", "ollama"])
def test_chat_agent(chat_server: Server, fake: FakeLlm, tmp_path: Path, provider: str) -> None:
    (tmp_path / "secret.txt").write_text("nobody is to see this")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes.txt").write_text("Buy milk.\n")
    calls = [
        {"name": "list_files", "arguments": "{}"},
        {"name": "read_file", "arguments": '{"path": "notes.txt"}'},
        {"name": "read_file", "arguments": '{"path": "../secret.txt"}'},
    ]
    fake.script(text="I look.", tool_calls=calls)
    fake.script(text="There are notes: milk.")
    said = run("chat_agent.py", chat_server, "What is here?", "--provider", provider, cwd=folder)
    assert "I look." in said and said.rstrip().splitlines()[-2] == "There are notes: milk.", said
    assert [request["verdict"] for request in fake.requests()] == ["ok", "ok"]
    with Client(chat_server.unix) as client:
        found = re.search(r"^task (\S+)$", said, re.MULTILINE)
        assert found
        task = client.task(found[1])
        assert (task.status, task.info.final_summary) == ("completed", "There are notes: milk.")
        messages = [m for m in task.messages(kinds=["message"])]
        assert [m["role"] for m in messages] == ["system", "user", "assistant", *["tool"] * 3, "assistant"]
        listed, read, refused = (m["content"] for m in messages[3:6])
        assert (json.loads(listed), json.loads(read)) == (["notes.txt"], "Buy milk.")
        assert refused.startswith("Error: ") and "nobody" not in refused
        assert [call["status"] for call in task.tool_calls()] == ["success", "success", "error"]


def test_chat_agent_goes_on_with_a_task(chat_server: Server, fake: FakeLlm, tmp_path: Path) -> None:
    with Client(chat_server.unix, instance_id="chat-agent") as client:
        task = client.start_task()
        call = {"id": "c1", "type": "function", "function": {"name": "list_files", "arguments": "{}"}}
        task.append({"role": "user", "content": "What is here?"})
        # Its agent died before the tool was done.
        task.append({"role": "assistant", "content": None, "tool_calls": [call]})
    said = run("chat_agent.py", chat_server, "Go on.", "--task", task.uuid, cwd=tmp_path)
    assert "Echo: Go on." in said
    assert [request["verdict"] for request in fake.requests()] == ["ok"]


def test_own_http(chat_server: Server, fake: FakeLlm) -> None:
    said = run(
        "own_http.py",
        chat_server,
        "One?",
        "Two?",
        OPENAI_BASE_URL=fake.base_url("openai"),
        OPENAI_API_KEY="sk-test",
        OPENAI_MODEL="fake",
    )
    assert said.splitlines()[1:] == ["Echo: One?", "Echo: Two?"]
    # The third is the server's own: what is to be remembered of the task. An echo is no summary, so the server asks again.
    first, second, final, _again = fake.requests()
    assert {request["verdict"] for request in (first, second, final)} == {"ok"}
    assert second["bytes"] > first["bytes"] and first["headers"]["transfer-encoding"] == "chunked"
    with Client(chat_server.unix) as client:
        statistics = client.get_task(said.split()[1]).task.statistics
        # Two turns, and two tries of the final summary.
        assert statistics.llm_call_count == 4 and statistics.total_tokens > 0


def coding_agent(*arguments: str, **env: str) -> str:
    variables = {
        "CONTEXTSTORE_BINARY": str(BINARY),
        "PYTHONPATH": ":".join(sys.path),
        "PATH": os.environ["PATH"],
    }
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", EXAMPLES / "coding_agent.py", *arguments],
        env={**variables, "CONTEXTSTORE_FAKE_LLM": str(PROGRAM), **env},
        capture_output=True,
        text=True,
        timeout=5 * DEADLINE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def test_coding_agent_offline(tmp_path: Path) -> None:
    said = coding_agent("--data-dir", str(tmp_path / "data"))
    for promised in (
        "[asks nobody: the model is a script]",
        "[plan: done in ",
        "bytes kept]",
        "[tool_output_cache_grep ",
        "[compressed: ",
        "[paused]",
        ": goes on]",
        "`discounted` took per cent for money; it multiplies now. All tests pass.",
        "[it knows what ",
        "As I know, per cent were taken for money.",
        "it is there now, and passes.",
    ):
        assert promised in said, said
    first = min((tmp_path / "data/completed").iterdir())  # Ids rise with time.
    log = read_log(first)
    # What the model was told: where the failure is, and that it is gone.
    assert "AssertionError: 175 != 150" in log and "exit code 1" in log and "exit code 0" in log


def read_log(task: Path) -> str:
    return (task / "messages.jsonl").read_text()


def test_coding_agent_with_a_provider(fake: FakeLlm) -> None:
    """As with a real one: by its key and its address."""
    for provider in ("openai", "anthropic"):
        fake.script(text="There is nothing to do.")
        fake.script(text="Nothing was wrong.")
        name = provider.upper()
        env = {f"{name}_API_KEY": "any", f"{name}_BASE_URL": fake.base_url(provider)}
        said = coding_agent("Look.", **env)
        assert f"[asks {provider}]" in said and "Nothing was wrong." in said
    assert {request["verdict"] for request in fake.requests()} == {"ok"}
