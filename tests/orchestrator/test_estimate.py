"""The estimate of a run: what the answers and calls of its parts take."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from orchestrator.estimate import Amount, CallSize, CallSizes, Rates, RunEstimate, estimate_run
from orchestrator.run_parts import Part
from orchestrator.settings import Settings, load_settings
from orchestrator.settings.run import endpoint_of
from tasks.models import Endpoint

ROOT = Path(__file__).parents[2]
RATES = Rates(
    start_s=10, prompt_s=0.1, token_s=0.01, tokens={"plain": 50, "prompts": 30, "searched": 20}, overhead_s=1,
    clustering_s=5, source="a test",
)  # fmt: skip


@pytest.fixture(scope="module")
def settings() -> Settings:
    """Those of `make evolve`."""
    return load_settings(ROOT / "configs" / "cma.config", [f"DATA_PATH={ROOT}/configs/data/sample_questions.jsonl"])


@pytest.fixture
def endpoint(settings: Settings) -> Endpoint:
    """Two dollars a million prompt tokens, ten a million others, and limits that do not matter."""
    return dataclasses.replace(endpoint_of(settings), price_prompt=2.0, price_cached=1.0, price_completion=10.0)


def estimated(parts: list[Part], settings: Settings, calls: CallSizes, endpoint: Endpoint) -> RunEstimate:
    return estimate_run(parts, settings, RATES, calls, endpoint)


def test_time_is_answers_by_tokens_by_rate(settings: Settings, endpoint: Endpoint) -> None:
    parts = [Part("search", 2, 100, prompts=10, plans=3, length="searched"), Part("test", 0, 0)]
    found = estimated(parts, settings, CallSizes(), endpoint)
    assert found.expected.seconds == pytest.approx(10 + 100 * 20 * 0.01 + 10 * 0.1 + 3)
    cap = settings.target_max_new_tokens
    assert found.most.seconds == pytest.approx(10 + 5 + 100 * (cap * 0.01 + 0.1) + 3)
    assert (found.tokens, found.answers, found.expected.dollars) == (2000, 100, 0)


def test_cost_is_calls_by_prices_and_limits_take_time(settings: Settings, endpoint: Endpoint) -> None:
    limited = dataclasses.replace(endpoint, tokens_per_minute=10_000)
    calls = CallSizes(verdict=CallSize(400, 50, 500, 100, share=0.5), reflection=CallSize(1000, 200, 2000, 300))
    found = estimated([Part("search", 2, 100, reflections=4)], settings, calls, limited)
    assert found.expected == Amount(
        pytest.approx(10 + (50 * 500 + 4 * 1300) / 10_000 * 60 + 1),
        54,
        pytest.approx((50 * (400 * 2 + 50 * 10) + 4 * (1000 * 2 + 200 * 10)) / 1e6),
    )
    assert found.most.calls == 104
    assert found.most.dollars == pytest.approx((100 * (500 * 2 + 100 * 10) + 4 * (2000 * 2 + 300 * 10)) / 1e6)


def test_without_prices_the_cost_of_calls_is_unknown(settings: Settings, endpoint: Endpoint) -> None:
    unknown = dataclasses.replace(endpoint, price_completion=None)
    calls = CallSizes(verdict=CallSize(400, 50, 500, 100))
    assert estimated([Part("test", 1, 10)], settings, calls, unknown).expected.dollars is None
    assert estimated([Part("test", 1, 10)], settings, CallSizes(), unknown).expected.dollars == 0
