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
        until(lambda: logged(bench, queue, "returns to its queue when its lease ends"), 20)
    # When there is room again, then it is done, nothing is held, and the worker takes the next one
    until(lambda: bench.ended("task") == 1, 20)
    until(lambda: bench.broker.hlen("unacked") == 0)
    bench.app.send_task(f"{queue}.write", ("next",))
    until(lambda: bench.ended("next") == 1)


def test_a_worker_starts_takes_and_returns_messages_while_writes_are_refused(bench: Bench) -> None:
    # Given a task that waits in a queue, and a server whose memory is full
    bench.let_end("task")
    bench.app.send_task("openai.hold", ("task",))
    with out_of_memory(bench):
        # When a worker starts, then it stays and says why it does not begin
        worker = bench.launch_worker("openai", 1)
        until(lambda: logged(bench, "openai", "the store refuses: OOM"), 20)
        assert worker.alive
        assert bench.began("task") == 0
    # When there is room again, then it takes the message
    until(lambda: bench.ended("task") == 1, 20)
    until(lambda: bench.broker.hlen("unacked") == 0)


def test_a_worker_outlives_a_broker_that_has_become_a_replica(bench: Bench) -> None:
    # Given a task that ends when its server has become a replica of another one, which refuses all writes
    bench.start_worker("openai", 1)
    bench.let_end("next")
    bench.app.send_task("openai.hold", ("task",))
    until(lambda: bench.began("task") == 1)
    bench.store.set("task:go", 1)
    bench.broker.execute_command("REPLICAOF", "127.0.0.1", "1")
    try:
        until(lambda: logged(bench, "openai", "READONLY"), 20)
    finally:
        bench.broker.execute_command("REPLICAOF", "NO", "ONE")
    # When it accepts writes again, then the task is done and the same worker takes the next one
    until(lambda: bench.ended("task") >= 1, 20)
    bench.app.send_task("openai.hold", ("next",))
    until(lambda: bench.ended("next") == 1, 20)
    until(lambda: bench.broker.hlen("unacked") == 0)
    assert all(worker.alive for worker in bench.workers)
