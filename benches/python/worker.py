"""A process that measures on request: one JSON object a line in, one a line out.

`worker.py ours ADDRESS` runs the client of this repository, `worker.py peers DIRECTORY` what it is compared with. They
are processes of their own so that neither pays for the other's threads and imports. What to measure and when is
decided by the bench that runs them, so that everything takes turns.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

Cells = dict[str, Callable[..., dict[str, Any]]]


def main() -> None:
    kind, place = sys.argv[1:]
    if kind == "ours":
        import ours

        cells, close = ours.cells(place)
    else:
        import peers

        cells, close = peers.cells(place)
    try:
        print(json.dumps({"cells": sorted(cells)}), flush=True)
        for line in sys.stdin:
            request = json.loads(line)
            answer = cells[request.pop("cell")](**request)
            print(json.dumps(answer), flush=True)
    finally:
        close()


if __name__ == "__main__":
    main()
