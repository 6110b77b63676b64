"""Jobs on a farm of real workers, whose work is simulated."""

from __future__ import annotations

import pytest
from farm_bench import until
from simulated_run import RUN, Driver, request

from orchestrator.farm import Parked
from orchestrator.farm.work import Scheduler


def test_equal_requests_are_one_job_and_cached_results_are_none(driver: Driver) -> None:
    known = request("known")
    driver.store.put_shared(RUN.id, known.key, {"label": "from the store"})
    results = driver.schedule(request("a/0"), request("a/0"), known).result(timeout=60)
    assert sorted(result["label"] for _, result in results) == ["a/0", "a/0", "from the store"]
    assert [driver.began("compress", label) for label in ("a/0", "known")] == [1, 0]


def test_no_more_of_a_task_is_in_flight_than_its_limit(driver: Driver) -> None:
    scheduler = Scheduler(driver.dispatcher(), {"openai.compress": 1})
    labels = ["a/0", "a/1"]
    for label in labels:
        driver.set_signal("hold", "compress", label)
        scheduler.submit(request(label))
    in_flight = []

    def watch() -> None:
        in_flight.append(sum(driver.began("compress", x) - driver.ended("compress", x) for x in labels))
        for label in labels:
            if driver.began("compress", label):
                driver.clear_signal("hold", "compress", label)

    assert len(list(scheduler.results(watch))) == 2
    assert max(in_flight) == 1


def test_after_a_failure_nothing_new_is_sent_and_what_is_in_flight_is_awaited(driver: Driver) -> None:
    scheduler = Scheduler(driver.dispatcher(), {"openai.compress": 2})
    driver.set_signal("fail", "compress", "bad")
    driver.set_signal("hold", "compress", "slow")
    for label in ("bad", "slow", "later"):
        scheduler.submit(request(label))

    def watch() -> None:
        if driver.store.failures(RUN.id):
            driver.clear_signal("hold", "compress", "slow")

    results = []
    with pytest.raises(Parked, match="compress of bad failed"):
        for job, _ in scheduler.results(watch):
            results.append(job.spec.label)
    assert results == ["slow"]
    assert driver.began("compress", "later") == 0


def test_where_the_others_go_on_after_a_failure_all_is_done_before_the_run_parks(driver: Driver) -> None:
    scheduler = Scheduler(driver.dispatcher(), {"openai.verdict": 1, "openai.compress": 1}, goes_on=True)
    driver.set_signal("fail", "compress", "bad")
    for label in ("first", "bad", "later"):
        scheduler.submit(request(label))
    # When one fails, then those that wait are sent, and what a result leads to as well
    results = []
    with pytest.raises(Parked) as parked:
        for job, _ in scheduler.results():
            results.append(job.spec.label)
            if job.spec.label == "later":
                scheduler.submit(request("of later", "openai.verdict"))
    assert results == ["first", "later", "of later"]
    # and the driver has said so when it failed, and parks with it
    assert [failure.node for failure in parked.value.failures] == ["bad"]
    assert driver.messages == ["compress of bad failed: RuntimeError: as it was told; the other jobs go on"]


def test_poll_gives_each_result_and_each_failure_once_and_forgets_both(driver: Driver) -> None:
    # Given two jobs that are at work, of which one fails
    scheduler = Scheduler(driver.dispatcher())
    driver.set_signal("fail", "compress", "bad")
    driver.set_signal("hold", "compress", "good")
    for label in ("bad", "good"):
        scheduler.submit(request(label))
    failed: list[str] = []

    def has_failed() -> bool:
        results, failures = scheduler.poll()
        assert results == []
        failed.extend(failure.node for failure in failures)
        return bool(failed)

    until(has_failed)
    # When the other one has ended
    driver.clear_signal("hold", "compress", "good")
    until(lambda: driver.store.shared(RUN.id, [request("good").key]))
    [(_, result)], failures = scheduler.poll()
    # Then each was told once, and nothing of either is left
    assert (result["label"], failures, failed) == ("good", [], ["bad"])
    assert scheduler.poll() == ([], []) and scheduler.is_done()
    assert driver.store.failures(RUN.id) == []


def test_a_scheduler_that_starts_again_does_only_the_named_jobs(driver: Driver) -> None:
    labels = ("a/0", "a/1", "b/0")
    jobs = [request(label) for label in labels]
    for label in labels[:2]:
        driver.set_signal("fail", "compress", label)
    with pytest.raises(Parked, match=r"compress of ./. failed: RuntimeError: as it was told"):
        driver.schedule(*jobs).result(timeout=60)
    for label in labels[:2]:
        driver.clear_signal("fail", "compress", label)
    with pytest.raises(Parked) as parked:
        driver.schedule(*jobs, only=("a/0",)).result(timeout=60)
    assert [failure.node for failure in parked.value.failures] == ["a/1"]
    assert [driver.began("compress", label) for label in labels] == [2, 1, 1]
    # When nothing is named, then the rest is done, and nothing twice
    results = driver.schedule(*jobs).result(timeout=60)
    assert sorted(found["label"] for _, found in results) == [*labels]
    assert [driver.began("compress", label) for label in labels] == [2, 2, 1]
