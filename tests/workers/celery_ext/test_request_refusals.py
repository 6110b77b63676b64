"""A broker and a store that refuse or stop answering: no task is lost or held for ever; and readable messages."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import psutil
import pytest
from chaos_network import Proxy
from farm_bench import Bench, until
from kombu.exceptions import OperationalError
from redis import RedisError

from orchestrator.farm.connection import make_sender
from tasks.queues import QueueName
from tasks.store.address import ENVIRONMENT_VARIABLE, queues_url
from tasks.store.client import LONGEST_PAUSE_S, connect
from tasks.store.store import Store
from workers.app import DEFAULT_VISIBILITY_S, create_app


@contextmanager
def out_of_memory(bench: Bench) -> Iterator[None]:
    """Within the block the server refuses whatever takes memory."""
    bench.broker.config_set("maxmemory", 1)
    try:
        yield
    finally:
        bench.broker.config_set("maxmemory", 0)


@contextmanager
def replica(bench: Bench) -> Iterator[None]:
    """Within the block the server is a replica of one that is not there, and refuses all writes."""
    bench.broker.execute_command("REPLICAOF", "127.0.0.1", "1")
    try:
        yield
    finally:
        bench.broker.execute_command("REPLICAOF", "NO", "ONE")


@contextmanager
def suspended(pid: int | None) -> Iterator[None]:
    """Within the block the process stands still."""
    process = psutil.Process(pid)
    process.suspend()
    try:
        yield
    finally:
        process.resume()


def logged(bench: Bench, name: str, text: str) -> bool:
    return text in bench.log(name).read_text()


@pytest.mark.parametrize("queue", ["openai", "cpu"])
def test_a_task_whose_result_is_refused_is_given_back(bench: Bench, queue: QueueName) -> None:
    # Given a task in the middle of its work when the server's memory is full
    bench.start_worker(queue, 1)
    bench.store.set("task:wait", 1)
    bench.app.send_task(f"{queue}.write", ("task",))
    until(lambda: bench.began("task") == 1)
    with out_of_memory(bench):
        bench.store.delete("task:wait")
        until(lambda: logged(bench, queue, "returns to its queue when its lease ends"), 20)
    # When there is room again, then it is done, nothing is held, and the worker takes the next one
    until(lambda: bench.ended("task") == 1, 20)
    until(lambda: bench.broker.hlen("unacked") == 0)
    bench.app.send_task(f"{queue}.write", ("next",))
    until(lambda: bench.ended("next") == 1)


def test_a_worker_starts_takes_and_returns_messages_while_writes_are_refused(bench: Bench) -> None:
    # Given a task that waits in a queue, and a server whose memory is full
    bench.let_end("task")
    bench.app.send_task("openai.hold", ("task",))
    with out_of_memory(bench):
        # When a worker starts, then it stays and says why it does not begin
        worker = bench.launch_worker("openai", 1)
        until(lambda: logged(bench, "openai", "the store refuses: OOM"), 20)
        assert worker.alive
        assert bench.began("task") == 0
    # When there is room again, then it takes the message
    until(lambda: bench.ended("task") == 1, 20)
    until(lambda: bench.broker.hlen("unacked") == 0)


@pytest.mark.parametrize(
    ("disturbed", "said"),
    [
        (replica, "READONLY"),
        (lambda bench: suspended(bench.valkey.pid), "was not refreshed: Timeout"),  # on a Unix socket
    ],
    ids=["replica", "still"],
)
def test_a_worker_outlives_a_broker_that_becomes_a_replica_or_stands_still(
    bench: Bench, disturbed: Callable[[Bench], AbstractContextManager[None]], said: str
) -> None:
    # Given a task that ends while its server refuses all writes, or answers nothing
    bench.start_worker("openai", 1)
    bench.let_end("next")
    bench.app.send_task("openai.hold", ("task",))
    until(lambda: bench.began("task") == 1)
    bench.store.set("task:go", 1)
    with disturbed(bench):
        until(lambda: logged(bench, "openai", said), 20)
    # When it accepts writes again, then the task is done and the same worker takes the next one
    until(lambda: bench.ended("task") >= 1, 20)
    bench.app.send_task("openai.hold", ("next",))
    until(lambda: bench.ended("next") == 1, 20)
    until(lambda: bench.broker.hlen("unacked") == 0)
    assert all(worker.alive for worker in bench.workers)


def test_a_message_that_could_not_be_recorded_outlives_a_restart_of_the_broker(bench: Bench) -> None:
    # Given a worker that takes a message when the memory of its server is full
    worker = bench.start_worker("openai", 1)
    bench.let_end("task")
    with suspended(worker.pid):
        bench.app.send_task("openai.hold", ("task",))
        until(lambda: bench.broker.llen("openai") == 0)
        bench.broker.config_set("maxmemory", 1)
    until(lambda: logged(bench, "openai", "the store refuses: OOM"), 20)
    # When the server is killed, is away for longer than between two attempts, and has room again
    bench.valkey.stop(0)
    away = time.monotonic()
    until(lambda: time.monotonic() > away + 2 * LONGEST_PAUSE_S)
    bench.start_valkey()
    # Then the worker does the task
    until(lambda: bench.ended("task") == 1, 20)
    until(lambda: bench.broker.hlen("unacked") == 0)


STAGE = ["demo", "g2_child", 3, "mut", 1]


def test_every_message_names_its_run_generation_and_child(valkey_url: str, store: Store) -> None:
    app = create_app({"WHETSTONE_REDIS_URL": valkey_url})
    with app:
        app.send_task("openai.reflect", args=STAGE)
        app.signature("openai.reflect", args=STAGE, argsrepr="something else").apply_async()
    broker = connect(queues_url(valkey_url))
    messages = [json.loads(text) for text in broker.lrange("openai", 0, -1)]
    assert len(messages) == 2
    for message in messages:
        assert message["headers"]["argsrepr"] == "run=demo generation=2 child=g2_child3_mut attempt=1"
        assert message["headers"]["kwargsrepr"] == ""


def test_a_closed_channel_raises_an_error_after_which_a_sender_tries_again(store: Store, valkey_url: str) -> None:
    with make_sender(valkey_url) as app, app.connection_for_write() as connection:
        channel = connection.channel()
        message = channel.prepare_message("{}")
        channel.close()
        with pytest.raises(connection.recoverable_connection_errors, match="closed"):
            channel.basic_publish(message, exchange="cpu", routing_key="cpu")


RECONNECTED_S = 30.0  # about 20 s; machines that run tests are slow


@pytest.fixture
def proxy(bench: Bench) -> Iterator[Proxy]:
    proxy = Proxy(0, bench.socket)
    yield proxy
    proxy.close()


@pytest.mark.long
@pytest.mark.parametrize("bench", [DEFAULT_VISIBILITY_S], indirect=True)
def test_workers_senders_and_listeners_leave_silent_connections(bench: Bench, proxy: Proxy) -> None:
    # Given workers, a sender and a listener to events that reach the broker through a proxy, and two tasks that run
    through = {**bench.environment, ENVIRONMENT_VARIABLE: f"redis://127.0.0.1:{proxy.port}/0"}
    for queue in ("openai", "cpu"):
        bench.start_worker(queue, 2, **through)
    app, heard, stop = create_app(through), list[str](), threading.Event()

    def listen() -> None:
        while not stop.is_set():
            with suppress(OperationalError, RedisError, OSError), app.connection() as connection:
                receiver = app.events.Receiver(
                    connection, {"task-succeeded": lambda event: heard.append(event["uuid"])}
                )
                receiver.capture(limit=None, timeout=None, wakeup=False)

    threading.Thread(target=listen, daemon=True).start()
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

    seen = len(heard)

    def hears() -> bool:
        bench.let_end("event")
        app.send_task("openai.hold", ("event",))
        return len(heard) > seen

    until(hears, RECONNECTED_S)
    stop.set()
