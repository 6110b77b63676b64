"""What failed can be retried, all of it or some, and nothing that was done is done again."""

from __future__ import annotations

import pytest
from farm_bench import until
from simulated_run import PLAN, RUN, Driver

from orchestrator.farm import Parked
from orchestrator.runs.lifecycle import retry_failed
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
    return driver.store.failed_tasks(RUN.id)


def counts(driver: Driver) -> list[int]:
    return [driver.began("reflect", node) for node in NODES]


def test_what_failed_is_listed_and_a_driver_that_starts_again_does_only_the_named_ones(driver: Driver) -> None:
    first, _ = failed = sorted(fail_two(driver), key=lambda one: one.node)
    assert [one.node for one in failed] == [*NODES[:2]]
    found = (first.stage, first.error, first.tries, first.record, first.attempt)
    assert found == ("reflect", "RuntimeError: as it was told", 1, "g1_child", 1)
    # When one is named, by the beginning of its task's id, then the run parks with the other one, untouched
    with pytest.raises(Parked) as parked:
        driver.evaluate(only=(first.task[:8],)).result(timeout=60)
    assert [one.node for one in parked.value.failures] == [NODES[1]]
    assert counts(driver) == [2, 1, 1]
    # When the other one fails again, then it has been tried twice
    driver.set_signal("fail", "reflect", NODES[1])
    with pytest.raises(Parked):
        driver.evaluate().result(timeout=60)
    assert [(one.node, one.tries) for one in driver.store.failed_tasks(RUN.id)] == [(NODES[1], 2)]
    # When nothing is named, then the rest is done, and nothing twice
    driver.clear_signal("fail", "reflect", NODES[1])
    assert len(driver.evaluate().result(timeout=60)) == 3
    assert counts(driver) == [2, 3, 1]
    assert all(driver.began("answer", PLAN.node(i, "pre")) == 1 for i in range(3))


def test_of_two_who_retry_while_others_are_at_work_one_has_it_sent(driver: Driver) -> None:
    # Given one child that failed and one that is held
    driver.set_signal("fail", "reflect", NODES[0])
    driver.set_signal("hold", "reflect", NODES[2])
    waiting = driver.evaluate()
    until(lambda: driver.store.failed_tasks(RUN.id))
    driver.clear_signal("fail", "reflect", NODES[0])
    sent = [retry_failed(driver.app, driver.store, RUN.id) for _ in range(2)]
    assert [[one.node for one in each] for each in sent] == [[NODES[0]], []]
    until(lambda: driver.began("score", NODES[0]))
    driver.clear_signal("hold", "reflect", NODES[2])
    assert len(waiting.result(timeout=60)) == 3
    assert counts(driver) == [2, 1, 1]


def test_a_name_that_nothing_failed_by_sends_nothing(driver: Driver) -> None:
    fail_two(driver)
    with pytest.raises(SettingsError, match=r"'g9_child9_mut'; these have failed: g1_child._mut \(.*, g1_child._mut"):
        retry_failed(driver.app, driver.store, RUN.id, [NODES[0], "g9_child9_mut"])
    assert counts(driver) == [1, 1, 1]
    assert len(driver.store.failed_tasks(RUN.id)) == 2
