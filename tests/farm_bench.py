"""A bench for tests of workers: a real Valkey, real worker processes, and functions that wait for events."""

import os
import resource
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Self

import psutil
import redis
from celery import Celery

from tasks.queues import QueueName
from tasks.store.address import ENVIRONMENT_VARIABLE, store_url
from tasks.store.client import NO_WAITING
from workers.app import VISIBILITY_VARIABLE, create_app
from workers.embedded import valkey
from workers.health import worker_answers
from workers.processes import ChildProcess, Command
from workers.queues import worker_command

MODULES_FOLDER = Path(__file__).parent  # of farm_tasks.py, which workers import
VISIBILITY_S = 2.0


def until(condition: Callable[[], object], limit_s: float = 30.0) -> None:
    """Wait until `condition()` is true. Raises: AssertionError when it is not in time."""
    pause, deadline = threading.Event(), time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not hold within {limit_s:g} s"
        pause.wait(0.02)


def lives(pid: object) -> bool:
    try:
        return psutil.Process(int(str(pid))).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class RefusingValkey:
    """A real Valkey on a private socket, which refuses writes inside the block of a method, as it happens in use."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.socket = folder, valkey.socket_path(folder)
        self.url = valkey.redis_url(self.socket)
        self.server = valkey.valkey_process(folder, self.socket, None)
        self.broker: Any = redis.Redis(unix_socket_path=str(self.socket), decode_responses=True, retry=NO_WAITING)

    def start(self) -> Self:
        self.server.start()
        self.server.wait_ready(lambda: valkey.is_answering(self.socket), 20)
        return self

    def close(self) -> None:
        self.broker.close()
        self.server.stop(2)
        self.socket.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """The append-only file cannot grow: MISCONF."""
        assert self.server.pid is not None
        process = psutil.Process(self.server.pid)
        process.rlimit(psutil.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        until(lambda: refuses(self.broker))
        try:
            yield
        finally:
            process.rlimit(psutil.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    @contextmanager
    def full_memory(self) -> Iterator[None]:
        """`maxmemory` is less than what is stored: OOM."""
        self.broker.config_set("maxmemory", "1")
        until(lambda: refuses(self.broker))
        try:
            yield
        finally:
            self.broker.config_set("maxmemory", "0")

    @contextmanager
    def replica(self) -> Iterator[None]:
        """After a failover to another server, and until one back: READONLY."""
        self.broker.execute_command("REPLICAOF", "127.0.0.1", "1")
        try:
            yield
        finally:
            self.broker.execute_command("REPLICAOF", "NO", "ONE")

    @contextmanager
    def away(self) -> Iterator[None]:
        """Its socket is not where it was, and all connections are closed."""
        hidden = self.socket.with_suffix(".away")
        self.socket.rename(hidden)
        away: Any = redis.Redis(unix_socket_path=str(hidden), retry=NO_WAITING)
        away.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        try:
            yield
        finally:
            hidden.rename(self.socket)

    def silent(self) -> AbstractContextManager[None]:
        """It is stopped: connections stay open, and nothing answers."""
        return suspended(self.server.pid)

    @property
    def refusals(self) -> Mapping[str, Callable[[], object]]:
        """By the words that a user reads."""
        return {
            "refuses: MISCONF": self.full_disk,
            "refuses: OOM": self.full_memory,
            "refuses: READONLY": self.replica,
            "does not answer": self.away,
        }


@contextmanager
def suspended(pid: int | None) -> Iterator[None]:
    """Within the block the process stands still."""
    process = psutil.Process(pid)
    process.suspend()
    try:
        yield
    finally:
        process.resume()


def refuses(client: redis.Redis) -> bool:
    """Whether a write is refused."""
    try:
        client.set("probe", "x" * 100)
    except redis.ResponseError:
        return True
    return False


class Bench(RefusingValkey):
    """A Valkey, an application that sends to it, and the workers that a test starts."""

    def __init__(self, folder: Path, visibility_s: float = VISIBILITY_S, **environment: str) -> None:
        super().__init__(folder)
        own = {ENVIRONMENT_VARIABLE: self.url, VISIBILITY_VARIABLE: str(visibility_s)}
        self.environment = {**os.environ, **own, **environment}
        self.app: Celery = create_app(self.environment)
        self.store = redis.Redis.from_url(store_url(self.url), decode_responses=True)
        self.workers: list[ChildProcess] = []

    def start_worker(self, queue: QueueName, concurrency: int = 2, name: str = "", **environment: str) -> ChildProcess:
        """A worker that answers a ping; its default name is its queue's."""
        worker = self.launch_worker(queue, concurrency, name, **environment)
        worker.wait_ready(lambda: worker_answers(self.url, name or queue), 30)
        return worker

    def launch_worker(self, queue: QueueName, concurrency: int = 2, name: str = "", **environment: str) -> ChildProcess:
        """A worker that has just been started and may not answer yet."""
        name = name or queue
        argv = tuple(worker_command(queue, name, concurrency))
        worker = ChildProcess(Command(name, argv, self.log(name), {**self.environment, **environment}))
        self.workers.append(worker)
        worker.start()
        return worker

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def empty_store(self) -> None:
        """Leave what workers say of themselves alone."""
        if keys := [key for key in self.store.scan_iter() if ":worker" not in key]:
            self.store.delete(*keys)

    def began(self, name: str) -> int:
        return int(self.store.llen(f"{name}:began"))

    def ended(self, name: str) -> int:
        return int(self.store.llen(f"{name}:ended"))

    def let_end(self, *names: str) -> None:
        for name in names:
            self.store.set(f"{name}:go", 1)

    def oldest_lease(self) -> float:
        """When the least recently refreshed message was last refreshed, in seconds of the epoch."""
        held: Any = self.broker.zrange("unacked_index", 0, -1, withscores=True)
        return float(min((score for _, score in held), default=0))

    def close(self) -> None:
        for worker in self.workers:
            worker.stop(0)
        super().close()
