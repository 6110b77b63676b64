"""A real endpoint in its own process, and clients for it."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tasks.models import Endpoint
from tasks.openai.budget import LocalBudget
from tasks.openai.client import OpenAIClient
from tasks.openai.limits import LocalLimiter
from tasks.openai.provider import Usage
from workers.embedded.endpoint import ENDPOINT_CONTROL_VARIABLE, ENDPOINT_KEY_VARIABLE

KEY = "key-for-tests-0123456789"


@dataclass
class Service:
    """The endpoint: its address and the file with its calls."""

    url: str
    log: Path
    key: str = KEY

    def fail(self, faults: str) -> None:
        body = json.dumps({"faults": faults}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        request = urllib.request.Request(f"{self.url.removesuffix('/v1')}/_faults", body, headers)
        with urllib.request.urlopen(request, timeout=10) as response:
            assert response.status == 200

    def calls(self, call_id: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in lines if line["call_id"] == call_id]


class RecordingBudget(LocalBudget):
    """A budget that also records each try: its usage, or None when that is unknown."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.tries: list[Usage | None] = []

    def settle(self, reservation_id: str, model: str, usage: Usage | None) -> None:
        super().settle(reservation_id, model, usage)
        self.tries.append(usage)


@dataclass
class Caller:
    """A client, and the budget that pays for its calls."""

    client: OpenAIClient
    budget: RecordingBudget


@pytest.fixture(scope="session")
def running_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    log = tmp_path_factory.mktemp("endpoint") / "calls.jsonl"
    command = [sys.executable, "-m", "workers.embedded.endpoint", "--port", "0", "--calls-log", str(log)]
    environment = {**os.environ, ENDPOINT_KEY_VARIABLE: KEY, ENDPOINT_CONTROL_VARIABLE: "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        yield Service(process.stdout.readline().split()[-1], log)
        process.terminate()
        assert process.wait(10) in (0, -15)


@pytest.fixture
def service(running_service: Service) -> Service:
    """The endpoint without faults."""
    running_service.fail("")
    return running_service


@pytest.fixture
def call_as(service: Service, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Caller]:
    """A function that creates a caller; keyword arguments change the `Endpoint`."""
    monkeypatch.setenv("KEY_OF_THIS_TEST", KEY)
    standard = Endpoint(
        base_url=service.url,
        api_key_env="KEY_OF_THIS_TEST",
        timeout_s=10,
        max_tries=4,
        requests_per_minute=0,
        tokens_per_minute=0,
        price_prompt=2.0,
        price_cached=1.0,
        price_completion=10.0,
        budget_usd=0,
    )

    def make(**changes: Any) -> Caller:
        endpoint = dataclasses.replace(standard, **changes)
        budget = RecordingBudget(endpoint)
        return Caller(OpenAIClient(endpoint, LocalLimiter(0, 0), budget), budget)

    return make
