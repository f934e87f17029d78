"""An agent with an HTTP client of its own: contextstore keeps the context and makes the body of each request.

The body is streamed from the server's disk to the provider as it is, so the agent never holds its context in memory.
What the provider answers is read as it arrives, and appended.

    OPENAI_API_KEY=… python own_http.py "Who was Ada Lovelace?"

`OPENAI_BASE_URL` and `OPENAI_MODEL` name another server of the same API. With httpx it is
`httpx.stream("POST", url, headers=headers, content=task.request_body("openai", model=model))`.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

from contextstore import Client, Task

BASE_URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
MODEL = os.environ.get("OPENAI_MODEL", "gpt-5")
PARAMS = {"stream": True, "stream_options": {"include_usage": True}}


def ask(task: Task) -> Iterator[dict[str, Any]]:
    """Sends the context; the pieces of the answer."""
    body = task.request_body("openai", model=MODEL, params=PARAMS)
    headers = {
        "authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}",
        "content-type": "application/json",
    }
    request = urllib.request.Request(f"{BASE_URL}/chat/completions", data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=600) as response:
        for line in response:
            data = line.decode().removeprefix("data:").strip()
            if data.startswith("{"):
                yield json.loads(data)


def turn(task: Task, question: str) -> None:
    """One turn of the model, shown as it arrives."""
    task.append({"role": "user", "content": question})
    answer, usage = "", None
    for piece in ask(task):
        usage = piece.get("usage") or usage
        for choice in piece["choices"]:
            text = choice["delta"].get("content") or ""
            answer += text
            print(text, end="", flush=True)
    print()
    task.append({"role": "assistant", "content": answer})
    if usage is not None:
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        task.record_usage(
            input_tokens=usage["prompt_tokens"] - cached,
            output_tokens=usage["completion_tokens"],
            cache_read_tokens=cached,
        )


def main() -> None:
    with Client.from_env() as client:
        task = client.start_task(config={"llm_provider": "openai", "model": MODEL})
        print(f"task {task.uuid}")
        task.append({"role": "system", "content": "Be brief."})
        for question in sys.argv[1:] or ["Who was Ada Lovelace?", "Say that in one word."]:
            turn(task, question)
        task.complete()


if __name__ == "__main__":
    main()
