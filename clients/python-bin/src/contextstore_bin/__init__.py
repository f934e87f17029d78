"""Where the server's program is that this package has installed."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

__all__ = ["binary"]


def binary() -> Path:
    """The program `contextstore`. It stands where the installer puts programs: the record of the package tells."""
    for file in importlib.metadata.files("contextstore-bin") or ():
        if file.name in ("contextstore", "contextstore.exe"):
            path = Path(str(file.locate())).resolve()
            if path.is_file():
                return path
    raise FileNotFoundError("contextstore-bin is installed without its program: install it again")
