"""Workers of a broker and a store that refuse every write for a while: no task is lost, and none is held for ever."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from farm_bench import Bench, until

from tasks.queues import QueueName


@contextmanager
def out_of_memory(bench: Bench) -> Iterator[None]:
    """Within the block the server refuses whatever takes memory."""
    bench.broker.config_set("maxmemory", 1)
    try:
        yield
    finally:
        bench.broker.config_set("maxmemory", 0)


def logged(bench: Bench, name: str, text: str) -> bool:
    return text in bench.log(name).read_text()


@pytest.mark.parametrize("queue", ["openai", "cpu"])
def test_a_task_whose_result_is_refused_is_given_back(bench: Bench, queue: QueueName) -> None:
    # Given a task in the middle of its work when the server's memory is full
    bench.start_worker(queue, 1)
    bench.store.set("task:wait", 1)
    bench.app.send_task(f"{queue}.write", ("task",))
    until(lambda: bench.began("task") == 1)
    with out_of_memory(bench):
        bench.store.delete("task:wait")
        until(lambda: logged(bench, queue, "OutOfMemory"), 20)
    # When there is room again, then it is done, nothing is held, and the worker takes the next one
    until(lambda: bench.ended("task") == 1, 20)
    until(lambda: bench.broker.hlen("unacked") == 0)
    bench.app.send_task(f"{queue}.write", ("next",))
    until(lambda: bench.ended("next") == 1)
