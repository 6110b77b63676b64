"""The workers of a farm: their reports, and pausing them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.farm.connection import FarmConnection
from orchestrator.settings import SettingsError
from tasks.queues import QUEUES
from tasks.store.workers import WorkerRegistry

ANSWER_S = 2.0  # the longest wait for the answers of all


def start_hint(queue: str) -> str:
    """How to get a worker of a queue that has none, in words."""
    in_containers = "in containers see `docker compose ps --all`"
    return f"start one with `python -m workers {queue}`; {in_containers}"


def reports(farm: FarmConnection) -> list[dict[str, Any]]:
    """The report of each worker, by queue and name: of now, or of a few seconds ago.

    A worker that has not answered in time has the state "silent".
    """
    kept = {report["worker"]: report for report in WorkerRegistry(farm.store.redis).workers()}
    fresh = broadcast(farm, "whetstone_report", len(kept)) if kept else {}
    found = [{**report, **fresh.get(name, {"state": "silent"})} for name, report in kept.items()]
    return sorted(found, key=lambda report: (report["queue"], report["worker"]))


def paused(farm: FarmConnection) -> dict[str, float]:
    """Which queues and workers are paused, and since when in seconds of the epoch."""
    return WorkerRegistry(farm.store.redis).paused()


def pause(farm: FarmConnection, name: str) -> dict[str, str]:
    """Have a queue or a worker take no more tasks, now and after a restart.  It finishes the tasks that it has.

    Returns the state of each worker that it concerns.
    """
    name = resolve_name(farm, name)
    WorkerRegistry(farm.store.redis).pause(name)
    return _look(farm, name)


def resume(farm: FarmConnection, name: str) -> dict[str, str]:
    """The opposite of `pause`."""
    if name not in (there := paused(farm)):
        name = resolve_name(farm, name)
    if name not in there:
        raise SettingsError([f"{name} is not paused; paused: {', '.join(sorted(there)) or 'nothing'}"])
    WorkerRegistry(farm.store.redis).resume(name)
    return _look(farm, name)


def resolve_name(farm: FarmConnection, name: str) -> str:
    """The queue, or the full name of the one worker, that `name` means."""
    names = [report["worker"] for report in WorkerRegistry(farm.store.redis).workers()]
    meant = [full for full in (*QUEUES, *names) if name == full or (name not in QUEUES and name == full.split("@")[0])]
    if len(meant) != 1:
        raise SettingsError([f"no one queue or worker is called {name!r}; there are: {', '.join([*QUEUES, *names])}"])
    return str(meant[0])


def broadcast(farm: FarmConnection, command: str, count: int) -> dict[str, Any]:
    """The replies of the workers to a command, by worker name; `count` is how many are expected."""
    replies = farm.app.control.broadcast(command, reply=True, timeout=ANSWER_S, limit=count) or []
    return {name: answer for reply in replies for name, answer in reply.items() if isinstance(answer, Mapping)}


def task_lines(report: Mapping[str, Any]) -> list[str]:
    """The tasks that a worker is executing, in words."""
    now = time.time()
    return [f"{_what(task)}{_for(task['since'], now)}" for task in report.get("tasks") or []]


def _look(farm: FarmConnection, name: str) -> dict[str, str]:
    """Have all workers look at what is paused; the states of those that `name` concerns."""
    there = {report["worker"]: report["queue"] for report in WorkerRegistry(farm.store.redis).workers()}
    answers = broadcast(farm, "whetstone_check_paused", len(there)) if there else {}
    concerned = [worker for worker, queue in sorted(there.items()) if name in (worker, queue)]
    return {worker: answers.get(worker, {}).get("state", "silent") for worker in concerned}


def _what(task: Mapping[str, Any]) -> str:
    arguments = [str(argument) for argument in task["arguments"]]
    stage = str(task["name"]).partition(".")[2]
    if len(arguments) == 5:  # a stage of a candidate: run, plan, index, phase, attempt
        run, plan, index, phase, _ = arguments
        return f"{stage} of {plan}{index} ({phase}) of {run}"
    return f"{stage} of {arguments[0]}" if arguments else stage


def _for(since: float | None, now: float) -> str:
    return "" if since is None else f", for {max(0.0, now - since):.0f} s"


CHECK_EVERY_S = 5.0
MISSES_BEFORE_WARNING = 3  # in a row without a worker: an embedded one that died is back sooner


class WorkerAvailabilityMonitor:
    """Checks every few seconds whether each queue with waiting messages has a worker, and reports a change once."""

    def __init__(
        self, registry: WorkerRegistry, queues: Callable[[], Mapping[str, int]], notify: Callable[[str], None]
    ) -> None:
        self._registry, self._queues, self._notify = registry, queues, notify
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
        for queue, waiting in self._queues().items():
            self._note(queue, unavailable_line(queue, waiting, reports))

    def _note(self, queue: str, line: str) -> None:
        self._misses[queue] = self._misses.get(queue, 0) + 1 if line else 0
        if line and self._misses[queue] < MISSES_BEFORE_WARNING:
            return
        if line and self._reported.get(queue) != line:
            self._notify(line)
        self._reported[queue] = line


def unavailable_line(queue: str, waiting: int, reports: list[dict[str, Any]]) -> str:
    """A line when messages wait in a queue and no worker takes them; else ""."""
    workers = [report for report in reports if report["queue"] == queue]
    if not waiting or any(report.get("state", "ready") == "ready" for report in workers):
        return ""
    reasons = sorted({f"{report['worker']}: {report.get('why')}" for report in workers})
    why = "; ".join(reasons) or start_hint(queue)
    return f"no worker is available for queue {queue}: {why}"
