"""Admission control: accepted, requeued and discarded messages, and paused queues and workers."""

from __future__ import annotations

import time
from typing import Any

import pytest
from farm_bench import Bench, until

from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.keys import CANCELLED
from tasks.store.store import Store
from tasks.store.workers import WorkerRegistry, code_version
from workers.celery_ext.admission import CLOSED_S, MODEL_VARIABLE


def store_of(bench: Bench) -> Store:
    return Store(connect(store_url(bench.url)))


def check_paused(bench: Bench, workers: int) -> dict[str, str]:
    """Have all workers read what is paused; their states by name."""
    replies: list[dict[str, Any]] = bench.app.control.broadcast(
        "whetstone_check_paused", reply=True, timeout=10, limit=workers
    )
    return {name.partition("@")[0]: answer["state"] for reply in replies for name, answer in reply.items()}


def taken(bench: Bench) -> int:
    """How often a message was taken from a queue: Redis writes a hash only for messages that are not acknowledged."""
    return int(bench.broker.info("commandstats")["cmdstat_hset"]["calls"])


def test_a_paused_queue_is_not_consumed_even_by_workers_that_start_later(bench: Bench) -> None:
    # Given a worker with a running task, and its queue paused
    roster = WorkerRegistry(connect(store_url(bench.url)))
    bench.start_worker("openai")
    first = bench.app.send_task("openai.hold", ("first",))
    until(lambda: bench.began("first"))
    roster.pause("openai")
    assert check_paused(bench, 1) == {"openai": "paused"}
    # When more is sent and another worker starts, then no worker takes it, and the running task is finished
    second = bench.app.send_task("openai.hold", ("second",))
    bench.start_worker("openai", name="later")
    assert check_paused(bench, 2) == {"openai": "paused", "later": "paused"}
    bench.let_end("first", "second")
    assert first.get(timeout=10) == "first"
    assert (bench.broker.llen("openai"), bench.began("second")) == (1, 0)
    # When the queue is resumed and the later worker alone is paused, then the other one runs the second task, once
    (later,) = (worker["worker"] for worker in roster.workers() if worker["worker"].startswith("later@"))
    roster.pause(later)
    roster.resume("openai")
    assert check_paused(bench, 2) == {"openai": "ready", "later": "paused"}
    assert second.get(timeout=10) == "second"
    assert bench.began("second") == 1
    # And every further one
    bench.let_end(*"abcd")
    assert [bench.app.send_task("openai.hold", (task,)).get(timeout=10) for task in "abcd"] == list("abcd")
    assert "Task openai.hold[" not in bench.log("later").read_text()
    roster.resume(later)
    assert set(check_paused(bench, 2).values()) == {"ready"}


@pytest.mark.long
def test_a_message_for_another_model_is_requeued_and_circulates_slowly(bench: Bench) -> None:
    # Given a gpu worker that serves one model, and a run that wants another
    bench.start_worker("gpu", name="pinned", **{MODEL_VARIABLE: "some/model"})
    store_of(bench).set_requirements("run", code_version(), "other/model")
    bench.let_end("run", "free")
    result = bench.app.send_task("gpu.hold", ("run",))
    roster = WorkerRegistry(connect(store_url(bench.url)))
    until(lambda: check_paused(bench, 1) == {"pinned": "refusing"})
    before, at = taken(bench), time.monotonic()
    # Then its report and its log give the reason
    (reply,) = bench.app.control.broadcast("whetstone_report", reply=True, timeout=10, limit=1)
    assert (
        "run run needs the model other/model and this worker serves only some/model"
        in next(iter(reply.values()))["why"]
    )
    assert "requeued for other workers: run run needs the model" in bench.log("pinned").read_text()
    # And the message is back in its queue, and is taken again only after a pause
    assert bench.began("run") == 0
    until(lambda: taken(bench) > before + 5)  # each round takes it twice, to see that there is no other message
    assert time.monotonic() - at > 2 * CLOSED_S
    # When a worker without that restriction starts, then the task runs, once
    bench.start_worker("gpu", name="free")
    assert result.get(timeout=20) == "run"
    assert bench.began("run") == 1
    assert len(roster.workers()) == 2


def test_a_run_of_other_code_is_requeued_and_a_cancelled_one_discarded(bench: Bench) -> None:
    # Given a run that was started with other code, and one that was cancelled
    bench.start_worker("cpu")
    store = store_of(bench)
    store.set_requirements("old", "0123456789ab", "")
    store.put_metadata("gone", CANCELLED, "1")
    bench.let_end("old", "gone", "fine")
    bench.app.send_task("cpu.hold", ("gone",))
    old = bench.app.send_task("cpu.hold", ("old",))
    until(lambda: check_paused(bench, 1) == {"cpu": "refusing"})
    # Then neither has begun, and the log gives the reason
    assert f"code 0123456789ab and this worker has {code_version()}" in bench.log("cpu").read_text()
    assert (bench.began("old"), bench.began("gone")) == (0, 0)
    # When another run sends a task, then the worker runs it, past the messages that it cannot process
    assert bench.app.send_task("cpu.hold", ("fine",)).get(timeout=30) == "fine"
    # When the run is continued with this code, then its message is accepted
    store.set_requirements("old", code_version(), "")
    assert old.get(timeout=30) == "old"
    until(lambda: bench.broker.hlen("unacked") == 0)
    assert (bench.began("old"), bench.began("gone"), bench.broker.llen("cpu")) == (1, 0, 0)
