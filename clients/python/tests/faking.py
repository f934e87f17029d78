"""Runs the strict fake of the providers (tests/providers of the repository), and tells it what to answer."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from serving import BINARY, DEADLINE

PROGRAM = Path(os.environ.get("CONTEXTSTORE_FAKE_LLM") or BINARY.parent / "fake-llm").absolute()
PROVIDERS = ("openai", "openai_responses", "anthropic", "ollama", "lmstudio")


class FakeLlm:
    """`fake-llm`, on a port of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said.startswith("listening "), said
        self.url = f"http://{said.split()[1]}"

    def base_url(self, provider: str) -> str:
        """Where it is that provider."""
        version = {"anthropic": "", "ollama": "", "lmstudio": "/lmstudio/v1"}.get(provider, "/v1")
        return self.url + version

    def environment(self) -> dict[str, str]:
        """For a server that is to ask it, whoever is meant."""
        environment = {"FAKE_API_KEY": "sk-test"}
        for provider in PROVIDERS:
            prefix = f"CONTEXTSTORE_LLM__PROVIDERS__{provider.upper()}__"
            environment[prefix + "BASE_URL"] = self.base_url(provider)
            environment[prefix + "API_KEY_ENV"] = "FAKE_API_KEY"
            environment[prefix + "MODEL"] = "fake"
        return environment

    def script(self, **script: Any) -> None:
        """What happens to the next request."""
        self._control("POST", "/control", script)

    def reset(self) -> None:
        """Forgets scripts and requests."""
        self._control("DELETE", "/control")

    def requests(self) -> list[dict[str, Any]]:
        """What it got."""
        got: list[dict[str, Any]] = json.loads(self._control("GET", "/control/requests"))
        return got

    def remove(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=DEADLINE)

    def _control(self, method: str, path: str, body: Any = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        with urllib.request.urlopen(request, timeout=DEADLINE) as response:
            answer: bytes = response.read()
            return answer
