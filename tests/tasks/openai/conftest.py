"""An endpoint with faults on request, and clients for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from rules_server import KEY, RulesServer, rules_server

from tasks.openai.client import OpenAIClient
from tasks.openai.endpoint import Usage
from tasks.openai.limits import Limits
from tasks.records import Endpoint


class RecordingLimits(Limits):
    """Limits that also record each try: its usage, or None when that is unknown."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.tries: list[Usage | None] = []

    def settle(self, call: str, model: str, usage: Usage | None) -> None:
        super().settle(call, model, usage)
        self.tries.append(usage)


@dataclass
class Caller:
    """A client, and what its calls spend."""

    client: OpenAIClient
    budget: RecordingLimits


@pytest.fixture(scope="session")
def running_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RulesServer]:
    with rules_server(tmp_path_factory.mktemp("endpoint") / "calls.jsonl") as server:
        yield server


@pytest.fixture
def service(running_service: RulesServer) -> RulesServer:
    """The endpoint without faults."""
    running_service.fail("")
    return running_service


@pytest.fixture
def call_as(service: RulesServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Caller]:
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
        limits = RecordingLimits(endpoint)
        return Caller(OpenAIClient(endpoint, limits), limits)

    return make
