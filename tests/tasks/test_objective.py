"""What a candidate is worth, under either objective; the score stage applies that of its run."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_run import RUN

from tasks.cpu.score import score_stage
from tasks.objective import cost_of, fitness_of, score_answers
from tasks.plan import Candidate, Plan
from tasks.records import Constrained, Fitness, Run
from tasks.stage import Stage
from tasks.store.store import Store

SPECIFICATION = Fitness(0.4, 0.6, 50.0)
BASELINE = Constrained(baseline_tokens=100.0, baseline_correctness=0.6)


def test_the_specified_formula() -> None:
    found = score_answers([40, 60], [True, False], SPECIFICATION)
    assert (found.mean_tokens, found.shortness, found.correctness) == (50, 0.5, 0.5)
    assert found.fitness == pytest.approx(0.4 * 0.5 + 0.6 * 0.5)


@given(st.lists(st.tuples(st.integers(0, 5000), st.booleans()), min_size=1))
def test_the_specified_fitness_lies_between_nothing_and_the_weights_and_shorter_is_never_worse(
    graded: list[tuple[int, bool]],
) -> None:
    tokens, correct = [t for t, _ in graded], [c for _, c in graded]
    found = score_answers(tokens, correct, SPECIFICATION)
    assert 0 <= found.fitness <= 1
    assert score_answers([t // 2 for t in tokens], correct, SPECIFICATION).fitness >= found.fitness


def test_the_baseline_is_worth_one_half_its_length_two_and_empty_answers_nothing() -> None:
    correct = [True] * 6 + [False] * 4
    assert score_answers([100] * 10, correct, BASELINE).fitness == pytest.approx(1.0)
    assert score_answers([50] * 10, correct, BASELINE).fitness == pytest.approx(2.0)
    silent = score_answers([0] * 10, [False] * 10, BASELINE)
    assert 0 < silent.fitness < 1e-12 and silent.shortness == 1.0


def test_a_lost_point_costs_six_percent_of_the_tokens_and_a_gained_one_is_worth_two() -> None:
    assert cost_of(100.0, 0.59, BASELINE) == pytest.approx(0.06)
    assert cost_of(100.0, 0.61, BASELINE) == pytest.approx(-0.02)
    assert cost_of(100.0 * math.exp(-0.06), 0.59, BASELINE) == pytest.approx(0.0)
    assert cost_of(100.0, 0.57, BASELINE) == pytest.approx(0.24)
    assert cost_of(25.0, 0.50, BASELINE) > 0 > cost_of(20.0, 0.50, BASELINE)


@pytest.mark.parametrize("objective", [SPECIFICATION, BASELINE])
def test_fewer_tokens_and_more_right_answers_are_better_and_none_have_no_score(objective: Any) -> None:
    assert fitness_of(50, 0.6, objective) > fitness_of(51, 0.6, objective) > 0
    assert fitness_of(50, 0.6, objective) > fitness_of(50, 0.59, objective) > fitness_of(50, 0.0, objective) > 0
    for tokens, correct in (([], []), ([1], []), ([1, 2], [True])):
        with pytest.raises(ValueError, match="cannot be scored"):
            score_answers(tokens, correct, objective)


@pytest.mark.parametrize("objective", [SPECIFICATION, BASELINE])
def test_an_evaluation_is_scored_by_the_objective_of_its_run(store: Store, objective: Any) -> None:
    # Given a run that came out of the store, and the records of a candidate
    store.put_run(dataclasses.replace(RUN, objective=objective))
    run: Run = store.run(RUN.id)
    plan, tokens = Plan("population", 0, (Candidate(0, (0.0,)),)), (40, 60, 80)
    store.put_plan(run.id, plan)
    whole, right = (True, True, False), (True, False, True)
    answers = [{"key": "answer:0", "tokens": n, "whole": one} for n, one in zip(tokens, whole, strict=True)]
    verdicts = [{"key": "verdict:0", "is_correct": one} for one in right]
    store.put_stage(run.id, plan.name, "0:pre:answer", {"answers": answers, "generated": 3}, 1)
    store.put_stage(run.id, plan.name, "0:pre:judge", {"verdicts": verdicts, "judged": 3}, 1)
    # When its score stage runs, then only the first answer is correct, being right and whole
    found = score_stage(Stage(store, run, plan, plan.candidates[0], "pre", 1))
    assert found == dataclasses.asdict(score_answers(tokens, (True, False, False), objective))
