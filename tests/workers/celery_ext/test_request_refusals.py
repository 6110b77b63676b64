"""A broker and a store that refuse or stop answering: no task is lost or held for ever."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from farm_bench import Bench, suspended, until

from tasks.queues import QueueName


def logged(bench: Bench, name: str, text: str) -> int:
    return bench.log(name).read_text().count(text)


@pytest.mark.parametrize("queue", ["openai", "cpu"])
def test_a_task_whose_result_is_refused_is_given_back(bench: Bench, queue: QueueName) -> None:
    # Given a task in the middle of its work when the server's memory is full
    bench.start_worker(queue, 1)
    bench.store.set("task:wait", 1)
    bench.app.send_task(f"{queue}.write", ("task",))
    until(lambda: bench.began("task") == 1)
    with bench.full_memory():
        bench.store.delete("task:wait")
        until(lambda: logged(bench, queue, "returns to its queue when its lease ends"), 20)
    # When there is room again, then it is done, nothing is held, and the worker takes the next one
    until(lambda: bench.ended("task") == 1, 20)
    until(lambda: bench.broker.hlen("unacked") == 0)
    bench.app.send_task(f"{queue}.write", ("next",))
    until(lambda: bench.ended("next") == 1)


def test_no_message_is_lost_to_a_worker_whose_writes_are_refused(bench: Bench) -> None:
    bench.let_end("first", "second")
    bench.app.send_task("openai.hold", ("first",))
    # When the memory is full as a worker starts, then it stays, and works once there is room
    with bench.full_memory():
        worker = bench.launch_worker("openai", 1)
        until(lambda: logged(bench, "openai", "the store refuses: OOM"), 20)
        assert (worker.alive, bench.began("first")) == (True, 0)
    until(lambda: bench.ended("first") == 1, 20)
    # And when it is full as the worker takes a message, which it cannot record
    before = logged(bench, "openai", "the store refuses: OOM")
    until(lambda: bench.broker.info("clients")["blocked_clients"])  # it waits for a message
    with suspended(worker.pid):
        bench.app.send_task("openai.hold", ("second",))
        until(lambda: bench.broker.llen("openai") == 0)
        bench.broker.config_set("maxmemory", 1)
    until(lambda: logged(bench, "openai", "the store refuses: OOM") > before, 20)
    bench.broker.config_set("maxmemory", 0)
    until(lambda: bench.ended("second") == 1, 20)
    until(lambda: bench.broker.hlen("unacked") == 0)


@pytest.mark.parametrize(
    ("disturbed", "said"),
    [(Bench.replica, "READONLY"), (Bench.silent, "was not refreshed: Timeout")],
    ids=["replica", "still"],
)
def test_a_worker_outlives_a_broker_that_becomes_a_replica_or_stands_still(
    bench: Bench, disturbed: Callable[[Bench], AbstractContextManager[None]], said: str
) -> None:
    # Given a task that ends while its server refuses all writes, or answers nothing
    worker = bench.start_worker("openai", 1)
    bench.let_end("next")
    bench.app.send_task("openai.hold", ("task",))
    until(lambda: bench.began("task") == 1)
    bench.store.set("task:go", 1)
    with disturbed(bench):
        until(lambda: logged(bench, "openai", said), 20)
    # When it accepts writes again, then the task is done and the same worker takes the next one
    until(lambda: bench.ended("task") >= 1, 20)
    bench.app.send_task("openai.hold", ("next",))
    until(lambda: bench.ended("next") == 1, 20)
    until(lambda: bench.broker.hlen("unacked") == 0)
    assert worker.alive
