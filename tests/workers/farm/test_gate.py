"""What a worker takes, what it leaves for others, and when it takes nothing."""

from __future__ import annotations

import time
from typing import Any

import pytest
from farm_bench import Bench, until

from tasks.code_version import code_version
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.keys import CANCELLED
from tasks.store.registry import WorkerRegistry
from tasks.store.store import Store
from workers.celery_ext.admission import CLOSED_S, MODEL_VARIABLE


def store_of(bench: Bench) -> Store:
    return Store(connect(store_url(bench.url)))


def look(bench: Bench, workers: int) -> dict[str, str]:
    """Have all look at what is paused; their states by name."""
    replies: list[dict[str, Any]] = bench.app.control.broadcast("whetstone_look", reply=True, timeout=10, limit=workers)
    return {name.partition("@")[0]: said["state"] for reply in replies for name, said in reply.items()}


def taken(bench: Bench) -> int:
    """How often a message was taken from a queue: that alone is written into a hash (of what is not acknowledged)."""
    return int(bench.broker.info("commandstats")["cmdstat_hset"]["calls"])


def test_a_paused_queue_keeps_its_messages_also_from_workers_that_start_later(bench: Bench) -> None:
    # Given a worker with a task in hand, and its queue paused
    roster = WorkerRegistry(connect(store_url(bench.url)))
    bench.start_worker("openai")
    first = bench.app.send_task("openai.hold", ("first",))
    until(lambda: bench.began("first"))
    roster.pause("openai")
    assert look(bench, 1) == {"openai": "paused"}
    # When more is sent and another worker starts, then nobody takes it, and what was in hand is finished
    second = bench.app.send_task("openai.hold", ("second",))
    bench.start_worker("openai", name="later")
    assert look(bench, 2) == {"openai": "paused", "later": "paused"}
    bench.let_end("first", "second")
    assert first.get(timeout=10) == "first"
    assert (bench.broker.llen("openai"), bench.began("second")) == (1, 0)
    # When the queue is resumed, then the rest is done, once
    roster.resume("openai")
    assert set(look(bench, 2).values()) == {"ready"}
    assert second.get(timeout=10) == "second"
    assert bench.began("second") == 1


@pytest.mark.long
def test_one_worker_can_be_paused_while_another_works(bench: Bench) -> None:
    roster = WorkerRegistry(connect(store_url(bench.url)))
    bench.start_worker("openai", name="one")
    bench.start_worker("openai", name="two")
    (name,) = (worker["worker"] for worker in roster.workers() if worker["worker"].startswith("one@"))
    roster.pause(name)
    assert look(bench, 2) == {"one": "paused", "two": "ready"}
    bench.let_end(*"abcdef")
    assert sorted(bench.app.send_task("openai.hold", (task,)).get(timeout=10) for task in "abcdef") == list("abcdef")
    assert "Task openai.hold[" in bench.log("two").read_text()
    assert "Task openai.hold[" not in bench.log("one").read_text()


@pytest.mark.long
def test_work_for_another_model_is_left_for_others_and_goes_round_slowly(bench: Bench) -> None:
    # Given a gpu worker that serves one model, and a run that wants another
    bench.start_worker("gpu", name="pinned", **{MODEL_VARIABLE: "some/model"})
    store_of(bench).welcome("run", code_version(), "other/model")
    bench.let_end("run", "free")
    result = bench.app.send_task("gpu.hold", ("run",))
    roster = WorkerRegistry(connect(store_url(bench.url)))
    until(lambda: look(bench, 1) == {"pinned": "refusing"})
    before, at = taken(bench), time.monotonic()
    # Then it says why, in its report and in its log
    (said,) = bench.app.control.broadcast("whetstone_report", reply=True, timeout=10, limit=1)
    assert (
        "run run wants the model other/model and this worker serves only some/model" in next(iter(said.values()))["why"]
    )
    assert "left for others: run run wants the model" in bench.log("pinned").read_text()
    # And the message is back in its queue, and is offered again only after a while
    assert bench.began("run") == 0
    until(lambda: taken(bench) > before + 3)  # a round takes it twice, to see that there is nothing else
    assert time.monotonic() - at > CLOSED_S
    # When one that may do it is there, then it is done, once
    bench.start_worker("gpu", name="free")
    assert result.get(timeout=20) == "run"
    assert bench.began("run") == 1
    assert len(roster.workers()) == 2


def test_a_run_of_other_code_is_left_and_a_cancelled_one_dropped(bench: Bench) -> None:
    # Given a run that was started with other code, and one that was cancelled
    bench.start_worker("cpu")
    store = store_of(bench)
    store.welcome("old", "0123456789ab", "")
    store.put_metadata("gone", CANCELLED, "1")
    bench.let_end("old", "gone", "fine")
    bench.app.send_task("cpu.hold", ("gone",))
    old = bench.app.send_task("cpu.hold", ("old",))
    until(lambda: look(bench, 1) == {"cpu": "refusing"})
    # Then neither has begun, and the log says why
    assert f"code 0123456789ab and this worker has {code_version()}" in bench.log("cpu").read_text()
    assert (bench.began("old"), bench.began("gone")) == (0, 0)
    # When another run sends something, then the worker gets to it, past what it cannot do
    assert bench.app.send_task("cpu.hold", ("fine",)).get(timeout=30) == "fine"
    # When the run goes on with our code, then its message is taken
    store.welcome("old", code_version(), "")
    assert old.get(timeout=30) == "old"
    until(lambda: bench.broker.hlen("unacked") == 0)
    assert (bench.began("old"), bench.began("gone"), bench.broker.llen("cpu")) == (1, 0, 0)
