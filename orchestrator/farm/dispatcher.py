"""Submit and await: the one loop in which the driver of a run waits for what it has sent to the farm."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from orchestrator.farm import Parked
from orchestrator.farm.connection import FarmConnection
from orchestrator.farm.workers import count_messages, start_hint
from tasks.records import Failure
from tasks.store.keys import CANCELLED
from tasks.store.store import Store
from tasks.store.workers import WorkerRegistry

log = logging.getLogger(__name__)
POLL_S = 0.25
MOST_RESENDS = 5  # of the same messages
LOST_MESSAGE_TIMEOUT_S = 30.0  # a killed worker's messages are back long before
CANCELLED_REASON = "cancelled by `orchestrator cancel`"
CHECK_EVERY_S = 5.0
MISSES_BEFORE_WARNING = 3  # in a row without a worker: an embedded one that died is back sooner


def parking_reason(failures: Sequence[Failure]) -> str:
    first, more = failures[0], f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    return f"{first.stage} of {first.node} failed: {first.error}{more}"


class Work(Protocol):
    """What the driver waits for: the candidates of a plan, or the jobs of a scheduler."""

    @property
    def name(self) -> str:
        """As in "no ... has finished for 60 s"."""

    def so_far(self) -> str:
        """As in "12 of 40 jobs"."""

    def refresh(self) -> None:
        """Read the record of the work in the store."""

    def progress(self) -> object:
        """A value that differs whenever something has finished, failed or been retried."""

    def is_done(self) -> bool: ...

    def is_running(self) -> bool:
        """Whether anything is sent that has neither finished nor failed."""

    def failures(self) -> list[Failure]: ...

    def resend(self) -> int:
        """Send again what is neither finished nor failed; returns how many."""


@dataclass
class Dispatcher:
    """Sends the work of one run and waits for it.

    The run parks after `no_progress_s` seconds without any task finishing, and with only failures left after
    `retry_wait_s`, in which they may be retried.  `notify` is called with what a person must know at once.  `only`
    names failed tasks: where a record has some of them, its other failures stand.  `tick` is told often how far the
    work is, and passes that on where nothing else has been said for a while.

    A worker that is killed in the moment between taking a message and noting that it has taken it loses it (kombu
    takes and notes in two steps).  So where nothing has finished for a while and the broker has no message of the
    run, what is missing is sent again.  A task that was not lost after all is still done once.
    """

    farm: FarmConnection
    run_id: str
    no_progress_s: float
    retry_wait_s: float = 0.0
    notify: Callable[[str], None] = log.info
    only: tuple[str, ...] = ()
    lost_message_timeout_s: float = LOST_MESSAGE_TIMEOUT_S
    tick: Callable[[str], None] = lambda text: None

    def __post_init__(self) -> None:
        self._monitor = WorkerMonitor(self.farm, self.notify)

    @property
    def store(self) -> Store:
        return self.farm.store

    def begin(self, record: str) -> int:
        """The number of a new attempt at a plan or at the jobs."""
        return self.store.begin_attempt(self.run_id, record, self._unselected)

    def _unselected(self, failures: list[Failure]) -> list[Failure]:
        """The failures that stand, because others of the record were named to be retried."""
        selected = [failure for failure in failures if any(map(failure.is_called, self.only))]
        return [failure for failure in failures if failure not in selected] if selected else []

    def wait(self, work: Work) -> Iterator[None]:
        """Comes back after each look at the record, until the work is done."""
        seen: object = None
        changed = counted = time.monotonic()
        is_notified, resends = False, 0
        began = changed
        while True:
            work.refresh()
            self.farm.check()
            self._monitor.look()
            if self.store.metadata(self.run_id, CANCELLED):
                raise Parked(CANCELLED_REASON)
            yield
            if work.is_done():
                return
            now = time.monotonic()
            self.tick(f"{work.so_far()}, for {now - began:.0f} s")
            if (progress := work.progress()) != seen:
                seen, changed, counted, is_notified, resends = progress, now, now, False, 0
            failures = work.failures()
            if failures and not work.is_running():
                parked = Parked(parking_reason(failures), tuple(failures))
                if now - changed >= self.retry_wait_s or parked.budget_exhausted:
                    raise parked
                if not is_notified:
                    self.notify(f"{parked.reason}; waiting {self.retry_wait_s:.0f} s for a retry")
                    is_notified = True
            elif now - changed > self.no_progress_s:
                raise Parked(f"no {work.name} has finished for {self.no_progress_s:.0f} s")
            elif now - counted > self.lost_message_timeout_s:
                counted = now
                resends += self._resend_lost(work, resends)
            self.store.wait(self.run_id, POLL_S)

    def _resend_lost(self, work: Work, before: int) -> bool:
        """Returns whether messages were sent again, which were lost `before` times."""
        if count_messages(self.farm.broker, self.run_id) > 0:
            return False
        if before >= MOST_RESENDS:
            raise Parked(f"no {work.name} has finished or failed, though it was sent {MOST_RESENDS + 1} times")
        if not (lost := work.resend()):
            return False
        log.warning("messages of %d tasks were lost, and are sent again", lost)
        return True


class WorkerMonitor:
    """Checks every few seconds whether each queue with waiting messages has a worker, and reports a change once."""

    def __init__(self, farm: FarmConnection, notify: Callable[[str], None]) -> None:
        self._farm, self._notify, self._registry = farm, notify, WorkerRegistry(farm.store.redis)
        self._checked = time.monotonic()
        self._misses: dict[str, int] = {}
        self._reported: dict[str, str] = {}

    def look(self) -> None:
        """Look when it is time to."""
        if time.monotonic() - self._checked < CHECK_EVERY_S:
            return
        self._checked = time.monotonic()
        self._registry.check_writes()  # while tasks wait for a store that refuses, their run must say so
        reports = self._registry.workers()
        for queue, waiting in self._farm.queues().items():
            line = unavailable_line(queue, waiting, reports)
            self._misses[queue] = self._misses.get(queue, 0) + 1 if line else 0
            if line and self._misses[queue] < MISSES_BEFORE_WARNING:
                continue
            if line and self._reported.get(queue) != line:
                self._notify(line)
            self._reported[queue] = line


def unavailable_line(queue: str, waiting: int, reports: Sequence[Mapping[str, Any]]) -> str:
    """A line when messages wait in a queue and no worker takes them; else ""."""
    workers = [report for report in reports if report["queue"] == queue]
    if not waiting or any(report.get("state", "ready") == "ready" for report in workers):
        return ""
    reasons = sorted({f"{report['worker']}: {report.get('why')}" for report in workers})
    return f"no worker is available for queue {queue}: {'; '.join(reasons) or start_hint(queue)}"
