"""Runs, their plans, jobs, attempts and failures on a real Valkey."""

from __future__ import annotations

import dataclasses

import pytest
from simulated_run import RUN

from tasks.plan import Candidate, Merge, Plan
from tasks.records import Failure
from tasks.store.store import Store, record_use

PLAN = Plan(
    "offspring",
    0,
    (
        Candidate(0, (0.0, 1.5), "pad\nof two lines", target=1, parents=(2,)),
        Candidate(1, (1.0, 0.0), merge=Merge("a", 1.0, "b", 0.5)),
    ),
)
SCORED = {"0:pre:score": {"fitness": 1.0}}


def failure(name: str, attempt: int) -> Failure:
    return Failure("r", PLAN.name, name, f"g0_pop{name}", "score", "E", f"task-{name}", 1, float(name), attempt)


def test_the_first_record_of_a_stage_stands_until_a_different_plan_takes_its_name(store: Store) -> None:
    store.put_plan("r", PLAN)
    for fitness in (1.0, 2.0):
        store.put_stage("r", PLAN.name, "0:pre:score", {"fitness": fitness}, 1)
    store.put_plan("r", PLAN)
    assert store.plan("r", PLAN.name) == PLAN and store.stages("r", PLAN.name) == SCORED
    store.put_plan("r", dataclasses.replace(PLAN, candidates=PLAN.candidates[:1]))
    assert store.stages("r", PLAN.name) == {}


@pytest.mark.parametrize("forget", ["forget_stages", "forget_plans"])
def test_records_that_are_forgotten_are_not_written_again_by_a_task_of_an_earlier_attempt(
    store: Store, forget: str
) -> None:
    # Given a plan with a record, and a task of its first attempt that is still at work
    store.put_plan("r", PLAN)
    store.begin_attempt("r", PLAN.name, lambda failures: [])
    store.put_stage("r", PLAN.name, "0:pre:score", {"fitness": 3.0}, 1)
    # When the records are forgotten, and the task ends after that, and again when the plan is made anew
    getattr(store, forget)("r", [PLAN.name, "g9_child"])
    for _ in range(2):
        store.put_stage("r", PLAN.name, "1:pre:judge", {"by": "old"}, 1)
        assert store.stages("r", PLAN.name) == {}
        store.put_plan("r", PLAN)
    # Then only the next attempt leaves records
    attempt = store.begin_attempt("r", PLAN.name, lambda failures: [])
    store.put_stage("r", PLAN.name, "0:pre:score", {"fitness": 1.0}, attempt)
    assert store.stages("r", PLAN.name) == SCORED and store.plan("r", PLAN.name) == PLAN


def test_failures_are_forgotten_by_the_next_attempt(store: Store) -> None:
    store.put_plan("r", PLAN)
    assert store.begin_attempt("r", PLAN.name, lambda failures: []) == 1
    store.put_failure(failure("0", 1))
    assert store.failures("r") == store.failures("r", PLAN.name) == [failure("0", 1)]
    assert store.failures("r", "jobs") == []
    assert store.begin_attempt("r", PLAN.name, lambda failures: []) == 2
    assert store.failures("r") == []


def test_a_run_comes_back_as_it_went_in_newlines_and_all(store: Store) -> None:
    run = dataclasses.replace(RUN, target=dataclasses.replace(RUN.target, prompt_template="{context}\n\n"))
    store.put_run(run)
    assert store.run(run.id) == run


def test_lost_counters_are_restored_once_where_the_reply_is_lost_and_the_command_is_sent_again(store: Store) -> None:
    for _ in range(2):
        store.restore_usage("run-1", {"requests": 2, "cost_usd": 0.5})
    assert store.usage("run-1") == {"requests": 2, "cost_usd": 0.5}


def test_a_use_counts_once_for_each_question_that_it_shares(store: Store) -> None:
    assert [record_use(store.redis, ["q1", "q2"], use) for use in ("one", "one", "two")] == [1, 1, 2]
    assert record_use(store.redis, ["q2", "q3"], "three") == 3
    assert record_use(store.redis, ["q4"], "one") == 1
