"""Plans, jobs, their attempts and failures on a real Valkey."""

from __future__ import annotations

import dataclasses

from tasks.plan import Candidate, Merge, Plan
from tasks.records import Failure
from tasks.store.store import Store

PLAN = Plan(
    "offspring",
    0,
    (
        Candidate(0, (0.0, 1.5), "pad\nof two lines", target=1, parents=(2,)),
        Candidate(1, (1.0, 0.0), merge=Merge("a", 1.0, "b", 0.5)),
    ),
)


def test_a_plan_keeps_its_stages_until_a_different_plan_takes_its_name(store: Store) -> None:
    store.put_plan("r", PLAN)
    store.put_stage("r", PLAN.name, "0:pre:score", {"fitness": 1.0}, 1)
    store.put_plan("r", PLAN)
    assert store.plan("r", PLAN.name) == PLAN
    assert store.stages("r", PLAN.name) == {"0:pre:score": {"fitness": 1.0}}
    store.put_plan("r", dataclasses.replace(PLAN, candidates=PLAN.candidates[:1]))
    assert store.stages("r", PLAN.name) == {}


def test_the_first_record_of_a_stage_stands(store: Store) -> None:
    store.put_plan("r", PLAN)
    store.put_stage("r", PLAN.name, "0:pre:score", {"fitness": 1.0}, 1)
    store.put_stage("r", PLAN.name, "0:pre:score", {"fitness": 2.0}, 1)
    assert store.stage("r", PLAN.name, "0:pre:score") == {"fitness": 1.0}


def test_records_that_are_forgotten_are_not_written_again_by_a_task_of_an_earlier_attempt(store: Store) -> None:
    # Given a plan with a record, and a task of its first attempt that is still at work
    store.put_plan("r", PLAN)
    store.begin_attempt("r", PLAN.name, lambda failures: [])
    store.put_stage("r", PLAN.name, "0:pre:judge", {"by": "old"}, 1)
    # When the records are forgotten, and the task ends after that
    store.forget_stages("r", [PLAN.name, "g9_child"])
    store.put_stage("r", PLAN.name, "1:pre:judge", {"by": "old"}, 1)
    assert store.stages("r", PLAN.name) == {}
    # Then only the next attempt leaves records
    assert store.begin_attempt("r", PLAN.name, lambda failures: []) == 2
    store.put_stage("r", PLAN.name, "1:pre:judge", {"by": "new"}, 2)
    assert store.stages("r", PLAN.name) == {"1:pre:judge": {"by": "new"}}
    assert store.plan("r", PLAN.name) == PLAN


def failure(name: str, attempt: int) -> Failure:
    return Failure("r", PLAN.name, name, f"g0_pop{name}", "score", "E", f"task-{name}", 1, float(name), attempt)


def test_failures_are_forgotten_by_the_next_attempt(store: Store) -> None:
    store.put_plan("r", PLAN)
    assert store.begin_attempt("r", PLAN.name, lambda failures: []) == 1
    store.put_failure(failure("0", 1))
    assert store.failures("r") == store.failures("r", PLAN.name) == [failure("0", 1)]
    assert store.failures("r", "jobs") == []
    assert store.begin_attempt("r", PLAN.name, lambda failures: []) == 2
    assert store.failures("r") == []
