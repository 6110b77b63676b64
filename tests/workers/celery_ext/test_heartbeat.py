"""The report of each worker: in the store while it consumes messages, removed when it shuts down, and on request."""

import os
import signal
import subprocess
import sys

from farm_bench import Bench, until

from tasks.code_version import code_version
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.registry import WorkerRegistry
from workers.celery_ext import heartbeat


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


def test_a_worker_that_has_not_reached_its_broker_stops_without_an_error() -> None:
    environment = {**os.environ, "WHETSTONE_REDIS_URL": "redis://127.0.0.1:1/0"}
    command = [sys.executable, "-m", "workers", "cpu"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stderr is not None
        for line in worker.stderr:
            if "Cannot connect" in line:
                worker.send_signal(signal.SIGTERM)
                break
        rest = worker.stderr.read()
    assert "Traceback" not in rest and "Error" not in rest


def test_the_report_of_a_killed_worker_expires(bench: Bench) -> None:
    worker = bench.start_worker("cpu")
    os.kill(worker.pid or 0, signal.SIGKILL)
    client = registry(bench).redis
    (key,) = client.keys("whetstone:worker:*")
    assert 0 < client.ttl(key) <= heartbeat.EXPIRES_S


def test_registered_fields_are_in_the_report_and_an_error_in_one_is_null() -> None:
    heartbeat.register_field("target", lambda: {"model": "some/model"})
    heartbeat.register_field("broken", lambda: 1 / 0)
    try:
        report = heartbeat.make_report("gpu@here", "gpu", 2)
        assert report["target"] == {"model": "some/model"}
        assert report["broken"] is None
    finally:
        heartbeat.register_field("target", None)
        heartbeat.register_field("broken", None)
    assert "target" not in heartbeat.make_report("gpu@here", "gpu", 2)
