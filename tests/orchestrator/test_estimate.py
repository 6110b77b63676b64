"""The estimate of a run: how many answers each part generates, and what they and the calls take."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from orchestrator.estimate import (
    Amount,
    CallSize,
    CallSizes,
    GenerationWork,
    Part,
    Rates,
    RunEstimate,
    estimate_run,
    parts_of,
    planned_work,
)
from orchestrator.runs.search import make_search
from orchestrator.settings import Settings, load_settings
from orchestrator.settings.run import endpoint_of
from tasks.models import Endpoint

ROOT = Path(__file__).parents[2]
SIZES = {"training": 24, "validation": 40, "test": 40}
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


def answers(settings: Settings, prompts: int = 13, **sizes: int) -> dict[str, int]:
    works = planned_work(make_search(settings))
    return {part.name: part.answers for part in parts_of(settings, works, settings.ngen, {**SIZES, **sizes}, prompts)}


def test_the_parts_of_make_evolve(settings: Settings) -> None:
    assert answers(settings) == {
        # 13 prompts answer the first 10 of 40 questions, 7 the next 10, and 4 the last 20
        "system prompts": 13 * 10 + 7 * 10 + 4 * 20,
        "reference": 4 * 24,  # the plain prompt, and three that may be the start
        "clusters": 3 * 24,  # three prompts that shorten
        "vectors without search": 3 * 4 * 24,  # three lines of four
        "search": 3 * 6 * 24,
        "choice": (4 + 3) * 40,  # four finalists, and the best of three lines
        "test": 6 * 40,  # plain, three prompts, a vector, the winner
    }


def test_what_a_run_does_not_do_counts_nothing(settings: Settings) -> None:
    bare = dataclasses.replace(
        settings, prompts_path=None, target_system_prompt="Answer.", initial_deltas_path=Path("zero"),
        clusters_by="meaning",
    )  # fmt: skip
    found = answers(bare, prompts=1, validation=0, test=0)
    assert found == {
        "system prompts": 24, "reference": 0, "clusters": 0, "vectors without search": 0, "search": 18 * 24,
        "choice": 0, "test": 0,
    }  # fmt: skip


def test_samples_and_sampled_answers_multiply(settings: Settings) -> None:
    sampled = dataclasses.replace(settings, samples=3, target_temperature=0.5)
    plain, found = answers(settings), answers(sampled)
    assert found["search"] == 3 * plain["search"]
    assert found["choice"] == 3 * (4 * 3 + 3) * 40  # finalists are measured twice more


@pytest.mark.parametrize(
    ("optimiser", "first", "later"),
    [
        ("cma", GenerationWork(6, 0, 0, 1), GenerationWork(6, 0, 0, 1)),
        ("random", GenerationWork(5, 0, 0, 1), GenerationWork(6, 0, 0, 1)),  # the first draw is the start
        ("hybrid", GenerationWork(6, 2, 0, 1), GenerationWork(6, 2, 0, 1)),
        ("lineage", GenerationWork(0, 1, 0, 1), GenerationWork(1, 1, 0, 1)),
    ],
)
def test_the_work_of_a_generation_is_what_its_plans_ask_for_the_first_time(
    settings: Settings, optimiser: str, first: GenerationWork, later: GenerationWork
) -> None:
    works = planned_work(make_search(dataclasses.replace(settings, optimiser=optimiser, ngen=4)))
    assert (works[0], works[1], len(works)) == (first, later, 4)


def test_a_genetic_search_reflects_and_merges_as_often_as_it_draws(settings: Settings) -> None:
    genetic = dataclasses.replace(settings, optimiser="reflective", population_size=21, ngen=40, cxpb=0.5, mutpb=0.8)
    works = planned_work(make_search(genetic))[1:]
    reflections, merges = (
        sum(getattr(work, name) for work in works) / len(works) for name in ("reflections", "merges")
    )
    assert reflections == pytest.approx(20 * 0.8, abs=2) and merges == pytest.approx(20 * 0.5, abs=2)


def test_generations_that_are_not_planned_count_as_the_mean_of_later_ones(settings: Settings) -> None:
    works = planned_work(make_search(settings))
    parts = parts_of(settings, works, 100, SIZES, 13)
    assert next(part.answers for part in parts if part.name == "search") == 100 * 6 * 24


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
