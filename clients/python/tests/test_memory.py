"""An agent's memory does not grow with its history. `make test-long` runs it at full size: 100 000 messages, 1 GB."""

from __future__ import annotations

import sys

import agent_memory
import pytest
from serving import BINARY, LONG

ENVIRONMENT = {"CONTEXTSTORE_BINARY": str(BINARY), "PYTHONPATH": ":".join(sys.path)}
COUNT = 100_000 if LONG else 6_000
MOST = 10 << 20 if LONG else COUNT * agent_memory.MESSAGE_BYTES // 3
"""Bytes that ten times the history may cost. On a busy machine an interpreter may grow by 11 MB with no history at all."""


@pytest.mark.large
def test_an_agent_does_not_grow_with_its_history() -> None:
    ours = agent_memory.measure("client", COUNT, ENVIRONMENT)
    lists = agent_memory.measure("list", COUNT)
    for name, points in (("contextstore", ours), ("list", lists)):
        print(name, [(number, f"{memory / 2**20:.0f} MB") for number, _, memory in points])
    # Both have worked through the same.
    assert [point[0] for point in ours] == [point[0] for point in lists]
    assert ours[-1][1] > COUNT * agent_memory.MESSAGE_BYTES
    assert ours[-1][2] - ours[0][2] <= MOST, ours
    # And it is the history that the other grows with.
    assert lists[-1][2] - lists[0][2] > (COUNT * 9 // 10) * agent_memory.MESSAGE_BYTES * 9 // 10, lists
