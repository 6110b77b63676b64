"""Tasks for tests of workers: they record their begin in the store, wait there for a key, and record their end.

A worker process imports this module (WHETSTONE_MODULES); the tests send by name.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

import celery
import redis

from tasks.store.address import ENVIRONMENT_VARIABLE, store_url
from tasks.task import FailureLocation, FarmTask, RecordedTask

PAUSE_S = 0.02


class Recorded(RecordedTask):
    """Its failure is recorded under its only argument in the record "plan" of the run "run"."""

    abstract = True
    max_retries = 1

    def location(self, name: str) -> FailureLocation:
        return FailureLocation("run", "plan", name, node=name, attempt=1)


current_app: Any = celery.current_app
shared_task: Callable[..., Callable[[Callable[..., Any]], Any]] = celery.shared_task


def define(work: Callable[..., Any], *names: str, **options: Any) -> None:
    for name in names:
        shared_task(name=name, **options)(work)


def connect() -> redis.Redis:
    return redis.Redis.from_url(store_url(os.environ[ENVIRONMENT_VARIABLE]), socket_timeout=2)


def persistently(command: Callable[[], Any]) -> Any:
    """Wait for a store that is away."""
    while True:
        try:
            return command()
        except (redis.RedisError, OSError):
            time.sleep(PAUSE_S)


def hold(name: str) -> str:
    """Record the begin, wait for the key `<name>:go`, record the end."""
    store = connect()
    persistently(lambda: store.rpush(f"{name}:began", os.getpid()))
    while not persistently(lambda: store.exists(f"{name}:go")):
        time.sleep(PAUSE_S)
    persistently(lambda: store.rpush(f"{name}:ended", os.getpid()))
    return name


define(hold, "gpu.hold", "openai.hold", "cpu.hold")
define(hold, "gpu.hold_recorded", base=Recorded, max_retries=FarmTask.max_retries)
define(hold, "openai.hang", "cpu.hang", base=Recorded, time_limit=1)


def write_when_let(name: str) -> None:
    """Record the begin, wait until the key `<name>:wait` is deleted, and record the end, if the store takes it."""
    store = connect()
    store.rpush(f"{name}:began", os.getpid())
    while store.exists(f"{name}:wait"):
        time.sleep(PAUSE_S)
    store.rpush(f"{name}:ended", os.getpid())


define(write_when_let, "openai.write", "cpu.write", base=Recorded)


def kill_own_process(name: str = "") -> None:
    os.kill(os.getpid(), signal.SIGKILL)


define(kill_own_process, "cpu.kill_recorded", base=Recorded)


@shared_task(name="gpu.kill_recorded", base=Recorded, max_retries=FarmTask.max_retries)
def kill_own_worker(name: str) -> None:
    hold(name)
    kill_own_process()


@shared_task(name="gpu.ask")
def ask(url: str, requests: int, concurrency: int) -> int:
    """Send requests to a target server. Returns how many were answered."""
    from tasks.gpu.target import GenerateRequest, TargetClient

    answered: list[int] = []
    request = GenerateRequest((1,), 1, 0.0, 1.0, 0, ())
    TargetClient(url, 60, concurrency).generate_many([request] * requests, lambda index, _: answered.append(index))
    return len(answered)


@shared_task(name="gpu.serve")
def serve(command: str) -> dict[str, object]:
    """Have the worker's host serve a target with this command. Returns the server's /server_info."""
    from server_target import server_reply, server_target

    return server_reply(current_app.target_host, server_target(command))


@shared_task(name="gpu.served", base=FarmTask, card="serves")
def be_served(name: str) -> str:
    """Hold while a server of this worker is in use."""
    from server_target import server_target

    with current_app.target_host.serving(server_target()):
        return hold(name)


def compute(name: str) -> None:
    """Run tests/computing_child.py on the card until the key `<name>:go`; its pid is the beginning."""
    from tasks.common.child import ComputeChild, run_child

    store = connect()

    def check() -> None:
        if store.exists(f"{name}:go"):
            raise RuntimeError("let go")

    def begin(report: Mapping[str, Any]) -> None:
        store.rpush(f"{name}:began", report["pid"])

    with current_app.target_host.computing(check):
        run_child(ComputeChild("test", "computing_child", ("wait",)), begin, check)


define(compute, "gpu.compute", base=Recorded, time_limit=60, card="computes")
define(compute, "gpu.compute_too_long", base=Recorded, time_limit=1, card="computes")
