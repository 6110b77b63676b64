"""Workers come to a run in progress and leave it: they soon have work, and nothing is lost or done twice."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from farm_bench import Bench, until
from simulated_run import Driver
from simulated_signals import signal_key

from tasks.plan import Candidate, Plan

JOIN_S = 10.0
PLAN = Plan("g3_pop", 3, tuple(Candidate(i, (float(i),)) for i in range(24)))
NODES = [PLAN.node(i, "pre") for i in range(24)]


@pytest.fixture
def driver(own_farm: Bench) -> Iterator[Driver]:
    driver = Driver(own_farm.url)
    yield driver
    driver.close()


@pytest.mark.long
def test_a_second_gpu_worker_soon_has_work_and_gives_it_back_when_it_leaves(own_farm: Bench, driver: Driver) -> None:
    # Given a run at work with one gpu worker, whose answers take a while
    for queue in ("gpu", "openai", "cpu"):
        own_farm.start_worker(queue, 1)
    driver.store.redis.set(signal_key("seconds", "answer", "each"), 0.4)
    waiting = driver.evaluate(PLAN)
    until(lambda: any(driver.ended("answer", node) for node in NODES))
    # When a second one is started, then it has work within ten seconds
    at = time.monotonic()
    second = own_farm.start_worker("gpu", 1, "gpu2")
    until(lambda: any(second.pid in driver.pids("answer", node) for node in NODES))
    assert time.monotonic() - at < JOIN_S
    # When it is told to leave with an answer in hand that takes its time, then it leaves in order
    for node in NODES:
        if not driver.began("answer", node):
            driver.set_signal("hold", "answer", node)
    held = [node for node in NODES if driver.store.redis.exists(signal_key("hold", "answer", node))]
    until(lambda: any(second.pid in driver.pids("answer", node) for node in held))
    second.ask_to_stop()
    assert second.wait_end(10)
    # Then another one does what it had in hand, and all is done, each once
    for node in held:
        driver.clear_signal("hold", "answer", node)
    assert len(waiting.result(timeout=60)) == len(NODES)
    assert {driver.ended(stage, node) for stage in ("answer", "judge", "score") for node in NODES} == {1}
    given_back = [node for node in NODES if driver.began("answer", node) == 2]
    assert [len(driver.pids("answer", node)) for node in given_back] == [2]
