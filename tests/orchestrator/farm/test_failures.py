"""On a farm of real workers: what failed can be retried, all of it or some, and nothing that was done is done again."""

from __future__ import annotations

import pytest
from farm_bench import until
from simulated_run import PLAN, RUN, Driver, request

from orchestrator.farm import Parked
from orchestrator.farm.work import Scheduler
from orchestrator.runs.lifecycle import retry_failed

NODES = tuple(PLAN.node(i, "mut") for i in range(3))


def counts(driver: Driver) -> list[int]:
    return [driver.began("reflect", node) for node in NODES]


def test_what_failed_is_listed_and_a_driver_that_starts_again_does_only_the_named_ones(driver: Driver) -> None:
    # Given a run that has parked, since the reflector failed for two of three children
    for node in NODES[:2]:
        driver.set_signal("fail", "reflect", node)
    with pytest.raises(Parked, match=r"reflect of .* failed: RuntimeError: as it was told \(and 1 more"):
        driver.evaluate().result(timeout=60)
    driver.clear_signal("fail", "reflect", NODES[0])
    first, second = sorted(driver.store.failed_tasks(RUN.id), key=lambda one: one.node)
    found = (first.stage, first.error, first.tries, first.record, first.attempt)
    assert found == ("reflect", "RuntimeError: as it was told", 1, "g1_child", 1)
    assert (first.node, second.node) == NODES[:2]
    # When one is named, by the beginning of its task's id, then the run parks with the other one, untouched
    with pytest.raises(Parked) as parked:
        driver.evaluate(only=(first.task[:8],)).result(timeout=60)
    assert [one.node for one in parked.value.failures] == [NODES[1]]
    assert counts(driver) == [2, 1, 1]
    # When the other one fails again, then it has been tried twice
    with pytest.raises(Parked):
        driver.evaluate().result(timeout=60)
    assert [(one.node, one.tries) for one in driver.store.failed_tasks(RUN.id)] == [(NODES[1], 2)]
    # When nothing is named, then the rest is done, and nothing twice
    driver.clear_signal("fail", "reflect", NODES[1])
    assert len(driver.evaluate().result(timeout=60)) == 3
    assert counts(driver) == [2, 3, 1]
    assert all(driver.began("answer", PLAN.node(i, "pre")) == 1 for i in range(3))


def test_of_two_who_retry_while_others_are_at_work_one_has_it_sent(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given one child that failed and one that is held
    driver.set_signal("fail", "reflect", NODES[0])
    driver.set_signal("hold", "reflect", NODES[2])
    waiting = driver.evaluate()
    until(lambda: driver.store.failed_tasks(RUN.id))
    driver.clear_signal("fail", "reflect", NODES[0])
    failed = driver.store.failed_tasks(RUN.id)
    monkeypatch.setattr(driver.store, "failed_tasks", lambda _: failed)  # as both have seen it
    sent = [retry_failed(driver.app, driver.store, RUN.id) for _ in range(2)]
    assert [[one.node for one in each] for each in sent] == [[NODES[0]], []]
    until(lambda: driver.began("score", NODES[0]))
    driver.clear_signal("hold", "reflect", NODES[2])
    assert len(waiting.result(timeout=60)) == 3
    assert counts(driver) == [2, 1, 1]


def test_equal_requests_are_one_job_and_cached_results_are_none(driver: Driver) -> None:
    known = request("known")
    driver.store.put_shared(RUN.id, known.key, {"label": "from the store"})
    results = driver.schedule(request("a/0"), request("a/0"), known).result(timeout=60)
    assert sorted(result["label"] for _, result in results) == ["a/0", "a/0", "from the store"]
    assert [driver.began("compress", label) for label in ("a/0", "known")] == [1, 0]


def test_no_more_of_a_task_is_in_flight_than_its_limit(driver: Driver) -> None:
    scheduler = Scheduler(driver.dispatcher(), {"openai.compress": 1})
    labels, in_flight = ["a/0", "a/1"], list[int]()
    for label in labels:
        driver.set_signal("hold", "compress", label)
        scheduler.submit(request(label))

    def watch() -> None:
        in_flight.append(sum(driver.began("compress", x) - driver.ended("compress", x) for x in labels))
        for label in labels:
            if driver.began("compress", label):
                driver.clear_signal("hold", "compress", label)

    assert (len(list(scheduler.results(watch))), max(in_flight)) == (2, 1)


@pytest.mark.parametrize(("goes_on", "done"), [(False, ["slow"]), (True, ["later", "slow"])])
def test_after_a_failure_what_is_in_flight_is_awaited_and_nothing_new_is_sent_unless_the_others_go_on(
    driver: Driver, goes_on: bool, done: list[str]
) -> None:
    scheduler = Scheduler(driver.dispatcher(), {"openai.compress": 2}, goes_on=goes_on)
    driver.set_signal("fail", "compress", "bad")
    driver.set_signal("hold", "compress", "slow")
    for label in ("bad", "slow", "later"):
        scheduler.submit(request(label))

    def watch() -> None:
        if driver.ended("compress", "later") if goes_on else driver.store.failures(RUN.id):
            driver.clear_signal("hold", "compress", "slow")

    results = []
    with pytest.raises(Parked) as parked:
        for job, _ in scheduler.results(watch):
            results.append(job.spec.label)
    assert ([failure.node for failure in parked.value.failures], sorted(results)) == (["bad"], done)
    assert driver.began("compress", "later") == int(goes_on)
