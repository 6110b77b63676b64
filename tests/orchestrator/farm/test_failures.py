"""What failed can be retried, all of it or some, and nothing that was done is done again."""

from __future__ import annotations

import pytest
from farm_bench import until
from simulated_run import PLAN, RUN, Driver, request

from orchestrator.farm import Parked
from orchestrator.runs.lifecycle import failed_tasks, retry_failed
from orchestrator.settings import SettingsError
from tasks.records import Failure

NODES = tuple(PLAN.node(i, "mut") for i in range(3))


def fail_two(driver: Driver) -> list[Failure]:
    """A run that has parked, since the reflector failed for two of three children."""
    for node in NODES[:2]:
        driver.set_signal("fail", "reflect", node)
    with pytest.raises(Parked, match=r"reflect of .* failed: RuntimeError: as it was told \(and 1 more"):
        driver.evaluate().result(timeout=60)
    for node in NODES[:2]:
        driver.clear_signal("fail", "reflect", node)
    return failed_tasks(driver.store, RUN.id)


def counts(driver: Driver) -> list[int]:
    return [driver.began("reflect", node) for node in NODES]


def test_what_failed_is_listed_with_who_what_why_and_how_often(driver: Driver) -> None:
    failed = {one.node: one for one in fail_two(driver)}
    assert set(failed) == set(NODES[:2])
    first = failed[NODES[0]]
    assert (first.stage, first.error, first.tries, first.record, first.attempt) == (
        "reflect",
        "RuntimeError: as it was told",
        1,
        "g1_child",
        1,
    )
    # When it fails again, then it has been tried twice
    driver.set_signal("fail", "reflect", NODES[0])
    with pytest.raises(Parked):
        driver.evaluate(only=(NODES[0],)).result(timeout=60)
    assert next(one.tries for one in failed_tasks(driver.store, RUN.id) if one.node == NODES[0]) == 2


def test_a_driver_that_starts_again_does_only_the_named_ones(driver: Driver) -> None:
    failed = fail_two(driver)
    # When one is named, by the beginning of its task's id, then the run parks with the other one, untouched
    named = next(one for one in failed if one.node == NODES[0])
    with pytest.raises(Parked) as parked:
        driver.evaluate(only=(named.task[:8],)).result(timeout=60)
    assert [one.node for one in parked.value.failures] == [NODES[1]]
    assert counts(driver) == [2, 1, 1]
    # When nothing is named, then the rest is done, and nothing twice
    assert len(driver.evaluate().result(timeout=60)) == 3
    assert counts(driver) == [2, 2, 1]
    assert all(driver.began("answer", PLAN.node(i, "pre")) == 1 for i in range(3))


def test_a_driver_that_waits_for_a_retry_goes_on_by_itself(driver: Driver) -> None:
    # Given a driver that has said that nothing is left but a failure
    driver.set_signal("fail", "reflect", NODES[1])
    waiting = driver.evaluate(retry_wait_s=60)
    until(lambda: driver.messages)
    assert "reflect of g1_child1_mut failed" in driver.messages[0]
    # When the failed task is retried by somebody else, then the driver has all outcomes
    driver.clear_signal("fail", "reflect", NODES[1])
    assert [one.node for one in retry_failed(driver.app, driver.store, RUN.id)] == [NODES[1]]
    assert [outcome.delta for outcome in waiting.result(timeout=60)] == [0.25] * 3
    assert counts(driver) == [1, 2, 1]
    assert failed_tasks(driver.store, RUN.id) == []


def test_a_task_can_be_retried_while_others_are_at_work(driver: Driver) -> None:
    # Given one child that failed and one that is held
    driver.set_signal("fail", "reflect", NODES[0])
    driver.set_signal("hold", "reflect", NODES[2])
    waiting = driver.evaluate()
    until(lambda: failed_tasks(driver.store, RUN.id))
    driver.clear_signal("fail", "reflect", NODES[0])
    assert len(retry_failed(driver.app, driver.store, RUN.id, [NODES[0]])) == 1
    until(lambda: driver.began("score", NODES[0]))
    driver.clear_signal("hold", "reflect", NODES[2])
    assert len(waiting.result(timeout=60)) == 3
    assert counts(driver) == [2, 1, 1]


def test_of_two_who_retry_at_once_one_has_it_sent(driver: Driver) -> None:
    fail_two(driver)
    sent = [retry_failed(driver.app, driver.store, RUN.id) for _ in range(2)]
    assert [len(one) for one in sent] == [2, 0]
    until(lambda: all(driver.began("score", node) for node in NODES))
    assert counts(driver) == [2, 2, 1]
    assert len(driver.evaluate().result(timeout=60)) == 3


def test_a_name_that_nothing_failed_by_sends_nothing(driver: Driver) -> None:
    fail_two(driver)
    with pytest.raises(SettingsError, match=r"'g9_child9_mut'; these have failed: g1_child._mut \(.*, g1_child._mut"):
        retry_failed(driver.app, driver.store, RUN.id, [NODES[0], "g9_child9_mut"])
    assert counts(driver) == [1, 1, 1]
    assert len(failed_tasks(driver.store, RUN.id)) == 2


# The same for jobs.

JOBS = [request(label) for label in ("a/0", "a/1", "b/0")]


def fail_two_jobs(driver: Driver) -> list[Failure]:
    for job in JOBS[:2]:
        driver.set_signal("fail", "compress", job.spec.label)
    with pytest.raises(Parked, match=r"compress of ./. failed: RuntimeError: as it was told"):
        driver.schedule(*JOBS).result(timeout=60)
    for job in JOBS[:2]:
        driver.clear_signal("fail", "compress", job.spec.label)
    return failed_tasks(driver.store, RUN.id)


def job_counts(driver: Driver) -> list[int]:
    return [driver.began("compress", job.spec.label) for job in JOBS]


def test_a_scheduler_that_starts_again_does_only_the_named_jobs(driver: Driver) -> None:
    fail_two_jobs(driver)
    with pytest.raises(Parked) as parked:
        driver.schedule(*JOBS, only=("a/0",)).result(timeout=60)
    assert [failure.node for failure in parked.value.failures] == ["a/1"]
    assert job_counts(driver) == [2, 1, 1]
    # When nothing is named, then the rest is done, and nothing twice
    results = driver.schedule(*JOBS).result(timeout=60)
    assert {found["label"] for _, found in results} == {"a/0", "a/1", "b/0"}
    assert job_counts(driver) == [2, 2, 1]
