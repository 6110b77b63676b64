"""A task that hangs ends as failed; and the time limit on shutdown."""

from __future__ import annotations

import subprocess
import sys

import pytest
from farm_bench import Bench, until

from tasks.queues import QueueName
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.celery_ext.threads import EXIT_STATUS


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
