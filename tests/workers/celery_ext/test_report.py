"""The report of each worker: in the store while it consumes messages, removed when it shuts down, and on request."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from farm_bench import Bench, until

import tasks
import workers
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.workers import WorkerRegistry, code_version
from workers.celery_ext.report import EXPIRES_S
from workers.health import free_name


def test_a_worker_has_a_report_until_it_shuts_down_or_dies(bench: Bench) -> None:
    # Given a worker with a running task, when it is asked, then its report is complete
    registry = WorkerRegistry(connect(store_url(bench.url)))
    worker = bench.start_worker("openai", 3)
    sent = bench.app.send_task("openai.hold", ("one",))
    until(lambda: bench.began("one"))
    (replies,) = bench.app.control.broadcast("whetstone_report", reply=True, timeout=10, limit=1)
    (report,) = replies.values()
    assert [report[name] for name in ("queue", "pid", "slots", "version")] == ["openai", worker.pid, 3, code_version()]
    [task] = report["tasks"]
    assert (task["id"], task["name"], task["arguments"]) == (sent.id, "openai.hold", ["one"])
    # And the store has its latest report, with how far its clock is from the broker's
    (kept,) = registry.workers()
    assert (kept["worker"], kept["pid"]) == (next(iter(replies)), worker.pid)
    assert abs(kept["clock_offset_s"]) < 1
    # When it shuts down, then its report is removed at once
    bench.let_end("one")
    worker.ask_to_stop()
    assert worker.wait_end(10)
    assert registry.workers() == []
    # When a worker is killed, then its report expires
    killed = bench.start_worker("cpu")
    os.kill(killed.pid or 0, signal.SIGKILL)
    (key,) = registry.redis.keys("whetstone:worker:*")
    assert 0 < registry.redis.ttl(key) <= EXPIRES_S


def test_the_code_of_a_worker_is_all_that_its_packages_have(tmp_path: Path) -> None:
    """Two hosts with other prompts do other work."""
    for package in (tasks, workers):
        shutil.copytree(package.__path__[0], tmp_path / package.__name__)
    command = [sys.executable, "-c", "from tasks.store.workers import code_version; print(code_version())"]
    assert subprocess.check_output(command, cwd=tmp_path, text=True).strip() == code_version()
    with (tmp_path / "tasks/guide/prompts.toml").open("a") as prompts:
        prompts.write("# another prompt")
    assert subprocess.check_output(command, cwd=tmp_path, text=True).strip() != code_version()


def test_the_second_worker_of_a_queue_on_a_host_has_a_name_of_its_own(bench: Bench) -> None:
    # The report of a killed worker does not block its name
    registry, node = WorkerRegistry(connect(store_url(bench.url))), f"cpu@{socket.gethostname()}"
    registry.put(node, {"worker": node, "pid": 2**22 + 1}, 60)
    assert free_name("cpu", bench.environment) == "cpu"
    bench.start_worker("cpu")
    until(lambda: free_name("cpu", bench.environment) == f"cpu-{os.getpid()}")
