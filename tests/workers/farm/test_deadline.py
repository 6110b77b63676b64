"""A worker whose broker has gone for good ends when it is asked to."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from farm_bench import Bench, until

from workers.celery_ext.threads import SHUTDOWN_S

pytestmark = pytest.mark.long  # it waits for the deadline


def test_a_worker_whose_broker_dies_while_it_goes_ends_in_time(bench: Bench) -> None:
    # Given a worker that is asked to go with a task in hand, for which it waits a little
    worker = bench.start_worker("cpu", 2)
    bench.app.send_task("cpu.hold", ("slow",))
    until(lambda: bench.began("slow") == 1)
    worker.ask_to_stop()
    until(lambda: "shutdown" in bench.log("cpu").read_text())
    # When its broker is killed meanwhile, so that nobody hears it leave
    assert bench.valkey.pid is not None
    os.kill(bench.valkey.pid, signal.SIGKILL)
    # Then it ends all the same
    assert worker.wait_end(SHUTDOWN_S + 10)


@pytest.mark.parametrize("queue", ["cpu", "openai"])
def test_a_worker_without_a_broker_ends_in_time(tmp_path: Path, queue: str) -> None:
    # Given a worker whose broker was killed and does not come back
    bench = Bench(tmp_path)
    try:
        bench.start_valkey()
        worker = bench.start_worker(queue, 2)  # type: ignore[arg-type]  # a queue's name
        assert bench.valkey.pid is not None
        os.kill(bench.valkey.pid, signal.SIGKILL)
        until(lambda: "Connection to broker lost" in bench.log(queue).read_text())
        # When it is asked to go, it does, soon or at its deadline
        worker.ask_to_stop()
        assert worker.wait_end(SHUTDOWN_S + 10)
    finally:
        bench.close()
