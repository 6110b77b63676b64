"""The parts of a run that was not started: how many answers each generates, and how often its search calls."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from orchestrator.run_parts import GenerationWork, parts_of, planned_work
from orchestrator.runs.search import make_search
from orchestrator.settings import Settings, load_settings

ROOT = Path(__file__).parents[2]
SIZES = {"training": 64, "validation": 64, "test": 40}


@pytest.fixture(scope="module")
def settings() -> Settings:
    """Those of `make evolve`."""
    return load_settings(ROOT / "configs" / "cma.config", [f"DATA_PATH={ROOT}/configs/data/sample_questions.jsonl"])


def answers(settings: Settings, prompts: int = 14, **sizes: int) -> dict[str, int]:
    works = planned_work(make_search(settings))
    return {part.name: part.answers for part in parts_of(settings, works, settings.ngen, {**SIZES, **sizes}, prompts)}


def test_the_parts_of_make_evolve(settings: Settings) -> None:
    assert answers(settings) == {
        # 14 prompts answer the first 16 of 64 questions, 8 the next 16, and 5 the last 32
        "system prompts": 14 * 16 + 8 * 16 + 5 * 32,
        "reference": 3 * 64,  # the plain prompt, and two that may be the start
        "clusters": 2 * 64,  # two prompts that shorten
        # of both sets: four raised ends of a turn answer all questions with each of two prompts; in two lines 4 vectors
        # answer 16, then 2 and 1
        "vectors without search": 2 * (2 * 4 * 64 + 2 * (4 * 16 + 2 * 16 + 1 * 32)),
        "search": 2 * 6 * 64,
        "choice": 3 * 64,  # three finalists; the start has answered before
        "test": 6 * 40,  # plain, three prompts, a vector, the winner
    }


def test_what_a_run_does_not_do_counts_nothing(settings: Settings) -> None:
    bare = dataclasses.replace(
        settings, prompts_path=None, target_system_prompt="Answer.", initial_deltas_path=Path("zero"),
        clusters_by="meaning",
    )  # fmt: skip
    found = answers(bare, prompts=1, validation=0, test=0)
    assert found == {
        "system prompts": 64, "reference": 0, "clusters": 0, "vectors without search": 0, "search": 12 * 64,
        "choice": 0, "test": 0,
    }  # fmt: skip


def test_samples_and_sampled_answers_multiply(settings: Settings) -> None:
    sampled = dataclasses.replace(settings, samples=3, target_temperature=0.5)
    plain, found = answers(settings), answers(sampled)
    assert found["search"] == 3 * plain["search"]
    # finalists are measured twice more, and so is the start
    assert found["choice"] == 3 * (3 * 3 + 2) * 64
    # prompts and vectors stop after a part of the questions, however often each is answered
    before_the_search = ("system prompts", "vectors without search")
    few = answers(settings, training=24, validation=24)
    many = answers(sampled, training=24, validation=24)
    assert [many[part] for part in before_the_search] == [3 * few[part] for part in before_the_search]


def test_clusters_by_meaning_have_the_raises_alone(settings: Settings) -> None:
    by_meaning = dataclasses.replace(settings, clusters_by="meaning")
    assert answers(by_meaning)["vectors without search"] == 2 * 2 * 4 * 64
    # with a prompt of the user's own there is no other to raise them with
    own = dataclasses.replace(by_meaning, target_system_prompt="Answer.")
    assert answers(own)["vectors without search"] == 2 * 4 * 64


def test_a_line_asks_the_same_share_of_a_smaller_validation_set_and_without_one_training_alone(
    settings: Settings,
) -> None:
    # four raises answer everything with two prompts; of two lines with four vectors each the worse half stops, twice
    shared = answers(settings, validation=10)["vectors without search"]
    assert shared == 2 * 4 * (64 + 10) + 2 * (4 * (16 + 3) + 2 * (16 + 2) + 1 * (32 + 5))
    without = answers(settings, validation=0)["vectors without search"]
    assert without == 2 * 4 * 64 + 2 * (4 * 16 + 2 * 16 + 1 * 32)


def test_a_vector_counts_as_one_evaluation_of_each_set(settings: Settings) -> None:
    works = planned_work(make_search(settings))
    [part] = [part for part in parts_of(settings, works, 3, SIZES, 14) if part.name == "vectors without search"]
    assert part.evaluations == 2 * (2 * 4 + 4 + 4)


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
    assert next(part.answers for part in parts if part.name == "search") == 100 * 6 * 64
