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
from tasks.common.files import runtime_path
from tasks.store.address import ENVIRONMENT_VARIABLE, store_url
from tasks.store.client import connect
from tasks.store.workers import WorkerRegistry, code_version
from workers.celery_ext import report
from workers.health import free_name


def registry(bench: Bench) -> WorkerRegistry:
    return WorkerRegistry(connect(store_url(bench.url)))


def test_a_worker_has_a_report_until_it_shuts_down(bench: Bench) -> None:
    # Given a worker with a running task
    worker = bench.start_worker("openai", 3)
    sent = bench.app.send_task("openai.hold", ("one",))
    until(lambda: bench.began("one"))
    # When it is asked, then its report names its queue, its slots, its code and its task
    (replies,) = bench.app.control.broadcast("whetstone_report", reply=True, timeout=10, limit=1)
    (report,) = replies.values()
    assert (report["queue"], report["pid"], report["slots"], report["version"]) == (
        "openai",
        worker.pid,
        3,
        code_version(),
    )
    assert [(task["id"], task["name"], task["arguments"]) for task in report["tasks"]] == [
        (sent.id, "openai.hold", ["one"])
    ]
    # And the store has its latest report, with how far its clock is from the broker's
    (kept,) = registry(bench).workers()
    assert (kept["worker"], kept["pid"]) == (next(iter(replies)), worker.pid)
    assert abs(kept["clock_offset_s"]) < 1
    # When it shuts down, then its report is removed at once
    bench.let_end("one")
    worker.ask_to_stop()
    assert worker.wait_end(10)
    assert registry(bench).workers() == []


def test_the_report_of_a_killed_worker_expires_and_no_folder_stays_behind(bench: Bench, tmp_path: Path) -> None:
    (temporary := tmp_path / "temporary").mkdir()
    worker = bench.start_worker("cpu", TMPDIR=str(temporary))
    os.kill(worker.pid or 0, signal.SIGKILL)
    assert [path.name for path in temporary.rglob("*")] == [runtime_path().name]
    client = registry(bench).redis
    (key,) = client.keys("whetstone:worker:*")
    assert 0 < client.ttl(key) <= report.EXPIRES_S


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
    assert free_name("cpu", {ENVIRONMENT_VARIABLE: "unix:///nowhere/valkey.sock?db=0"}) == "cpu"
    # the report of a killed worker does not block its name
    node = f"cpu@{socket.gethostname()}"
    for pid in (2**22 + 1, os.getpid()):
        registry(bench).put(node, {"worker": node, "pid": pid}, 60)
        assert free_name("cpu", bench.environment) == "cpu"
    bench.start_worker("cpu")
    until(lambda: free_name("cpu", bench.environment) == f"cpu-{os.getpid()}")
    assert free_name("gpu", bench.environment) == "gpu"
