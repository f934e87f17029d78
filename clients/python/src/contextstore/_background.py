"""Work on an event loop that belongs to no caller."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


def background(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Starts a task that nobody awaits. That its event loop was dropped under it is no news: what it had to save is
    reported by itself."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    return task
