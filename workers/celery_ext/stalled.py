"""Whether a worker moves: with work in its queue, it must take or finish a task, or a task must report progress.

Work that it may not do, and returns to the queue for other workers, is no reason: it looks at each such message again.

A worker whose event loop runs is alive, and yet may do nothing: its slots are taken by tasks that hang, or its
connection gives it no messages.  It then has the state "stalled" in its report, with the reason.  That is the one
definition of a worker without progress: `orchestrator workers` and `doctor`, the health check of containers
(`workers/health.py`) and the metrics read it there (`unhealthy_reason` in `tasks/store/registry.py`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from celery.utils.log import get_logger
from celery.worker import state
from redis import RedisError

from tasks.progress import PROGRESS_CLOCK
from workers.celery_ext.heartbeat import PeriodicStep

STALLED_VARIABLE = "WHETSTONE_STALLED_S"  # seconds
# More than a call to the endpoint, an answer of the target or a step of a clustering takes.
DEFAULT_STALLED_S = 300.0
CHECK_EVERY_S = 5.0

logger = get_logger(__name__)


def stalled_limit(environment: Mapping[str, str] = os.environ) -> float:
    """How long a worker may do nothing, in seconds.  Raises: ValueError for a text that is no such number."""
    text = environment.get(STALLED_VARIABLE) or str(DEFAULT_STALLED_S)
    try:
        if 0 < (seconds := float(text)) < float("inf"):
            return seconds
    except ValueError:
        pass
    raise ValueError(f"{STALLED_VARIABLE} is a number of seconds above 0, not {text!r}")


class StallDetector:
    """Finds that nothing has changed for `limit_s` seconds while there was work; `clock` gives seconds."""

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit_s, self._clock = limit_s, clock
        self._seen: Hashable = None
        self._moved = clock()

    def stalled_s(self, has_work: bool, seen: Hashable, reported: float) -> float | None:
        """For how long nothing has been done, once that is too long; else None.

        `seen` differs whenever a task was taken or has finished; `reported` is when a task last reported progress.
        """
        now = self._clock()
        if not has_work or seen != self._seen:
            self._seen, self._moved = seen, now
        since = now - max(self._moved, reported)
        return since if since > self.limit_s else None


class Stalled(PeriodicStep):
    """Tells admission control, which reports the worker's state, whether the worker is stalled."""

    requires = ("workers.celery_ext.admission:AdmissionControl",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        self.detector = StallDetector(stalled_limit())
        super().__init__(consumer, **options)

    def start(self, consumer: Any) -> None:
        self.consumer = consumer
        self.repeat(consumer, min(CHECK_EVERY_S, self.detector.limit_s / 2), self.check)

    def check(self) -> None:
        admission, channel = self.consumer.whetstone_admission, self.consumer.task_consumer.channel
        begun = tuple(state.reserved_requests)
        try:
            waiting = 0 if admission.paused else int(channel._size(admission.queue))
        except (RedisError, OSError) as error:  # without its broker no worker moves, and that is reported elsewhere
            logger.debug("the length of the queue is not known: %s", error)
            waiting = 0
        # A worker that returns messages for others moves; why it does is its state.
        seen = (sum(state.total_count.values()), admission.not_accepted, frozenset(request.id for request in begun))
        seconds = self.detector.stalled_s(bool(waiting or begun), seen, PROGRESS_CLOCK.at)
        reason = "" if seconds is None else _describe(seconds, waiting, len(begun))
        if reason and not admission.stalled:
            logger.error("stalled: %s", reason)
        elif admission.stalled and not reason:
            logger.warning("not stalled any more")
        admission.stalled = reason


def _describe(seconds: float, waiting: int, begun: int) -> str:
    return f"nothing was taken or finished for {seconds:.0f} s, with {waiting} messages waiting and {begun} tasks begun"
