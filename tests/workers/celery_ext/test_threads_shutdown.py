"""The time limit on shutdown, also for a worker whose broker does not come back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from farm_bench import Bench, until

from workers.celery_ext.threads import EXIT_STATUS, SHUTDOWN_S

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


@pytest.mark.long  # it waits for the limit
def test_a_worker_whose_broker_dies_during_its_shutdown_ends_in_time(bench: Bench) -> None:
    # Given a worker that is asked to stop with a running task, for which it waits for a moment
    worker = bench.start_worker("cpu", 2)
    bench.app.send_task("cpu.hold", ("slow",))
    until(lambda: bench.began("slow") == 1)
    worker.ask_to_stop()
    until(lambda: "shutdown" in bench.log("cpu").read_text())
    # When its broker is killed meanwhile
    assert bench.valkey.pid is not None
    os.kill(bench.valkey.pid, signal.SIGKILL)
    # Then the worker ends all the same
    assert worker.wait_end(SHUTDOWN_S + 10)


@pytest.mark.long
@pytest.mark.parametrize("queue", ["cpu", "openai"])
def test_a_worker_without_a_broker_ends_in_time(tmp_path: Path, queue: str) -> None:
    # Given a worker whose broker was killed and does not return
    bench = Bench(tmp_path)
    try:
        bench.start_valkey()
        worker = bench.start_worker(queue, 2)  # type: ignore[arg-type]  # a queue's name
        assert bench.valkey.pid is not None
        os.kill(bench.valkey.pid, signal.SIGKILL)
        until(lambda: "Connection to broker lost" in bench.log(queue).read_text())
        # When it is asked to stop, it ends, at once or at the limit
        worker.ask_to_stop()
        assert worker.wait_end(SHUTDOWN_S + 10)
    finally:
        bench.close()
