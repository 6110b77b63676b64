"""An endpoint with faults on request, and clients for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from rules_server import KEY, RulesServer, rules_server

from tasks.openai.budget import LocalBudget
from tasks.openai.client import OpenAIClient
from tasks.openai.endpoint import Usage
from tasks.openai.limits import LocalLimiter
from tasks.records import Endpoint


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
        budget = RecordingBudget(endpoint)
        return Caller(OpenAIClient(endpoint, LocalLimiter(0, 0), budget), budget)

    return make
