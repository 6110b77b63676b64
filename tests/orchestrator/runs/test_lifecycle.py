"""A cancelled run stops everywhere and keeps what it has; a deleted one leaves nothing on the farm."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from farm_bench import Bench, until
from simulated_run import PLAN, RUN, Driver

from orchestrator.farm import Parked
from orchestrator.farm.connection import FarmConnection
from orchestrator.runs.lifecycle import active_tasks, cancel, delete_run
from tasks.plan import Plan

WIDE = Plan("offspring", 2, tuple(dataclasses.replace(PLAN.candidates[0], index=i) for i in range(6)))
FIRST = [WIDE.node(i, "pre") for i in range(6)]


@pytest.fixture
def farm(simulated_farm: Bench, driver: Driver) -> FarmConnection:
    return FarmConnection(driver.app, driver.broker, driver.store, False, lambda: None)


def test_a_cancelled_run_ends_what_is_at_work_and_drops_the_rest(
    farm: FarmConnection, driver: Driver, tmp_path: Path
) -> None:
    # Given a run with two merges in hand and four that wait
    for node in FIRST:
        driver.set_signal("hold", "merge", node)
    waiting = driver.evaluate(WIDE)
    until(lambda: sum(driver.began("merge", node) for node in FIRST) == 2)
    assert len(active_tasks(farm, RUN.id)) == 2
    # When it is cancelled while they are still at it, then the four are dropped and the two are told
    cancelled = cancel(farm, tmp_path, RUN.id, timeout_s=0)
    assert cancelled.dropped == 4
    assert sorted(said.partition(",")[0] for said in cancelled.active) == [
        f"merge of g2_child{i} (pre) of simulated" for i in range(6) if driver.began("merge", FIRST[i])
    ]
    # When these end, then nothing follows from them
    for node in FIRST:
        driver.clear_signal("hold", "merge", node)
    assert cancel(farm, tmp_path, RUN.id).active == ()
    assert sum(driver.began("answer", node) for node in FIRST) == 0
    # And what they came to is kept: when the run goes on, they are not done again
    driver.store.set_requirements(RUN.id, "", "")
    assert len(driver.evaluate(WIDE).result(timeout=60)) == 6
    assert [driver.began("merge", node) for node in FIRST] == [1] * 6
    with pytest.raises(Parked, match="cancelled"):
        waiting.result(timeout=60)


def test_a_deleted_run_leaves_no_key_and_takes_nothing_of_another(farm: FarmConnection, driver: Driver) -> None:
    # Given a farm with a run that is over, another run, and what they share
    before = keys(farm)
    driver.evaluate().result(timeout=60)
    other = dataclasses.replace(RUN, id="other")
    driver.store.put_run(other)
    driver.store.put_shared(RUN.id, "answer:mine", {"text": "a"})
    driver.store.put_shared(RUN.id, "answer:ours", {"text": "b"})
    driver.store.put_shared("other", "answer:ours", {"text": "b"})
    assert keys(farm) != before
    # When it is deleted, then all that is left is the other run's
    assert delete_run(farm, RUN.id)
    left = keys(farm) - before
    assert left == {
        f"2:whetstone:{key}" for key in ("run:other:settings", "run:other:shared", "run:other:held", "answer:ours")
    }
    delete_run(farm, "other")
    assert not any("whetstone:run" in key or "answer" in key for key in keys(farm))


def keys(farm: FarmConnection) -> set[str]:
    """Every key in the three databases, but for claims and what the workers themselves keep there."""
    found = set()
    for number, client in enumerate((farm.broker, farm.app.backend.client, farm.store.redis)):
        found |= {f"{number}:{key.decode()}" for key in client.scan_iter(count=1000)}
    return {key for key in found if ":claim:" not in key and ":worker" not in key and ":test:" not in key}
