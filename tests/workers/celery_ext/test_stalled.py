"""A worker is healthy when its work moves: taking, finishing, or a task that reports progress."""

import socket
import subprocess
import sys

import pytest
from farm_bench import Bench, until

from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.registry import WorkerRegistry
from workers.celery_ext.stalled import DEFAULT_STALLED_S, STALLED_VARIABLE, StallDetector, stalled_limit

NODE = f"openai@{socket.gethostname()}"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_nothing_taken_or_finished_for_too_long_is_a_stall() -> None:
    clock = Clock()
    detector = StallDetector(10, clock)
    assert detector.stalled_s(True, "one task", reported=0) is None
    clock.now = 10.5
    assert detector.stalled_s(True, "one task", reported=0) == 10.5
    # What changes, a report of a task, and a time without work each begin it anew
    assert detector.stalled_s(True, "two tasks", reported=0) is None
    clock.now = 21.0
    assert detector.stalled_s(True, "two tasks", reported=15) is None
    clock.now = 26.0
    assert detector.stalled_s(True, "two tasks", reported=15) == 11
    assert detector.stalled_s(False, "two tasks", reported=15) is None
    clock.now = 30.0
    assert detector.stalled_s(True, "two tasks", reported=15) is None


def test_the_limit_is_a_number_of_seconds() -> None:
    assert stalled_limit({}) == DEFAULT_STALLED_S
    assert stalled_limit({STALLED_VARIABLE: "1.5"}) == 1.5
    for wrong in ("0", "-1", "nan", "inf", "soon"):
        with pytest.raises(ValueError, match=STALLED_VARIABLE):
            stalled_limit({STALLED_VARIABLE: wrong})


def health_check(bench: Bench) -> tuple[int, str]:
    """The exit status and the line of the health check of containers."""
    check = [sys.executable, "-m", "workers.health", "openai"]
    done = subprocess.run(check, env=bench.environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.strip()


def test_a_worker_whose_slots_are_taken_by_a_task_that_does_nothing_is_unhealthy(bench: Bench) -> None:
    # Given a worker with one slot, a task that does nothing, and another one behind it
    bench.start_worker("openai", 1, **{STALLED_VARIABLE: "1"})
    for name in ("stuck", "behind"):
        bench.app.send_task("openai.hold", (name,))
    until(lambda: bench.began("stuck") == 1)
    registry = WorkerRegistry(connect(store_url(bench.url)))
    until(lambda: registry.unhealthy_reason(NODE))
    # Then the one definition says so, and the container's health check fails with the reason
    assert registry.unhealthy_reason(NODE).startswith("is stalled: nothing was taken or finished for ")
    status, line = health_check(bench)
    assert status == 1
    assert line.startswith(f"{NODE} is stalled: ")
    assert line.endswith("with 1 messages waiting and 1 tasks begun")
    # When it ends, then the worker is healthy again
    bench.let_end("stuck", "behind")
    until(lambda: bench.ended("behind") == 1)
    until(lambda: not registry.unhealthy_reason(NODE))
    assert health_check(bench) == (0, "")


def test_a_worker_without_a_heartbeat_is_unhealthy(bench: Bench) -> None:
    assert health_check(bench) == (1, f"{NODE} has no recent heartbeat")
