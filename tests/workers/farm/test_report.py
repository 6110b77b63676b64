"""What each worker says about itself: in the store while it takes messages, gone when it leaves, and when asked."""

import os
import signal

from farm_bench import Bench, until

from tasks.code_version import code_version
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.registry import WorkerRegistry
from workers.celery_ext import heartbeat


def roster(bench: Bench) -> WorkerRegistry:
    return WorkerRegistry(connect(store_url(bench.url)))


def test_a_worker_is_in_the_roster_as_long_as_it_is_there(bench: Bench) -> None:
    # Given a worker with a task in hand
    worker = bench.start_worker("openai", 3)
    sent = bench.app.send_task("openai.hold", ("one",))
    until(lambda: bench.began("one"))
    # When it is asked, then it says what it is, what it can do and what it does
    (replies,) = bench.app.control.broadcast("whetstone_report", reply=True, timeout=10, limit=1)
    (said,) = replies.values()
    assert (said["queue"], said["pid"], said["slots"], said["version"]) == ("openai", worker.pid, 3, code_version())
    assert [(task["id"], task["name"], task["arguments"]) for task in said["tasks"]] == [
        (sent.id, "openai.hold", ["one"])
    ]
    # And the store has its latest report, with how far its clock is from the broker's
    (kept,) = roster(bench).workers()
    assert (kept["worker"], kept["pid"]) == (next(iter(replies)), worker.pid)
    assert abs(kept["clock_offset_s"]) < 1
    # When it leaves, then its report is gone at once
    bench.let_end("one")
    worker.ask_to_stop()
    assert worker.wait_end(10)
    assert roster(bench).workers() == []


def test_a_report_outlives_a_killed_worker_only_for_a_while(bench: Bench) -> None:
    worker = bench.start_worker("cpu")
    os.kill(worker.pid or 0, signal.SIGKILL)
    client = roster(bench).redis
    (key,) = client.keys("whetstone:worker:*")
    assert 0 < client.ttl(key) <= heartbeat.KEPT_S


def test_parts_add_to_the_report_and_a_broken_one_does_no_harm() -> None:
    heartbeat.contribute("target", lambda: {"model": "some/model"})
    heartbeat.contribute("broken", lambda: 1 / 0)
    try:
        said = heartbeat.make_report("gpu@here", "gpu", 2)
        assert said["target"] == {"model": "some/model"}
        assert said["broken"] is None
    finally:
        heartbeat.contribute("target", None)
        heartbeat.contribute("broken", None)
    assert "target" not in heartbeat.make_report("gpu@here", "gpu", 2)
