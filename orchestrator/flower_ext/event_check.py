"""Events of workers and tasks, checked before Flower takes them.

Flower sets each field of an event as an attribute of its own records, and shows and saves them.  An event with a
heartbeat that is a text, for example, makes its page of workers fail from then on.  So events that do not fit are
dropped, and so are fields that Celery does not send.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Required

from annotated_types import Ge, Le, Len, MaxLen
from pydantic import FiniteFloat
from typing_extensions import TypedDict

from tasks.validation import InvalidData, check_value

log = logging.getLogger(__name__)

Name = Annotated[str, Len(1, 255)]
Short = Annotated[str, MaxLen(1000)]
Text = Annotated[str, MaxLen(100_000)]
Count = Annotated[int, Ge(0), Le(2**62)]
Seconds = Annotated[FiniteFloat, Ge(0), Le(1e10)]
LARGEST_WORKERS = 1000  # of different names; each is kept in memory and in the history


class Event(TypedDict, total=False):
    """What every event has."""

    hostname: Required[Name]
    timestamp: Required[Seconds]
    local_received: Seconds
    utcoffset: Annotated[FiniteFloat, Ge(-24), Le(24)]
    clock: Count
    pid: Count


class WorkerEvent(Event, total=False):
    """A worker begins, ends, or lives."""

    type: Required[Literal["worker-online", "worker-heartbeat", "worker-offline"]]
    freq: Annotated[FiniteFloat, Ge(0), Le(3600)]
    active: Count
    processed: Count
    loadavg: Annotated[list[FiniteFloat], Len(3, 3)]
    sw_ident: Short
    sw_ver: Short
    sw_sys: Short


class TaskEvent(Event, total=False):
    """What became of a task."""

    type: Required[
        Literal[
            "task-sent",
            "task-received",
            "task-started",
            "task-succeeded",
            "task-failed",
            "task-rejected",
            "task-revoked",
            "task-retried",
        ]
    ]
    uuid: Required[Name]
    name: Short | None
    args: Text | None
    kwargs: Text | None
    result: Text | None
    exception: Text | None
    traceback: Text | None
    runtime: Seconds | None
    retries: Count | None
    eta: Short | None
    expires: Short | None
    queue: Short | None
    exchange: Short | None
    routing_key: Short | None
    root_id: Short | None
    parent_id: Short | None
    signum: Short | int | None
    terminated: bool | None
    expired: bool | None
    requeue: bool | None


class EventCheck:
    """Gives to `take` the events that fit; the first dropped one of each kind is logged."""

    def __init__(self, take: Callable[[dict[str, Any]], None]) -> None:
        self._take = take
        self._workers: set[str] = set()
        self._logged: set[str] = set()

    def __call__(self, event: Mapping[str, Any]) -> None:
        kind = TaskEvent if str(event.get("type", "")).startswith("task-") else WorkerEvent
        try:
            checked: dict[str, Any] = check_value(kind, dict(event), "event")
        except InvalidData as error:
            self._log(str(error))
            return
        name = checked["hostname"]
        if name not in self._workers and len(self._workers) >= LARGEST_WORKERS:
            self._log(f"event.hostname: there are {LARGEST_WORKERS} other workers already")
            return
        self._workers.add(name)
        self._take(checked)

    def _log(self, reason: str) -> None:
        place = reason.partition(":")[0]
        if place not in self._logged and len(self._logged) < 100:
            self._logged.add(place)
            log.warning("dropped an event: %s", reason)
