"""An agent that keeps no history and has no HTTP client: contextstore keeps the one and is the other.

It asks a model, carries out the tools that the model calls, and hands the results over, until the model has an answer.
Everything is on the server's disk at every moment: `--task` goes on with a task whose agent died.

    python chat_agent.py "What does this folder hold?"

The server is found as `CONTEXTSTORE_ADDRESS` or `CONTEXTSTORE_DATA_DIR` say, and has the key of the provider.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contextstore import ChatDone, ChatText, Client, Task

FOLDER = Path.cwd()


def inside(path: str) -> Path:
    """A path that the model named; it gets nothing outside of the folder."""
    found = (FOLDER / path).resolve()
    if not found.is_relative_to(FOLDER):
        raise ValueError(f"{path} is outside of {FOLDER}")
    return found


def list_files(path: str = ".") -> list[str]:
    return sorted(each.name + "/" * each.is_dir() for each in inside(path).iterdir())


def read_file(path: str, lines: int = 50) -> str:
    return "\n".join(inside(path).read_text(errors="replace").splitlines()[:lines])


TOOLS: dict[str, tuple[Callable[..., Any], str, dict[str, str]]] = {
    "list_files": (list_files, "Lists a folder", {"path": "string"}),
    "read_file": (read_file, "Reads the first lines of a file", {"path": "string", "lines": "integer"}),
}
DESCRIBED = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": words,
            "parameters": {
                "type": "object",
                "properties": {parameter: {"type": kind} for parameter, kind in parameters.items()},
            },
        },
    }
    for name, (_, words, parameters) in TOOLS.items()
]


def carry_out(task: Task, call: dict[str, Any]) -> dict[str, Any]:
    """Runs a tool; answers the message that tells the model what came of it."""
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    try:
        tool = TOOLS[name][0]
        result, error = tool(**json.loads(arguments)), None
    except Exception as raised:
        # Whatever the model got wrong, it is told, and may do better.
        result, error = None, f"{type(raised).__name__}: {raised}"
    print(f"\n[{name} {arguments}: {error or 'done'}]")
    task.record_tool_call(name, arguments=arguments, result=result, error=error)
    content = json.dumps(result, ensure_ascii=False) if error is None else f"Error: {error}"
    return {"role": "tool", "tool_call_id": call["id"], "content": content}


def turn(task: Task, messages: list[dict[str, Any]], who: dict[str, Any]) -> ChatDone:
    """One turn of the model, shown as it arrives."""
    for event in task.chat(messages, tools=DESCRIBED, **who):
        if isinstance(event, ChatText):
            print(event.text, end="", flush=True)
        elif isinstance(event, ChatDone):
            return event
    raise AssertionError("a turn ends with ChatDone or raises")


def main() -> None:
    parser = argparse.ArgumentParser(description="Asks a model that may look at the files of this folder.")
    parser.add_argument("question", nargs="?", default="What does this folder hold?")
    parser.add_argument("--task", help="the id of a task to go on with")
    parser.add_argument("--provider", default="", help="as the server is configured, if not given")
    parser.add_argument("--model", default="", help="as the server is configured, if not given")
    options = parser.parse_args()
    who = {"provider": options.provider, "model": options.model}
    # By its name it gets back what an earlier run of it held.
    with Client.from_env(instance_id="chat-agent") as client:
        task = client.start_task(task_uuid=options.task)
        print(f"task {task.uuid}")
        messages = [{"role": "user", "content": options.question}]
        if options.task is None:
            messages.insert(0, {"role": "system", "content": "Use the tools. Answer in two sentences."})
        done = turn(task, messages, who)
        while done.tool_calls:
            done = turn(task, [carry_out(task, call) for call in done.tool_calls], who)
        print(f"\n[{done.pressure.tokens} of {done.pressure.limit} tokens]")
        task.complete(final_summary=str(done.message["content"]))


if __name__ == "__main__":
    main()
