"""A worker's report about itself, written to the store every few seconds, for `orchestrator farm workers` and `doctor`.

It expires soon after the time of the next one.  It is written from the loop that consumes messages, so a worker whose
loop stands still has none.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Callable
from typing import Any

import redis
from celery import bootsteps
from celery.utils.log import get_logger
from celery.worker import state
from celery.worker.control import inspect_command

from tasks.common.logs import redacted, secret
from tasks.store.address import redis_url_of, store_url
from tasks.store.client import NO_WAITING, connect
from tasks.store.workers import WorkerRegistry, code_version
from workers.queues import QUEUE_VARIABLE

logger = get_logger(__name__)

EVERY_S = 5.0
EXPIRES_S = 15
TIMEOUT_S = 1.0  # of the store: the loop has messages to consume

_started = time.time()
FIELDS: dict[str, Callable[[], Any]] = {}
"""What parts of the worker add to the report, by name; the loop calls these functions, so they return JSON at once."""


def store_client() -> redis.Redis:
    return connect(store_url(redis_url_of(os.environ)), NO_WAITING, timeout_s=TIMEOUT_S)


class PeriodicStep(bootsteps.StartStopStep):
    """`start` calls `repeat`; a lost connection stops the step and a new one starts it again, on the same object."""

    _timer_entry: Any = None

    def repeat(self, consumer: Any, seconds: float, function: Callable[[], None]) -> None:
        """Call `function` now and every so many seconds, from the loop that consumes messages."""
        self._timer_entry = consumer.timer.call_repeatedly(seconds, function, priority=10)
        function()

    def stop(self, consumer: Any) -> None:
        if self._timer_entry is not None:
            self._timer_entry.cancel()
            self._timer_entry = None

    def shutdown(self, consumer: Any) -> None:
        self.stop(consumer)


class Heartbeat(PeriodicStep):
    """Publishes the report while the worker consumes messages, and removes it when the worker shuts down."""

    # The first report already has the state that admission control adds.
    requires = ("workers.celery_ext.admission:AdmissionControl",)
    registry: WorkerRegistry | None = None  # until the worker has reached its broker

    def start(self, consumer: Any) -> None:
        consumer.whetstone_heartbeat = self
        self.consumer = consumer
        if os.environ.get(QUEUE_VARIABLE) == "openai":
            address = redacted(os.environ.get("OPENAI_BASE_URL", ""))  # "" for OpenAI's
            FIELDS["endpoint"] = lambda: {"key": bool(secret("OPENAI_API_KEY")), "base_url": address}
        self.registry = WorkerRegistry(store_client())
        self.repeat(consumer, EVERY_S, self.publish)

    def shutdown(self, consumer: Any) -> None:
        super().shutdown(consumer)
        try:
            if self.registry is not None:
                self.registry.forget(consumer.hostname)
        except (redis.RedisError, OSError) as error:
            logger.warning("the report was not removed and will expire: %s", error)

    def make(self) -> dict[str, Any]:
        """This worker's report, now; times in seconds of the epoch, sizes in bytes."""
        tasks = [  # the first argument of every task is the id of its run
            {"id": one.id, "name": one.name, "arguments": list(one.args or ()), "since": one.time_start}
            for one in tuple(state.active_requests)
        ]
        return {
            "worker": self.consumer.hostname,
            "queue": os.environ.get(QUEUE_VARIABLE, ""),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": code_version(),
            "slots": self.consumer.controller.concurrency,
            "started": _started,
            "time": time.time(),
            "tasks": tasks,
            "disk_free": shutil.disk_usage(".").free,
            **{name: _value(name, field) for name, field in tuple(FIELDS.items())},
        }

    def publish(self) -> None:
        """Write the report to the store.  A store that is away is handled by the worker's event loop."""
        assert self.registry is not None
        try:
            seconds, microseconds = self.registry.redis.time()
            report = self.make()
            # Leases are times of the workers' clocks, so a clock that is wrong breaks them.
            report["clock_offset_s"] = round(report["time"] - seconds - microseconds / 1e6, 3)
            self.registry.put(self.consumer.hostname, report, EXPIRES_S)
        except (redis.RedisError, OSError) as error:
            logger.warning("the report was not written: %s", error)


@inspect_command()
def whetstone_report(state: Any) -> dict[str, Any]:
    """This worker's report, as in the store."""
    report: dict[str, Any] = state.consumer.whetstone_heartbeat.make()
    return report


def _value(name: str, field: Callable[[], Any]) -> Any:
    try:
        return field()
    except Exception as error:  # an error in one field must not suppress the heartbeat
        logger.warning("the report has no %s: %s: %s", name, type(error).__name__, error)
        return None
