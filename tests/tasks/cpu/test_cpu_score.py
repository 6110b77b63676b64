"""The score stage: it applies the objective of its run."""

from __future__ import annotations

import dataclasses

import pytest
from simulated_run import RUN

from tasks.cpu.score import score_stage
from tasks.objective import score_answers
from tasks.plan import Candidate, Plan
from tasks.records import Constrained, Fitness, Objective, Run
from tasks.stage import Stage
from tasks.store.store import Store

PLAN = Plan("population", 0, (Candidate(0, (0.0,)),))
TOKENS, RIGHT, WHOLE = (40, 60, 80), (True, False, True), (True, True, False)


@pytest.mark.parametrize("objective", [Fitness(0.4, 0.6, 50.0), Constrained(100.0, 0.5)])
def test_an_evaluation_is_scored_by_the_objective_of_its_run(store: Store, objective: Objective) -> None:
    # Given a run that came out of the store, and the records of a candidate
    store.put_run(dataclasses.replace(RUN, objective=objective))
    run: Run = store.run(RUN.id)
    store.put_plan(run.id, PLAN)
    answers = [{"key": "answer:0", "tokens": n, "whole": whole} for n, whole in zip(TOKENS, WHOLE, strict=True)]
    verdicts = [{"key": "verdict:0", "is_correct": right} for right in RIGHT]
    store.put_stage(run.id, PLAN.name, "0:pre:answer", {"answers": answers, "generated": 3}, 1)
    store.put_stage(run.id, PLAN.name, "0:pre:judge", {"verdicts": verdicts, "judged": 3}, 1)
    # When its score stage runs
    found = score_stage(Stage(store, run, PLAN, PLAN.candidates[0], "pre", 1))
    # Then the score is the objective's, and only the first answer is correct, being right and whole
    assert found == dataclasses.asdict(score_answers(TOKENS, (True, False, False), objective))
