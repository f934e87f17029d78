"""The server and the fake are run as the tests of the Python client run them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "clients/python/tests"))
