"""A card either serves or computes: who waits, who is refused, and what a killed worker leaves."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from farm_bench import Bench, until
from server_target import server_reply, server_target

from tasks.gpu.host import CardComputes
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.store import Store
from tasks.store.workers import WorkerRegistry
from workers.sglang.gpus import Card
from workers.sglang.host import LocalTargetHost


def lives(pid: object) -> bool:
    try:
        return psutil.Process(int(str(pid))).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def host(tmp_path: Path) -> Iterator[LocalTargetHost]:
    host = LocalTargetHost(tmp_path, "gpu", {**os.environ, "PYTHONPATH": ""})
    yield host
    host.close()


def compute(host: LocalTargetHost, ends: threading.Event) -> tuple[threading.Thread, threading.Event]:
    """A thread that computes until `ends`; the event says when it has begun."""
    begun = threading.Event()

    def work() -> None:
        with host.computing(lambda: None):
            begun.set()
            ends.wait(30)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread, begun


def test_computing_waits_for_those_who_are_served_and_nobody_new_is_served() -> None:
    card, order = Card(), []

    def compute() -> None:
        with card.computing(lambda: None):
            order.append("computes")

    with card.serving():
        thread = threading.Thread(target=compute)
        thread.start()
        until(lambda: card.use == "computes")
        # One who is served already may ask again, another thread may not
        with card.serving():
            order.append("served")
        refused: list[str] = []

        def ask() -> None:
            try:
                with card.serving():
                    pass
            except CardComputes as error:
                refused.append(str(error))

        other = threading.Thread(target=ask)
        other.start()
        other.join()
        assert refused == ["the card of this worker computes"]
    thread.join()
    assert (order, card.use) == (["served", "computes"], "")


def test_one_that_computes_alone_waits_for_the_others_and_new_ones_wait_for_it() -> None:
    card, order, ends = Card(), list[str](), {name: threading.Event() for name in ("first", "alone", "later")}

    def compute(name: str) -> None:
        with card.computing(lambda: None, alone=name == "alone"):
            order.append(name)
            ends[name].wait(30)

    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(compute, "first")
        until(lambda: order == ["first"])
        alone = threads.submit(compute, "alone")
        until(lambda: card._alone == 1)
        later = threads.submit(compute, "later")
        for name, work in (("first", first), ("alone", alone), ("later", later)):
            until(lambda name=name: order[-1] == name)
            ends[name].set()
            work.result(30)
    assert (order, card.use) == (["first", "alone", "later"], "")


def test_the_server_is_stopped_while_tasks_compute_and_started_again_afterwards(host: LocalTargetHost) -> None:
    # Given a server that nobody uses
    first = server_reply(host, server_target())
    ends = threading.Event()
    # When two tasks compute side by side, then it is gone, and none is started, early or at once
    one, began_one = compute(host, ends)
    two, began_two = compute(host, ends)
    assert began_one.wait(10) and began_two.wait(10)
    assert (lives(first["pid"]), host.describe()["card"]) == (False, "computes")
    with pytest.raises(CardComputes):
        host.serve(server_target())
    with pytest.raises(CardComputes):
        host.identity(server_target(args="--size 2"))
    host.start_early(server_target())
    assert "model" not in host.describe()
    # And a server that somebody else runs may be used all the same
    with host.serving(server_target(url="http://127.0.0.1:1")):
        pass
    ends.set()
    one.join()
    two.join()
    # Then the next task has a server again
    assert lives(server_reply(host, server_target())["pid"])


def test_on_a_farm_training_goes_first_and_who_would_be_served_goes_elsewhere(bench: Bench) -> None:
    # Given a worker with three slots on which one task is served
    worker = bench.start_worker("gpu", 3, name="first")
    served = bench.app.send_task("gpu.served", ("served",))
    until(lambda: bench.began("served"))
    # When two tasks want to compute, then they wait until no request is in flight
    for name in ("train-1", "train-2"):
        bench.app.send_task("gpu.compute", (name,))
    registry = WorkerRegistry(connect(store_url(bench.url)))
    until(lambda: card_of(bench) == "computes")
    assert (bench.began("train-1"), bench.began("train-2")) == (0, 0)
    bench.let_end("served")
    assert served.get(timeout=20) == "served"
    # And then both share the card
    until(lambda: bench.began("train-1") and bench.began("train-2"))
    pids = [int(bench.store.lindex(f"{name}:began", 0)) for name in ("train-1", "train-2")]
    assert all(map(lives, pids))
    # A task that wants to be served meanwhile goes back to the queue, and the worker says why
    bench.let_end("later")
    later = bench.app.send_task("gpu.served", ("later",))
    until(lambda: "the card of this worker computes" in bench.log("first").read_text())
    assert bench.began("later") == 0
    # until another worker takes it
    bench.start_worker("gpu", 1, name="second")
    assert later.get(timeout=30) == "later"
    assert "gpu.served" in bench.log("second").read_text()
    assert len(registry.workers()) == 2
    # When the worker is killed, then nothing of it is left
    os.kill(worker.pid or 0, 9)
    until(lambda: not any(map(lives, pids)))
    # and its tasks begin again on the other worker
    until(lambda: bench.began("train-1") == 2 or bench.began("train-2") == 2)
    # When a child is killed, then its task fails with the reason
    again = next(name for name in ("train-1", "train-2") if bench.began(name) == 2)
    os.kill(int(bench.store.lindex(f"{again}:began", 1)), 9)
    store = Store(connect(store_url(bench.url)))
    until(lambda: store.failures("run", "plan"))
    assert "ended by signal 9" in store.failures("run", "plan")[0].error


def card_of(bench: Bench) -> str:
    (reply,) = bench.app.control.broadcast("whetstone_report", reply=True, timeout=10, limit=1)
    return str(next(iter(reply.values()))["target"]["card"])


def test_a_task_over_its_hard_limit_leaves_no_child(bench: Bench) -> None:
    bench.start_worker("gpu", 1)
    bench.app.send_task("gpu.compute_too_long", ("hung",))
    until(lambda: bench.began("hung"))
    pid = bench.store.lindex("hung:began", 0)
    store = Store(connect(store_url(bench.url)))
    until(lambda: store.failures("run", "plan"))
    assert "TimeLimitExceeded" in store.failures("run", "plan")[0].error
    until(lambda: not lives(pid))
