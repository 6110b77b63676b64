"""The lease: a task runs once, however long it takes, and returns soon when its worker dies; one that hangs fails."""

import os
import signal
import subprocess
import sys
import time

import pytest
from farm_bench import VISIBILITY_S, Bench, until

from tasks.queues import QueueName
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.celery_ext.threads import EXIT_STATUS


@pytest.mark.parametrize("queue", ["openai", "cpu"])
def test_the_task_of_a_killed_worker_returns_soon(bench: Bench, queue: QueueName) -> None:
    # Given a worker that is killed in the middle of a task
    killed = bench.start_worker(queue)
    result = bench.app.send_task(f"{queue}.hold", ("task",))
    until(lambda: bench.began("task") == 1)
    os.kill(killed.pid or 0, signal.SIGKILL)
    killed.stop(0)
    # When another worker starts, then it has the task within the visibility timeout and the seconds of checking
    bench.start_worker(queue)
    until(lambda: bench.began("task") == 2, VISIBILITY_S + 4)
    bench.let_end("task")
    assert result.get(timeout=10) == "task"


@pytest.mark.parametrize("bench", [2 * VISIBILITY_S], indirect=True)  # a worker tries to reconnect every 2 s
def test_a_task_longer_than_the_visibility_timeout_runs_once_also_when_the_broker_dies(bench: Bench) -> None:
    # Given a task in threads and one in a process, and more than a visibility timeout that passes
    workers = [bench.start_worker("openai"), bench.start_worker("cpu")]
    results = [bench.app.send_task(f"{queue}.hold", (queue,)) for queue in ("openai", "cpu")]
    until(lambda: bench.began("openai") and bench.began("cpu"))
    taken = bench.oldest_lease()
    until(lambda: bench.oldest_lease() > taken + 2 * VISIBILITY_S + 1)
    # When Valkey is killed, the workers have connected again, and once more a timeout has passed
    bench.server.stop(0)
    bench.start()
    back = time.time()
    until(lambda: bench.oldest_lease() > back + 2 * VISIBILITY_S + 1)
    bench.let_end("openai", "cpu")
    # Then the tasks end, are acknowledged, and the same workers take the next one
    assert [result.get(timeout=10) for result in results] == ["openai", "cpu"]
    until(lambda: bench.broker.zcard("unacked_index") == 0, 10)
    assert all(worker.alive for worker in workers)
    assert (bench.began("openai"), bench.began("cpu")) == (1, 1)
    assert bench.app.send_task("cpu.hold", ("cpu",)).get(timeout=10) == "cpu"


def test_a_worker_that_is_asked_to_stop_returns_its_tasks(bench: Bench) -> None:
    # Given a task with a countdown, two that run, and one that waits for a slot
    workers = [bench.start_worker("openai", 1), bench.start_worker("cpu", 1)]
    bench.app.send_task("openai.hold", ("a",), countdown=600)
    until(lambda: bench.broker.hlen("unacked") == 1)
    for name, queue in (("b", "openai"), ("c", "cpu"), ("d", "cpu")):
        bench.app.send_task(f"{queue}.hold", (name,))
    until(lambda: bench.began("b") and bench.began("c"))
    # When the workers are asked to stop, then they end by themselves and all four are in the queues again
    for worker in workers:
        worker.ask_to_stop()
    assert all(worker.wait_end(8) for worker in workers)
    assert bench.broker.hlen("unacked") == 0
    assert (bench.broker.llen("openai"), bench.broker.llen("cpu")) == (2, 2)


def test_a_task_that_always_kills_its_process_is_recorded_as_failed(bench: Bench) -> None:
    # Given a task of a run that always kills its process
    bench.start_worker("cpu")
    store = Store(connect(store_url(bench.url)))
    bench.app.send_task("cpu.kill_recorded", ("0",))
    # When it has been tried again as often as it may, then the failure is on record with its reason
    until(lambda: store.failures("run", "plan"))
    [failure] = store.failures("run", "plan")
    assert failure.error.startswith("WorkerLostError: ")
    assert failure.tries == 2


@pytest.mark.parametrize("queue", ["openai", "cpu"])
def test_a_task_over_its_hard_limit_fails_and_its_slot_is_free(bench: Bench, queue: QueueName) -> None:
    # Given a worker with one slot, a task in it that hangs, and one that waits
    bench.start_worker(queue, 1)
    bench.app.send_task(f"{queue}.hang", ("hung",))
    until(lambda: bench.began("hung"))
    bench.let_end("next")
    waiting = bench.app.send_task(f"{queue}.hold", ("next",))
    # When its time limit of a second is over, then it has failed, and the other task runs
    store = Store(connect(store_url(bench.url)))
    until(lambda: store.failures("run", "plan"))
    [failed] = store.failures("run", "plan")
    assert (failed.name, failed.error, failed.tries) == ("hung", "TimeLimitExceeded: TimeLimitExceeded(1,)", 1)
    assert waiting.get(timeout=20) == "next"
    # And it does not return, and its late result is discarded
    until(lambda: bench.broker.hlen("unacked") == 0)
    assert bench.broker.llen(queue) == 0
    bench.let_end("hung")
    assert (bench.began("hung"), bench.ended("hung")) == (1, 0)


STUCK = """
import threading
from celery import signals
from workers.celery_ext import threads
threads.SHUTDOWN_S = 0.2
threads.limit_shutdown()
signals.worker_shutting_down.send(sender="test", sig="SIGTERM", how="Warm", exitcode=0)
threading.Event().wait()
"""


def test_a_process_that_hangs_in_its_shutdown_exits() -> None:
    assert subprocess.run([sys.executable, "-c", STUCK], timeout=30, check=False).returncode == EXIT_STATUS
