"""A coding agent that keeps nothing itself: it plans, calls tools, compacts its context, is stopped and goes on, and a
follow-up task knows what the first one did.

    python coding_agent.py                      # offline: a scripted model, a small project with a bug
    OPENAI_API_KEY=… python coding_agent.py     # the same with a real model; or ANTHROPIC_API_KEY=…
    OPENAI_API_KEY=… python coding_agent.py --folder ~/project "Fix the failing tests."

It starts a private server (`contextstore.spawn`). Everything is on disk at every moment, and the agent itself holds no
message longer than a turn: outputs of tools are kept whole, the model is shown a part and can read and search the rest.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import contextstore
import offline
from contextstore import ChatDone, ChatText, Client, Task, short_name, tools

SYSTEM = (
    "You fix Python projects. Begin with a plan (tool `plan`), look before you change anything, and run the tests "
    "before you say that you are done. When you are done, say in two sentences what you did."
)
STEP = {"type": "array", "items": {"type": "string"}}
Before = Callable[[Task], None]


def described(name: str, words: str, **parameters: Any) -> dict[str, Any]:
    """A tool in the form of OpenAI's chat completions, which contextstore takes for every provider."""
    schema = {"type": "object", "properties": parameters, "required": list(parameters)}
    return {"type": "function", "function": {"name": name, "description": words, "parameters": schema}}


TOOLS = [
    described("plan", "Writes down the plan, or a new one", steps=STEP),
    described("list_files", "Lists all files of the project"),
    described("read_file", "Reads a file", path={"type": "string"}),
    described("write_file", "Writes a file", path={"type": "string"}, content={"type": "string"}),
    described("run_tests", "Runs all tests of the project"),
    # What the model can do about an output that was too large to be shown.
    *tools.OPENAI,
]


class Agent:
    """The loop. `before` is called before each turn of the model; it is where the offline model gets its lines."""

    def __init__(self, client: Client, folder: Path, config: dict[str, Any], before: Before | None) -> None:
        self.client = client
        self.folder = folder.resolve()
        self.config = config
        self.before = before

    def work(self, key: dict[str, str], goal: str, turns: int) -> bool:
        """Works on a goal for so many turns; whether it is done. If not, the task is paused and another call goes on."""
        # The task of this key that is running or paused, or a new one, which takes over from the last that ended.
        with self.client.task(key, config=self.config, system_message=SYSTEM) as task:
            print(f"[task {task.uuid}: {'goes on' if task.resumed else 'begins'}]")
            if task.inherited_from:
                print(f"[it knows what {task.inherited_from} did]")
            message = {"role": "user", "content": "Go on." if task.resumed else goal}
            task.append(message)
            for _ in range(turns):
                done = self.turn(task)
                if not done.tool_calls:
                    task.complete(str(done.message["content"]))
                    return True
                for call in done.tool_calls:
                    self.carry_out(task, call)
                if task.context_usage().pressure.should_compress:
                    result = task.compress()
                    print(f"[compressed: {result.tokens_before} → {result.tokens_after} tokens]")
            task.pause()
            print("[paused]")
            return False

    def turn(self, task: Task) -> ChatDone:
        """One turn of the model, shown as it arrives."""
        if self.before is not None:
            self.before(task)
        for event in task.chat(tools=TOOLS):
            if isinstance(event, ChatText):
                print(event.text, end="", flush=True)
            elif isinstance(event, ChatDone):
                print()
                return event
        raise AssertionError("a turn ends with ChatDone or raises")

    def carry_out(self, task: Task, call: dict[str, Any]) -> None:
        """Runs a tool; what came of it is recorded and told to the model, also if it is an error."""
        if (answer := tools.dispatch(task, call)) is not None:
            task.append(answer)
            print(f"[{call['function']['name']} {call['function']['arguments']}]")
            return
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        with task.tool(name, arguments=arguments, call_id=call["id"], suppress=True) as run:
            # An output is kept whole, whatever its size; the model is shown a part of it, and where the rest is.
            run.output = self.run(task, name, json.loads(arguments or "{}"))
        kept = f", {run.stored.info.byte_size} bytes kept" if run.stored and run.stored.truncated else ""
        print(f"[{name}: {run.error or 'done'} in {run.duration:.3f} s{kept}]")

    def run(self, task: Task, name: str, arguments: dict[str, Any]) -> str:
        if name == "plan":
            known = task.latest_plan() is not None
            task.append_plan(arguments["steps"], plan_type="revision" if known else "initial")
            return "The plan is written down."
        if name == "list_files":
            files = (path for path in self.folder.rglob("*") if path.is_file() and ".git" not in path.parts)
            return "\n".join(sorted(str(path.relative_to(self.folder)) for path in files))
        if name == "read_file":
            return self.inside(arguments["path"]).read_text(errors="replace")
        if name == "write_file":
            self.inside(arguments["path"]).write_text(arguments["content"])
            return "Written."
        if name == "run_tests":
            command = [sys.executable, "-B", "-m", "unittest", "discover", "--verbose"]
            done = subprocess.run(
                command,
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=300,
            )
            return f"{done.stdout}\nexit code {done.returncode}"
        raise ValueError(f"there is no tool {name}")

    def inside(self, path: str) -> Path:
        """A path that the model named; it gets nothing outside of the folder."""
        found = (self.folder / path).resolve()
        if not found.is_relative_to(self.folder):
            raise ValueError(f"{path} is outside of {self.folder}")
        return found


