"""What agents keep their conversations in otherwise: one message at a time, in one conversation, durable."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import redis
from agents import SQLiteSession
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from measure import MESSAGE, repeat


def cells(place: str) -> tuple[dict[str, Callable[..., dict[str, Any]]], Callable[[], None]]:
    """The cells by name, and what ends them. Redis is left out where it is not installed."""
    server = _start_redis(place)
    found: dict[str, Callable[..., dict[str, Any]]] = {
        "sqlite": _sqlite(place),
        "session": _session(place),
        "langgraph": _langgraph(place),
    }
    if server is not None:
        client = redis.Redis(unix_socket_path=os.path.join(place, "redis.sock"))
        found["redis"] = lambda seconds: repeat(
            lambda: client.rpush("messages", json.dumps(MESSAGE)), seconds
        )

    def close() -> None:
        if server is not None:
            server.terminate()
            server.wait()

    return found, close


def _sqlite(place: str) -> Callable[..., dict[str, Any]]:
    """The standard library's, with a write-ahead log and a sync for each commit."""
    db = sqlite3.connect(os.path.join(place, "sqlite.db"), isolation_level=None)
    assert db.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE messages (seq INTEGER PRIMARY KEY, body TEXT NOT NULL)")

    def insert() -> None:
        db.execute("INSERT INTO messages (body) VALUES (?)", (json.dumps(MESSAGE),))

    return partial(repeat, insert)


def _session(place: str) -> Callable[..., dict[str, Any]]:
    """The session of the OpenAI Agents SDK, as it comes."""
    session = SQLiteSession("bench", os.path.join(place, "session.db"))
    loop = asyncio.new_event_loop()
    return partial(repeat, lambda: loop.run_until_complete(session.add_items([dict(MESSAGE)])))


def _langgraph(place: str) -> Callable[..., dict[str, Any]]:
    """A graph of LangGraph that keeps messages, with its saver for SQLite; `behind` messages are there already."""
    # update_state may come from another thread than the one that opened the database.
    db = sqlite3.connect(os.path.join(place, "langgraph.db"), check_same_thread=False)
    builder = StateGraph(MessagesState)
    builder.add_node("agent", lambda state: {})
    builder.add_edge(START, "agent")
    graph = builder.compile(checkpointer=SqliteSaver(db))
    threads = iter(range(1_000_000))

    def run(behind: int, seconds: float) -> dict[str, Any]:
        config: Any = {"configurable": {"thread_id": str(next(threads))}}
        before = [HumanMessage(MESSAGE["content"]) for _ in range(behind)]
        graph.update_state(config, {"messages": before}, as_node="agent")
        append = {"messages": [HumanMessage(MESSAGE["content"])]}

        def update() -> None:
            append["messages"][0].id = None
            graph.update_state(config, append, as_node="agent")

        return repeat(update, seconds)

    return run


def _start_redis(place: str) -> subprocess.Popen[bytes] | None:
    """A server of our own that syncs its log for each write, on a socket."""
    binary = shutil.which("redis-server")
    if binary is None:
        return None
    path = os.path.join(place, "redis.sock")
    options = {
        "port": "0",
        "unixsocket": path,
        "dir": place,
        "save": "",
        "appendonly": "yes",
        "appendfsync": "always",
    }
    arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
    server = subprocess.Popen([binary, *arguments], stdout=subprocess.DEVNULL)
    end = time.monotonic() + 10
    while not os.path.exists(path):
        assert server.poll() is None and time.monotonic() < end, "redis-server does not start"
        time.sleep(0.01)
    return server
