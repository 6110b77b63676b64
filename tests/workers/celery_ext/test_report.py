"""The report of each worker: in the store while it consumes messages, removed when it shuts down, and on request."""

import os
import signal
from pathlib import Path

from farm_bench import Bench, until

from tasks.common.files import runtime_path
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.workers import WorkerRegistry, code_version
from workers.celery_ext import report


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
