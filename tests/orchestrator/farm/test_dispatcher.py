"""The loop in which a driver waits: lost messages, no progress, cancellation, for plans and for jobs alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulated_run import RUN, Driver, request

from orchestrator.farm import Parked
from orchestrator.farm.connection import FarmConnection
from orchestrator.farm.dispatcher import CANCELLED_REASON, MOST_RESENDS, Dispatcher
from orchestrator.farm.work import FarmEvaluator, Scheduler
from orchestrator.farm.workers import count_messages, drop_waiting
from orchestrator.runs.jobs import JOURNAL, Journal
from tasks.plan import Candidate, Plan, stage_refs
from tasks.records import Failure
from tasks.store.client import RunTaken
from tasks.store.keys import CANCELLED

PLAN = Plan("population", 0, (Candidate(0, (0.0,)), Candidate(1, (1.0,))))
SCORE = {"fitness": 0.5, "shortness": 0.5, "correctness": 0.5, "mean_tokens": 1.0}


def dispatcher(driver: Driver, no_progress_s: float, **more: Any) -> Dispatcher:
    farm = FarmConnection(driver.app, driver.broker, driver.store, False, lambda: None)
    return Dispatcher(farm, RUN.id, no_progress_s, notify=driver.messages.append, **more)


def failure(record: str, name: str, error: str = "E") -> Failure:
    return Failure(RUN.id, record, name, "node", "answer", error, "task", 1, time.time(), 1)


def lose_twice(driver: Driver, failed: Failure, finish: Callable[[], None]) -> tuple[Callable[..., None], list[int]]:
    """Fails one of two and loses all messages that wait, and then does the work; gives how many waited each time."""
    sent: list[int] = []

    def watch(*_: object) -> None:
        if not sent:
            driver.store.put_failure(failed)
        if waiting := count_messages(driver.broker, RUN.id):
            sent.append(waiting)
            drop_waiting(driver.broker, RUN.id)
        if len(sent) == 2:
            driver.store.forget_failure(failed)
            finish()

    return watch, sent


def test_lost_messages_of_a_plan_are_sent_again_and_those_that_failed_are_not(alone: Driver) -> None:
    def score() -> None:
        for ref in (ref for candidate in PLAN.candidates for ref in stage_refs(candidate)):
            alone.store.put_stage(RUN.id, PLAN.name, ref.field, {**SCORE, "generated": 1}, 1)

    watch, sent = lose_twice(alone, failure(PLAN.name, "1"), score)
    evaluate = FarmEvaluator(dispatcher(alone, 30, lost_message_timeout_s=1.0), watch)
    # When the driver has waited, then both were sent at first, and then the one that no worker had in hand
    assert [outcome.index for outcome in evaluate(PLAN)] == [0, 1]
    assert sent == [2, 1]


def test_lost_messages_of_jobs_are_sent_again_and_those_that_failed_are_not(alone: Driver) -> None:
    def finish() -> None:
        for job in jobs:
            alone.store.put_shared(RUN.id, job.key, {"label": job.spec.label})

    jobs = [request("a/0"), request("a/1")]
    watch, sent = lose_twice(alone, failure("jobs", jobs[1].key), finish)
    scheduler = Scheduler(dispatcher(alone, 30, lost_message_timeout_s=1.0))
    for job in jobs:
        scheduler.submit(job)
    assert {result["label"] for _, result in scheduler.results(watch)} == {"a/0", "a/1"}
    assert sent == [2, 1]


def test_a_run_whose_messages_are_always_lost_parks(alone: Driver) -> None:
    scheduler = Scheduler(dispatcher(alone, 30, lost_message_timeout_s=0.1))
    scheduler.submit(request("a/0"))
    with pytest.raises(Parked, match=f"no job has finished or failed, though it was sent {MOST_RESENDS + 1} times"):
        list(scheduler.results(lambda: drop_waiting(alone.broker, RUN.id)))


def test_without_progress_the_run_parks(alone: Driver) -> None:
    def fail_late(*_: object) -> None:
        for name in ("0", "1"):
            alone.store.put_failure(failure(PLAN.name, name))  # of attempt 1

    # A failure of an earlier attempt does not count, of a plan and of a job
    for watch in (lambda *_: None, fail_late):
        with pytest.raises(Parked, match="no stage of g0_pop has finished for 0 s"):
            FarmEvaluator(dispatcher(alone, 0.5), watch)(PLAN)
    late = failure("jobs", request("a/0").key)
    alone.store.put_failure(late)
    earlier, scheduler = (Scheduler(dispatcher(alone, 0.5)) for _ in range(2))
    scheduler.submit(request("a/0"))
    alone.store.put_failure(late)  # of attempt 1, recorded late
    with pytest.raises(Parked, match="no job has finished for 0 s"):
        list(scheduler.results())
    assert scheduler.attempt == earlier.attempt + 1


def test_neither_a_spent_budget_nor_a_cancelled_run_is_waited_for(alone: Driver) -> None:
    # Given a driver that would wait for a retry of what failed
    scheduler, job = Scheduler(dispatcher(alone, 60, retry_wait_s=60)), request("a/0")
    scheduler.submit(job)
    alone.store.put_failure(failure("jobs", job.key, "BudgetSpent: 5 of 5 US dollars"))
    # When the failure is that of a budget, which only a new start can raise, then the run parks at once
    with pytest.raises(Parked) as parked:
        list(scheduler.results())
    assert parked.value.budget_exhausted and alone.messages == []  # it has said nothing of waiting
    # When it is cancelled, then it parks for that reason
    scheduler = Scheduler(dispatcher(alone, 60))
    scheduler.submit(job)
    alone.store.put_metadata(RUN.id, CANCELLED, "1")
    with pytest.raises(Parked) as parked:
        list(scheduler.results())
    assert parked.value.reason == CANCELLED_REASON


def test_a_result_is_in_the_journal_before_it_is_given_and_is_put_into_a_store_that_has_none(
    alone: Driver, tmp_path: Path
) -> None:
    lost, held, new, other = map(request, ("lost", "held", "new", "other"))
    Journal(tmp_path / JOURNAL).add({job.key: {"of": "the journal"} for job in (lost, held)})
    for job in (held, other):
        alone.store.put_shared(RUN.id, job.key, {"of": "the store"})
    scheduler, journal = Scheduler(dispatcher(alone, 60)), Journal(tmp_path / JOURNAL)
    for job in (lost, held, new):
        scheduler.submit(job, journal)
    scheduler.submit(other)
    found = {}
    for job, result in scheduler.results(lambda: alone.store.put_shared(RUN.id, new.key, {"of": "a worker"})):
        found[job.spec.label] = result["of"]
        assert job == other or job.key in Journal(tmp_path / JOURNAL).results
    assert found == {"lost": "the journal", "held": "the store", "new": "a worker", "other": "the store"}
    assert [*Journal(tmp_path / JOURNAL).results] == [lost.key, held.key, new.key]


def test_of_a_run_that_another_process_has_taken_nothing_is_written(alone: Driver, tmp_path: Path) -> None:
    def taken() -> None:
        raise RunTaken("by another")

    farm = FarmConnection(alone.app, alone.broker, alone.store, False, taken)
    scheduler, job = Scheduler(Dispatcher(farm, RUN.id, 60)), request("a/0")
    alone.store.put_shared(RUN.id, job.key, {})
    scheduler.submit(job, Journal(tmp_path / JOURNAL))
    with pytest.raises(RunTaken):
        list(scheduler.results())
    assert not (tmp_path / JOURNAL).exists()
