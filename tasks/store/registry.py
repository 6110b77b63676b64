"""The workers' own reports, and what is paused.

A node name is Celery's: "gpu@host".  These keys belong to no run, and a report expires soon after its worker.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping
from typing import Any, Required, cast

import redis
from pydantic import FiniteFloat
from typing_extensions import TypedDict

from tasks.escape import quote
from tasks.store.keys import PAUSED, PROBE, WORKERS, worker_key
from tasks.validation import InvalidData, Moment, check_value, checked_json

log = logging.getLogger(__name__)


class TaskReport(TypedDict, total=False):
    """A task that a worker is executing, `since` when in seconds of the epoch."""

    id: str
    name: str
    arguments: list[Any]
    since: FiniteFloat | None


class GpuReport(TypedDict, total=False):
    """A GPU; memory in bytes."""

    index: int | str
    name: str
    used: FiniteFloat
    total: FiniteFloat
    utilization: FiniteFloat | None


class TargetReport(TypedDict, total=False):
    """The target server of a gpu worker."""

    url: str | None
    model: str
    engine: str
    version: str | None
    in_flight: int
    tokens_a_second: FiniteFloat
    gpu: GpuReport | None


class EndpointReport(TypedDict, total=False):
    """The endpoint of an openai worker."""

    key: bool
    base_url: str


class WorkerReport(TypedDict, total=False):
    """What is read of a report; a worker of another version may leave something out, and adds more."""

    worker: Required[str]
    queue: str
    host: str
    pid: int
    version: str
    slots: int
    started: Moment
    tasks: list[TaskReport]
    disk_free: FiniteFloat  # bytes
    clock_offset_s: FiniteFloat
    state: str | None  # what admission control does with messages, and why
    why: str | None
    serves_only: str | None
    target: TargetReport | None
    endpoint: EndpointReport | None


DEFAULTS: Mapping[str, Any] = {
    "queue": "", "host": "", "pid": 0, "version": "", "slots": 0, "started": 0.0, "tasks": [], "disk_free": 0.0
}  # fmt: skip
TASK_DEFAULTS: Mapping[str, Any] = {"id": "", "name": "", "arguments": [], "since": None}
TARGET_DEFAULTS: Mapping[str, Any] = {"card": "", "model": "", "engine": "", "in_flight": 0, "tokens_a_second": 0.0}
GPU_DEFAULTS: Mapping[str, Any] = {"index": "", "name": "", "used": 0, "total": 0}
ENDPOINT_DEFAULTS: Mapping[str, Any] = {"key": False, "base_url": ""}
"""Of what a report leaves out."""


def worker_report(content: Any, worker: str) -> dict[str, Any] | None:
    """A worker's report, with `DEFAULTS`; None, and a warning that names the worker, when it is none."""
    try:
        check_value(WorkerReport, content)
    except InvalidData as error:
        log.warning("the report of the worker %s is left out: %s", quote(worker), error)
        return None
    report: dict[str, Any] = {**DEFAULTS, **content, "worker": worker}
    report["tasks"] = [{**TASK_DEFAULTS, **task} for task in report["tasks"]]
    for name, defaults in (("target", TARGET_DEFAULTS), ("endpoint", ENDPOINT_DEFAULTS)):
        if report.get(name) is not None:
            report[name] = {**defaults, **report[name]}
    if gpu := (report.get("target") or {}).get("gpu"):
        report["target"]["gpu"] = {**GPU_DEFAULTS, **gpu}
    return report


class WorkerRegistry:
    """Typed access to reports and pauses in one Redis or Valkey.  Raises: redis.RedisError."""

    def __init__(self, client: redis.Redis) -> None:
        self.redis = client

    def put(self, worker: str, report: Mapping[str, Any], kept_s: int) -> None:
        """Keep a worker's report for `kept_s` seconds; a later one replaces it."""
        pipe = self.redis.pipeline()
        pipe.sadd(WORKERS, worker)
        pipe.set(worker_key(worker), json.dumps(report), ex=kept_s)
        pipe.execute()

    def forget(self, worker: str) -> None:
        pipe = self.redis.pipeline()
        pipe.srem(WORKERS, worker)
        pipe.delete(worker_key(worker))
        pipe.execute()

    def check_writes(self) -> None:
        """Write something small: a store that refuses is noticed also by a process that only reads for a while.

        Raises: redis.RedisError; StoreUnusable by a client that waits.
        """
        self.redis.set(PROBE, "1", ex=1)

    def workers(self) -> list[dict[str, Any]]:
        """The reports that have not expired, in the order of the workers' names; a malformed one is left out."""
        names = sorted(os.fsdecode(name) for name in cast("set[bytes]", self.redis.smembers(WORKERS)))
        keys = [os.fsencode(worker_key(name)) for name in names]
        texts = dict(zip(names, cast("list[bytes | None]", self.redis.mget(keys)) if names else [], strict=True))
        if gone := [os.fsencode(name) for name, text in texts.items() if text is None]:
            self.redis.srem(WORKERS, *gone)
        reports = (_read(name, text) for name, text in texts.items() if text is not None)
        return [report for report in reports if report is not None]

    def unhealthy_reason(self, worker: str) -> str:
        """Why the worker of this name is not healthy; "" when it is."""
        text = cast("bytes | None", self.redis.get(os.fsencode(worker_key(worker))))
        return unhealthy_reason(None if text is None else _read(worker, text))

    def pause(self, name: str) -> None:
        """Record that a queue or a worker is paused; the first time stands."""
        self.redis.hsetnx(PAUSED, name, str(time.time()))

    def resume(self, name: str) -> bool:
        """Returns whether it was paused."""
        return bool(self.redis.hdel(PAUSED, name))

    def paused(self) -> dict[str, float]:
        """What is paused, and since when in seconds of the epoch."""
        found = cast("dict[bytes, bytes]", self.redis.hgetall(PAUSED))
        return {os.fsdecode(name): _moment(since) for name, since in found.items()}


def unhealthy_reason(report: Mapping[str, Any] | None) -> str:
    """Why a worker is not healthy, from its report or None for none; "" for a healthy one.

    A worker is healthy when its event loop runs, which writes the report, and its work moves
    (workers/celery_ext/stalled.py).
    """
    if report is None:
        return "has no recent heartbeat"
    return f"is stalled: {report.get('why')}" if report.get("state") == "stalled" else ""


def _read(worker: str, text: bytes) -> dict[str, Any] | None:
    try:
        content = checked_json(dict[str, Any], text)
    except InvalidData as error:
        log.warning("the report of the worker %s is left out: %s", quote(worker), error)
        return None
    return worker_report(content, worker)


def _moment(text: bytes) -> float:
    """The epoch itself for what is no time: a pause counts all the same."""
    try:
        moment: float = check_value(Moment, float(text))
    except ValueError:
        return 0.0
    return moment
