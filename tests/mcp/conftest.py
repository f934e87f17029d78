"""The server is run as the tests of the Python client run it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "clients/python/tests"))
