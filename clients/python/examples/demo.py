"""An agent at work, with its context in contextstore; the server is killed in the middle, and nothing is lost. Then a
conversation outgrows its window: it is compressed, that is taken back, and a second task goes on with what is known.

The tools are real: they look at the files of this repository. The model is a script, so that the demo needs no
key and no network. `CONTEXTSTORE_BIN` is the server; without it, target/release/contextstore of this repository.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from contextstore import Client, Pressure, Task, TaskState, short_name

REPOSITORY = Path(__file__).resolve().parents[3]
BINARY = Path(os.environ.get("CONTEXTSTORE_BIN") or REPOSITORY / "target/release/contextstore")
WIDTH = 100


# The server


class Server:
    """`contextstore serve` on a directory."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.address = f"unix:{data_dir}/contextstore.sock"
        self.start()

    def start(self) -> None:
        # What the environment says to servers is not meant for this one.
        env = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXTSTORE_")}
        command = [str(BINARY), "serve", "--data-dir", str(self.data_dir), "--listen", self.address]
        self.process = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=30)


# The agent's tools


def list_files(folder: str) -> list[str]:
    return sorted(path.name for path in (REPOSITORY / folder).iterdir() if path.is_file())


def read_file(path: str, lines: int) -> str:
    return "".join((REPOSITORY / path).read_text().splitlines(keepends=True)[:lines])


def count_lines(paths: list[str]) -> dict[str, int]:
    return {path: len((REPOSITORY / path).read_text().splitlines()) for path in paths}


TOOLS: dict[str, Callable[..., Any]] = {
    "list_files": list_files,
    "read_file": read_file,
    "count_lines": count_lines,
}


# The model: what it says next follows from what it was told


def model(view: list[dict[str, Any]]) -> dict[str, Any]:
    results = [message["content"] for message in view if message["role"] == "tool"]
    folder = "proto/contextstore/v1"
    if not results:
        return calls("I'll look at what is there.", ("list_files", {"folder": folder}))
    if len(results) == 1:
        protos = [f"{folder}/{name}" for name in json.loads(results[0])]
        return calls(
            f"{len(protos)} files. I'll count their lines and read the head of the service.",
            ("count_lines", {"paths": protos}),
            ("read_file", {"path": f"{folder}/context_store.proto", "lines": 12}),
        )
    counted = json.loads(results[1])
    largest = max(counted, key=lambda path: counted[path])
    answer = f"The API is {sum(counted.values())} lines in {len(counted)} files; the largest is {largest}."
    return {"role": "assistant", "content": answer}