def provider() -> tuple[str, dict[str, str]]:
    """Who is asked, and what the server has to know for that; its key is in the environment, which the server gets."""
    for name, variable, model in (
        ("openai", "OPENAI_API_KEY", os.environ.get("OPENAI_MODEL", "gpt-5")),
        ("anthropic", "ANTHROPIC_API_KEY", os.environ.get("ANTHROPIC_MODEL", "claude-opus-4-5")),
    ):
        if os.environ.get(variable):
            prefix = f"CONTEXTSTORE_LLM__PROVIDERS__{name.upper()}__"
            env = {"CONTEXTSTORE_LLM__PROVIDER": name, f"{prefix}MODEL": model}
            if base_url := os.environ.get(f"{name.upper()}_BASE_URL"):
                env[f"{prefix}BASE_URL"] = base_url
            return name, env
    return "", {}


def main() -> None:
    parser = argparse.ArgumentParser(description="Fixes a project, and keeps nothing in memory.")
    parser.add_argument(
        "goal", nargs="?", default="The tests of this project fail. Find out why, and fix it."
    )
    parser.add_argument(
        "--folder", type=Path, help="the project; without one, a small one with a bug is made"
    )
    parser.add_argument("--data-dir", type=Path, help="where the context stays; without one, it is removed")
    parser.add_argument("--turns", type=int, default=5, help="turns until it is paused, and goes on")
    options = parser.parse_args()
    who, env = provider()
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or offline.make_project(Path(made))
        key = {"task_source": "example", "repo": str(folder), "task_type": "fix", "task_id": "1"}
        if who:
            print(f"[asks {who}]")
            # Of a long output the end is shown, too: tests tell there what failed.
            run(
                env,
                {"compression": {"auto": False}, "outputs": {"tail_bytes": 4000}},
                None,
                folder,
                key,
                options,
            )
            return
        print("[asks nobody: the model is a script]")
        with offline.Model() as model:
            # So small that a few outputs fill it.
            config = {
                "context_length": 4000,
                "compression": {"auto": False, "threshold": 0.5},
                "outputs": {"max_message_bytes": 4000, "tail_bytes": 200},
            }
            run(model.environment(), config, model.before, folder, key, options)


def run(
    env: dict[str, str],
    config: dict[str, Any],
    before: Before | None,
    folder: Path,
    key: dict[str, str],
    options: argparse.Namespace,
) -> None:
    with contextstore.spawn(options.data_dir, env=env) as client:
        agent = Agent(client, folder, config, before)
        print(f"\n— {options.goal}")
        while not agent.work(key, options.goal, options.turns):
            pass
        follow_up = "What was wrong? Add a test that would have found it."
        print(f"\n— {follow_up}")
        while not agent.work(key, follow_up, options.turns):
            pass
        for task in client.list_tasks(key=key):
            state = client.get_task(task.uuid).task
            counts = state.statistics
            print(
                f"\n[{short_name(state, 'status')}: {counts.total_messages} messages, {counts.total_tool_calls} calls of tools, "
                f"{counts.compression_count} compressions, {counts.bytes_on_disk} bytes on disk]"
            )


if __name__ == "__main__":
    main()
