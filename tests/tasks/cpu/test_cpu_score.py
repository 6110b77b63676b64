"""The score stage: it applies the objective of its run."""

from __future__ import annotations

import dataclasses

import pytest
from simulated_run import RUN

from tasks.cpu.score import score_stage
from tasks.models import Constrained, Fitness, Objective, Run
from tasks.objective import score_answers
from tasks.plan import Candidate, Plan
from tasks.stage import Stage
from tasks.store.store import Store

PLAN = Plan("g0_pop", 0, (Candidate(0, (0.0,)),))
TOKENS, CORRECT = (40, 60), (True, False)


@pytest.mark.parametrize("objective", [Fitness(0.4, 0.6, 50.0), Constrained(100.0, 0.5)])
def test_an_evaluation_is_scored_by_the_objective_of_its_run(store: Store, objective: Objective) -> None:
    # Given a run that came out of the store, and the records of a candidate
    store.put_run(dataclasses.replace(RUN, objective=objective))
    run: Run = store.run(RUN.id)
    store.put_plan(run.id, PLAN)
    answers = [{"key": "answer:0", "tokens": tokens, "finish": "stop"} for tokens in TOKENS]
    verdicts = [{"key": "verdict:0", "is_correct": correct} for correct in CORRECT]
    store.put_stage(run.id, PLAN.name, "0:pre:answer", {"answers": answers, "generated": 2}, 1)
    store.put_stage(run.id, PLAN.name, "0:pre:judge", {"verdicts": verdicts, "judged": 2}, 1)
    # When its score stage runs
    found = score_stage(Stage(store, run, PLAN, PLAN.candidates[0], "pre", 1))
    # Then the score is the objective's
    assert found == dataclasses.asdict(score_answers(TOKENS, CORRECT, objective))
