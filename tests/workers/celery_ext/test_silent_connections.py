"""Connections that stop answering without being closed: each process has new ones within half a minute, and logs it."""

import threading
import time
from collections.abc import Iterator

import psutil
import pytest
from chaos_network import Proxy
from farm_bench import Bench, until
from prometheus_client import CollectorRegistry

from tasks.store.address import ENVIRONMENT_VARIABLE
from workers.app import BROKER_REPLY_S, DEFAULT_VISIBILITY_S, create_app
from workers.metrics import TaskEvents, listen

RECONNECTED_S = 30.0  # about 20 s; machines that run tests are slow


@pytest.fixture
def proxy(bench: Bench) -> Iterator[Proxy]:
    proxy = Proxy(0, bench.socket)
    yield proxy
    proxy.close()


@pytest.mark.long
@pytest.mark.parametrize("bench", [DEFAULT_VISIBILITY_S], indirect=True)
def test_a_broker_on_a_unix_socket_that_stands_still_ends_no_worker(bench: Bench) -> None:
    # Given a task that runs when Valkey is stopped for longer than a reply may take
    bench.start_worker("openai")
    bench.app.send_task("openai.hold", ("task",))
    until(lambda: bench.began("task") == 1)
    server = psutil.Process(bench.valkey.pid)
    server.suspend()
    try:
        stopped = time.monotonic()
        until(lambda: time.monotonic() > stopped + 2 * BROKER_REPLY_S)
    finally:
        server.resume()
    # When it goes on, then the task ends, once, and the same worker takes the next one
    bench.let_end("task", "next")
    until(lambda: bench.ended("task") == 1, RECONNECTED_S)
    bench.app.send_task("openai.hold", ("next",))
    until(lambda: bench.ended("next") == 1, RECONNECTED_S)
    assert (bench.began("task"), [worker.alive for worker in bench.workers]) == (1, [True])


@pytest.mark.long
@pytest.mark.parametrize("bench", [DEFAULT_VISIBILITY_S], indirect=True)
def test_workers_senders_and_listeners_leave_silent_connections(bench: Bench, proxy: Proxy) -> None:
    # Given workers, a sender and a listener to events that reach the broker through a proxy, and two tasks that run
    through = {**bench.environment, ENVIRONMENT_VARIABLE: f"redis://127.0.0.1:{proxy.port}/0"}
    for queue in ("openai", "cpu"):
        bench.start_worker(queue, 2, **through)
    app, registry, stop = create_app(through), CollectorRegistry(), threading.Event()
    listener = threading.Thread(target=listen, args=(app, TaskEvents(registry), stop), daemon=True)
    listener.start()
    for queue in ("openai", "cpu"):
        app.send_task(f"{queue}.hold", (f"{queue}-before",))
        until(lambda name=f"{queue}-before": bench.began(name) == 1)
    # When all these connections stop answering, and new ones answer
    assert proxy.silence() > 8
    # Then the sender sends, the workers take it, the listener has its events, and the tasks that ran are done once
    for queue in ("openai", "cpu"):
        bench.let_end(f"{queue}-before", f"{queue}-after")
        app.send_task(f"{queue}.hold", (f"{queue}-after",))
    for queue in ("openai", "cpu"):
        until(lambda name=f"{queue}-after": bench.ended(name) == 1, RECONNECTED_S)
        until(lambda name=f"{queue}-before": bench.ended(name) == 1)
        log = bench.log(queue).read_text()
        assert "dropping stale connection" in log
    until(lambda: bench.broker.hlen("unacked") == 0, RECONNECTED_S)
    assert [bench.began(f"{queue}-before") for queue in ("openai", "cpu")] == [1, 1]

    def events() -> float:
        return registry.get_sample_value("whetstone_tasks_total", {"task": "other", "state": "succeeded"}) or 0.0

    seen = events()

    def heard() -> bool:
        bench.let_end("event")
        app.send_task("openai.hold", ("event",))
        return events() > seen

    until(heard, RECONNECTED_S)
    stop.set()
    listener.join(10)
