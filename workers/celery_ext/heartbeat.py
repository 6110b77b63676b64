"""What a worker says about itself, every few seconds, for `orchestrator workers` and `orchestrator doctor`.

The report lies in the store under the worker's name for a little longer than the time to the next one.  It is told
from the loop that takes messages, so a worker that takes none any more tells nothing either.  `inspect` of the
command `whetstone_report` asks for it at once.

A part of the worker that has something to add registers it here, once:

    report.contribute("target", host.describe)     # the report then has "target": host.describe()

What is registered is called in the worker's loop: it must answer at once, from what it knows.
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

from tasks.code_version import code_version
from tasks.secret import secret
from tasks.store.address import redacted, redis_url_of, store_url
from tasks.store.client import connect
from tasks.store.registry import WorkerRegistry
from workers.queues import QUEUE_VARIABLE

logger = get_logger(__name__)

EVERY_S = 5.0
KEPT_S = 15
PATIENCE_S = 1.0  # with a store that does not answer: the loop has messages to take

Say = Callable[[], Any]
_parts: dict[str, Say] = {}
_started = time.time()


def contribute(part: str, say: Say | None) -> None:
    """Have `say()` (JSON) in every report under `part`; None takes it out again."""
    if say is None:
        _parts.pop(part, None)
    else:
        _parts[part] = say


def make_report(worker: str, queue: str, slots: int) -> dict[str, Any]:
    """The report of this process; times in seconds of the epoch, sizes in bytes."""
    return {
        "worker": worker,
        "queue": queue,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": code_version(),
        "slots": slots,
        "started": _started,
        "time": time.time(),
        "tasks": [describe(request) for request in tuple(state.active_requests)],
        "disk_free": shutil.disk_usage(".").free,
        **{part: _said(part, say) for part, say in tuple(_parts.items())},
    }


def describe(request: Any) -> dict[str, Any]:
    """A task in hand. Every task of ours begins its arguments with the id of its run."""
    arguments = list(request.args or ())
    return {"id": request.id, "name": request.name, "arguments": arguments, "since": request.time_start}


def endpoint() -> dict[str, Any]:
    """What an openai worker would call: whether it has a key, never which, and the address, "" for OpenAI's."""
    return {"key": bool(secret("OPENAI_API_KEY")), "base_url": redacted(os.environ.get("OPENAI_BASE_URL", ""))}


def _said(part: str, say: Say) -> Any:
    try:
        return say()
    except Exception as error:  # whatever goes wrong in one part, the worker still says that it lives
        logger.warning("the report has no %s: %s: %s", part, type(error).__name__, error)
        return None


class PeriodicStep(bootsteps.StartStopStep):
    """`start` calls `repeat`; a lost connection stops the step and a new one starts it again, on the same object."""

    def __init__(self, consumer: Any, **options: Any) -> None:
        self._timer_entry: Any = None
        super().__init__(consumer, **options)

    def repeat(self, consumer: Any, seconds: float, function: Callable[..., None], *args: Any) -> None:
        """Call `function` now and then every so many seconds, from the loop that takes messages."""
        self._timer_entry = consumer.timer.call_repeatedly(seconds, function, args, priority=10)
        function(*args)

    def stop(self, consumer: Any) -> None:
        if self._timer_entry is not None:
            self._timer_entry.cancel()
            self._timer_entry = None

    def shutdown(self, consumer: Any) -> None:
        self.stop(consumer)


class ReportStep(PeriodicStep):
    """Tells the report as long as the worker takes messages, and takes it away when the worker leaves."""

    requires = (
        "workers.celery_ext.admission:AdmissionControl",
    )  # what it says of the worker's state is in the first report already

    def start(self, consumer: Any) -> None:
        consumer.whetstone_report = self
        self.consumer = consumer
        if os.environ.get(QUEUE_VARIABLE) == "openai":
            contribute("endpoint", endpoint)
        self.roster = WorkerRegistry(client(redis_url_of(os.environ)))
        self.repeat(consumer, EVERY_S, self.tell)

    def shutdown(self, consumer: Any) -> None:
        super().shutdown(consumer)
        try:
            self.roster.forget(consumer.hostname)
        except (redis.RedisError, OSError) as error:
            logger.warning("the report is left to expire: %s", error)

    def make(self) -> dict[str, Any]:
        """This worker's report, now."""
        queue = os.environ.get(QUEUE_VARIABLE, "")
        return make_report(self.consumer.hostname, queue, self.consumer.controller.concurrency)

    def tell(self) -> None:
        """Put the report into the store. A store that is away is the event loop's concern, not ours."""
        try:
            seconds, microseconds = self.roster.redis.time()
            report = self.make()
            # Leases are times of the workers' clocks, so a clock that is wrong breaks them.
            report["clock_offset_s"] = round(report["time"] - seconds - microseconds / 1e6, 3)
            self.roster.put(self.consumer.hostname, report, KEPT_S)
        except (redis.RedisError, OSError) as error:
            logger.warning("the report was not told: %s", error)


@inspect_command()
def whetstone_report(state: Any) -> dict[str, Any]:
    """What this worker says about itself, as in the store."""
    report: dict[str, Any] = state.consumer.whetstone_report.make()
    return report


def client(url: str) -> redis.Redis:
    """A client of the store for the worker's loop: it soon gives up."""
    return connect(store_url(url), retries=0, timeout_s=PATIENCE_S)
