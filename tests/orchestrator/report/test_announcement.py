"""The first line of a run: who answers, and what it may cost at most."""

from __future__ import annotations

import dataclasses

import pytest

from orchestrator.report.announcement import announce, highest_cost, provider_at
from orchestrator.report.formatting import format_cost, format_money
from tasks.models import Endpoint

ENDPOINT = Endpoint("https://api.example/v1", "K", 1, 1, 0, 0, 2.0, 1.0, 8.0, 0.0)


@pytest.mark.parametrize(
    ("changes", "rules", "cost"),
    [
        ({"budget_usd": 50.0}, False, "at most $50.00"),
        ({}, False, "without limit, since no budget is set"),
        ({"price_cached": None}, False, "unknown, since the prices are not set"),
        ({"price_prompt": 0.0, "price_cached": 0.0, "price_completion": 0.0}, True, "free"),
        ({"budget_usd": 0.1}, True, "at most $0.1000"),  # rules with a price, as a test of a budget has them
    ],
)
def test_the_most_that_a_run_may_cost(changes: dict[str, float | None], rules: bool, cost: str) -> None:
    assert highest_cost(dataclasses.replace(ENDPOINT, **changes), rules=rules) == cost


def test_a_provider_is_named_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://from-the-environment/v1")
    nowhere = dataclasses.replace(ENDPOINT, base_url="")
    assert provider_at("m", ENDPOINT, rules=False, external=True) == "m at https://api.example/v1"
    assert provider_at("m", nowhere, rules=False) == "m at http://from-the-environment/v1"
    assert "the workers' OPENAI_BASE_URL" in provider_at("m", nowhere, rules=False, external=True)
    assert provider_at("m", ENDPOINT, rules=True).startswith("rules of the embedded endpoint")


def test_it_is_one_line_that_cannot_act_on_a_terminal() -> None:
    assert announce("a\n\x1b[2J", "b", "free") == "reflector: a \\x1b[2J; judge: b; cost: free"


def test_an_unknown_cost_is_not_free() -> None:
    assert (format_money(None), format_money(0)) == ("unknown", "free")
    assert format_cost(None, 0.0) == "unknown"