def calls(content: str, *tools: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [
            {
                "id": f"call-{name}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for name, arguments in tools
        ],
    }


# The agent


def use_tools(task: Task, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Executes the calls of a message; the results are yielded as they are ready."""
    for call in message["tool_calls"]:
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        start = time.monotonic()
        result = TOOLS[name](**arguments)
        spent = time.monotonic() - start
        task.record_tool_call(name, arguments=arguments, result=result, duration=spent)
        content = result if isinstance(result, str) else json.dumps(result)
        yield {"role": "tool", "tool_call_id": call["id"], "content": content}


def say(task: Task, message: dict[str, Any]) -> None:
    ack = task.append(message)
    print(f"  {ack.seq:2} {one_line(message)}")


def turn(task: Task) -> dict[str, Any]:
    """Streams the context to the model, and appends what it says."""
    view = list(task.current_messages())
    message = model(view)
    say(task, message)
    task.record_usage(
        input_tokens=sum(len(json.dumps(m)) for m in view) // 4, output_tokens=len(json.dumps(message)) // 4
    )
    return message


def one_line(message: dict[str, Any]) -> str:
    names = [call["function"]["name"] for call in message.get("tool_calls", [])]
    text = f"{message['role']:9} {message['content'] or ''}" + (f" → {', '.join(names)}" if names else "")
    text = text.replace("\n", "⏎")
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def heading(text: str) -> None:
    print(f"\n── {text} " + "─" * max(0, WIDTH - len(text)))


def show_files(root: Path, directory: str) -> None:
    """The files of one task."""
    print(f"  {directory}")
    for path in sorted((root / directory).iterdir()):
        print(f"  {path.stat().st_size:9} B  {path.name}")


def run(data_dir: Path) -> None:
    heading("A server is started")
    server = Server(data_dir)
    try:
        with Client(server.address) as client:
            client.wait_until_ready()
            info = client.server_info()
            print(f"  contextstore {info.version}, process {info.process_id}, {server.address}")
            converse(server, client)
            directory = outgrow(client)
            finish(server, directory)
    finally:
        if server.process.poll() is None:
            server.kill()


def converse(server: Server, client: Client) -> None:
    heading("An agent works; each message is on disk before it goes on")
    task = client.start_task(
        key={"task_source": "demo", "owner": "you", "repo": "contextstore", "task_id": "1"},
        user="ada",
        config={"llm_provider": "openai", "model": "scripted", "context_length": 8000},
    )
    say(task, {"role": "system", "content": "You answer questions about this repository. Use the tools."})
    say(task, {"role": "user", "content": "How large is the API of contextstore?"})
    task.append_plan({"steps": ["list the proto files", "count their lines", "answer"]}, plan_type="initial")
    for result in use_tools(task, turn(task)):
        say(task, result)
    message = turn(task)

    heading("The server is killed with SIGKILL, and started again; the agent does not wait for it")
    before = server.process.pid
    server.kill()
    server.start()
    start = time.monotonic()
    for ack in task.append_many(use_tools(task, message)):
        print(f"  {ack.seq:2} acknowledged after {time.monotonic() - start:.2f} s")
    print(f"  process {before} is gone, {server.process.pid} serves; the lease is still ours")

    heading("The agent goes on")
    turn(task)

    heading("What the model sees, streamed from disk")
    size = 0
    for chunk in task.current():
        size += len(chunk)
    for number, seen in enumerate(task.current_messages(), start=1):
        print(f"  {number:2} {one_line(seen)}")
    state = task.get()
    counted = state.task.statistics
    print(f"  {size} bytes, {counted.view_messages} messages, {counted.view_tokens} tokens")
    stage = short_name(state.pressure, "stage")
    print(f"  {state.pressure.ratio:.0%} of the {state.pressure.limit} that the model takes: {stage}")

    heading("What else is known")
    plan = task.latest_plan()
    print(f"  plan: {plan.content if plan else None}")
    for record in task.tool_calls():
        print(f"  tool: {record['tool_name']} {record['status']}, {record['duration_ms']} ms")
    print(f"  usage: {counted.llm_call_count} calls of the model, {counted.total_tokens} tokens")

    heading("The task is completed; its files stay where a task that is done has them")
    print(f"  {task.complete('Counted the API.').directory}")


# A conversation that outgrows its window

KEY = {
    "task_source": "demo",
    "owner": "you",
    "repo": "shop",
    "task_type": "issue",
    "task_id": "41",
}
ASKED = (
    "Totals are wrong for orders with coupons. Fix it in shop/cart.py. Never change the table payments, "
    "and keep every public name as it is."
)
STEPS = [
    ("pytest -q tests/test_cart.py", "E   AssertionError: assert 1190 == 1071\n1 failed, 41 passed in 3.2s"),
    (
        "cat shop/cart.py",
        "def total(items, coupon):\n    net = sum(i.price * i.count for i in items)\n    ...",
    ),
    ("git log --oneline -3 shop/cart.py", "8f31c2a Coupons: percent\n77ab019 Cart: tax\n5cc0d1e Cart: first"),
    ("grep -rn round shop/", "shop/tax.py:14: return round(net * RATE)\nshop/cart.py:31: round(net * 1.19)"),
    ("pytest -q tests/test_tax.py", "3 passed in 0.4s"),
    (
        "cat shop/coupon.py",
        "class Coupon:\n    percent: int\n    def apply(self, net): return net * self.percent / 100",
    ),
]
THOUGHTS = [
    "The test expects the coupon before tax. I'll run it first.",
    "Decision: apply the coupon to the net amount, then add tax.",
    "Commit 8f31c2a brought the coupons; the order was wrong from the start.",
    "Rounding happens twice: in shop/tax.py and in shop/cart.py.",
    "Still open: orders with two coupons have no test.",
    "coupon.py returns what is taken off, not what is left. That is the bug.",
]


def work(rounds: int) -> Iterator[dict[str, Any]]:
    """What is said in so many rounds of looking and thinking."""
    for number in range(rounds):
        command, output = STEPS[number % len(STEPS)]
        call = calls(THOUGHTS[number % len(THOUGHTS)], ("run", {"command": command}))
        call["tool_calls"][0]["id"] = f"call-{number}"
        yield call
        # Tools say far more than anybody needs.
        noise = "".join(f"\n{command.split()[0]}: line {line} of the log, nothing new" for line in range(12))
        yield {"role": "tool", "tool_call_id": f"call-{number}", "content": output + noise}


def outgrow(client: Client) -> str:
    """Answers where the task is at the end."""
    heading("A conversation outgrows its window of 4000 tokens")
    task = client.start_task(
        key=KEY,
        user="ada",
        # What tools have said would become placeholders first; here it is about summaries.
        config={"context_length": 4000, "outputs": {"enabled": False}},
        system_message="You fix bugs in the shop.",
    )
    task.append({"role": "user", "content": ASKED}, pinned=True)
    task.append_plan({"steps": ["find the bug", "fix shop/cart.py", "test two coupons"]}, plan_type="initial")
    for message in work(14):
        ack = task.append(message)
        if ack.seq % 6 == 0:
            show_pressure(f"{ack.seq} messages", ack.pressure)
        if ack.pressure.should_compress:
            show_pressure(f"{ack.seq} messages", ack.pressure)
            break
    state = wait_for_compaction(task)
    show_pressure("compressed in the background, by the built-in summariser", state.pressure)
    show_view(task)

    heading("Nothing is lost: the compaction is taken back")
    task.undo_compaction()
    counted = task.get().task.statistics
    print(f"  the view has its {counted.view_messages} messages again")
    result = task.compress(target_tokens=1200)
    print(f"  and is compressed once more: {result.tokens_before} → {result.tokens_after} tokens")

    heading("The task ends, and a second one goes on with what is known")
    directory = task.complete().directory
    second = client.start_task(key=KEY, user="ada", system_message="You fix bugs in the shop.")
    print(f"  to post on the issue: {second.inheritance_comment.splitlines()[0]}")
    show_view(second)
    second.complete("Nothing was left to do.")
    return directory


def wait_for_compaction(task: Task) -> TaskState:
    """It runs beside the agent, which would just go on."""
    deadline = time.monotonic() + 30
    while (state := task.get()).task.view_generation == 0:
        if time.monotonic() > deadline:
            sys.exit("the context was not compressed")
        time.sleep(0.01)
    return state


def show_pressure(what: str, pressure: Pressure) -> None:
    stage = short_name(pressure, "stage")
    print(f"  {what}: {pressure.tokens} tokens, {pressure.ratio:.0%} of the window, {stage}")


def show_view(task: Task) -> None:
    """What the model sees: of each message the first line, and of a long one the next few too."""
    for seen in task.current_messages():
        first, *rest = [line for line in (seen["content"] or "").splitlines() if line] or [""]
        print(f"     {one_line({**seen, 'content': first})}")
        # What was put in by the server begins with a line in brackets.
        shown = rest[:8] if first.startswith("[") else []
        for line in shown:
            print(f"               {line[: WIDTH - 10]}")
        if len(rest) > len(shown) > 0:
            print(f"               … {len(rest) - len(shown)} more lines")


def finish(server: Server, directory: str) -> None:
    heading("The server stops; its files are plain")
    code = server.stop()
    print(f"  the server stopped with exit code {code}")
    show_files(server.data_dir, directory)
    if code != 0:
        sys.exit(1)


def main() -> None:
    if not BINARY.is_file():
        sys.exit(f"there is no server at {BINARY}: `make build` makes one, or set CONTEXTSTORE_BIN")
    with tempfile.TemporaryDirectory(prefix="contextstore-demo-") as directory:
        run(Path(directory, "contexts"))
    heading("Done")


if __name__ == "__main__":
    main()
