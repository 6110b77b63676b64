"""Admission control: accepted, requeued and discarded messages, and paused queues and workers."""

from __future__ import annotations

from typing import Any

from farm_bench import Bench, until

from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.keys import CANCELLED
from tasks.store.store import Store
from tasks.store.workers import WorkerRegistry, code_version
from workers.celery_ext.admission import MODEL_VARIABLE


def check_paused(bench: Bench, workers: int) -> dict[str, str]:
    """Have all workers read what is paused; their states by name."""
    replies: list[dict[str, Any]] = bench.app.control.broadcast(
        "whetstone_check_paused", reply=True, timeout=10, limit=workers
    )
    return {name.partition("@")[0]: answer["state"] for reply in replies for name, answer in reply.items()}


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
    assert "Task openai.hold[" not in bench.log("later").read_text()


def test_a_run_of_another_model_or_code_is_requeued_and_a_cancelled_one_discarded(bench: Bench) -> None:
    # Given a worker that serves one model, runs of another model and of other code, and one that was cancelled
    bench.start_worker("gpu", name="pinned", **{MODEL_VARIABLE: "some/model"})
    store = Store(connect(store_url(bench.url)))
    store.set_requirements("other", code_version(), "other/model")
    store.set_requirements("old", "0123456789ab", "")
    store.put_metadata("gone", CANCELLED, "1")
    bench.let_end("other", "old", "gone", "fine")
    bench.app.send_task("gpu.hold", ("gone",))
    other, old = (bench.app.send_task("gpu.hold", (name,)) for name in ("other", "old"))
    until(lambda: check_paused(bench, 1) == {"pinned": "refusing"})
    # Then none has begun, and the log gives the reasons
    for reason in ("model other/model", f"code 0123456789ab and this worker has {code_version()}"):
        until(lambda reason=reason: reason in bench.log("pinned").read_text())
    # When another run sends a task, then the worker runs it, past the messages that it cannot process
    assert bench.app.send_task("gpu.hold", ("fine",)).get(timeout=30) == "fine"
    assert [bench.began(name) for name in ("other", "old", "gone")] == [0, 0, 0]
    # When a worker of any model starts and the run is continued with this code, then both are done, once
    bench.start_worker("gpu", name="free")
    store.set_requirements("old", code_version(), "")
    assert [result.get(timeout=30) for result in (other, old)] == ["other", "old"]
    until(lambda: bench.broker.hlen("unacked") == 0)
    assert [bench.began(name) for name in ("other", "old", "gone")] == [1, 1, 0]
    assert bench.broker.llen("gpu") == 0
