"""When a search ends before its last generation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from orchestrator.optimisers.base import Best, SearchState
from orchestrator.optimisers.generation import Generation
from orchestrator.runs.patience import stop_reason, with_validation, without_improvement
from orchestrator.runs.search import FinishedGeneration
from tasks.models import Constrained, Fitness, Score
from tasks.plan import Evaluations, Outcome, Plan

SCORE = Score(0.7, 0.5, 0.5, 10.0)
EASY = Fitness(0.0, 1.0, 10.0)


def line(generation: int, fitness: float | None, best_ever: float = 0.5) -> dict[str, Any]:
    validation = {} if fitness is None else {"validation": {"fitness": fitness}}
    return {"generation": generation, "best_ever": best_ever, **validation}


def history(*fitness: float | None) -> list[dict[str, Any]]:
    return [line(generation, value) for generation, value in enumerate(fitness)]


class Farm:
    """Gives every candidate the same score, and remembers the plans."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []

    def __call__(self, plan: Plan) -> Sequence[Outcome]:
        self.plans.append(plan)
        return [Outcome(c.index, "", SCORE, None, "", None, {}, evaluations=Evaluations(1)) for c in plan.candidates]


def finished(number: int, fitness: float) -> FinishedGeneration:
    state = SearchState(generation=number + 1, best=Best((0.5,), "", fitness))
    return FinishedGeneration(Generation(number, ()), state, {}, Evaluations(4))


@pytest.mark.parametrize(
    ("fitness", "ago"),
    [((), 0), ((0.5,), 0), ((0.5, 0.6), 0), ((0.5, 0.5, 0.5), 2), ((0.6, 0.5, 0.55), 2), ((None, 0.6, 0.5), 1)],
)
def test_generations_since_the_validation_fitness_rose(fitness: tuple[float | None, ...], ago: int) -> None:
    assert without_improvement(history(*fitness)) == ago


def test_a_search_stops_when_patience_is_used_up_and_generations_are_left() -> None:
    lines = history(0.6, 0.5, 0.6)
    assert "has not improved for the last 2 generations" in stop_reason(lines, 2, 10)
    assert "for the last generation" in stop_reason(history(0.6, 0.5), 1, 10)
    assert stop_reason(lines, 3, 10) == stop_reason(lines, 0, 10) == stop_reason(lines, 2, 3) == ""


def test_what_another_judge_has_scored_does_not_count() -> None:
    assert stop_reason(history(0.9, 0.5, 0.6), 2, 10, judged_since=1) == ""
    assert without_improvement(history(0.9, 0.5, 0.6), judged_since=3) == 0


def test_a_new_best_is_validated_once() -> None:
    # Given a generation with a new best
    farm = Farm()
    first = with_validation(finished(3, 0.5), [line(2, 0.4, best_ever=0.4)], farm, EASY)
    # Then it answers the validation set in a plan of its own, and that counts as an evaluation
    assert [plan.name for plan in farm.plans] == ["g3_valid"]
    [candidate] = farm.plans[0].candidates
    assert (candidate.deltas, candidate.examples) == ((0.5,), "validation")
    assert first.validation is not None and first.validation["fitness"] == 0.5
    assert first.evaluations == Evaluations(5)
    # When the best stays, then its score is taken over
    history = [{**line(3, None, 0.5), "validation": first.validation}]
    second = with_validation(finished(4, 0.5), history, farm, EASY)
    assert (second.validation, len(farm.plans)) == (first.validation, 1)
    # When another judge has scored it since, then it is validated again
    with_validation(finished(4, 0.5), history, farm, EASY, judged_since=4)
    assert len(farm.plans) == 2


def test_the_best_is_not_said_to_have_lost_answers_because_the_validation_set_is_harder() -> None:
    # given a start with 20 tokens and half of the answers right on the validation set, and a best with 10 tokens
    found = with_validation(finished(3, 2.0), [], Farm(), Constrained(20.0, 0.5))
    # when and then: it is half as long and has lost nothing
    assert found.validation == pytest.approx({**dataclasses.asdict(SCORE), "fitness": 2.0, "shortness": 2 / 3})
