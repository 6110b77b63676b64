"""Requests to the farm, so many of a kind in flight, each watched for in the store under its content key."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from celery import Celery

from tasks.collect.collection import RECORD
from tasks.store.store import Store

POLL_S = 0.25
PATIENCE_S = 1800.0  # without any result, before the command gives up


class CollectionFailed(Exception):
    """A request that the farm gave up on; says which and why."""


@dataclass(frozen=True)
class Request:
    """One result that is wanted: the task that makes it, its content key, and for which sample of which example."""

    task: str
    key: str
    index: int
    sample: int = 0


class Requests:
    """What is wanted of the farm.  `limits` has the most requests in flight by task, over all workers together."""

    def __init__(
        self, app: Celery, store: Store, run_id: str, limits: Mapping[str, int], check: Callable[[], None]
    ) -> None:
        self._app = app
        self._store = store
        self._run_id = run_id
        self._limits = limits
        self._check = check
        self._queued: dict[str, deque[Request]] = {task: deque() for task in limits}
        self._flying: dict[str, list[Request]] = {}  # by key; the first of each was sent
        self._failures: dict[str, str] = {}
        store.forget_failures(run_id, RECORD)
        self._attempt = store.next_attempt(run_id, RECORD)

    def want(self, request: Request) -> None:
        self._queued[request.task].append(request)

    def results(self) -> Iterator[tuple[Request, dict[str, Any]]]:
        """Each wanted result as it comes, until nothing is wanted; more may be wanted meanwhile.

        After a failure nothing new is sent, and what is under way is waited for.
        Raises: CollectionFailed, then; whatever `check` raises.
        """
        progress = time.monotonic()
        while True:
            if not self._failures:
                self._send_queued()
            found = self._store.shared(self._run_id, list(self._flying))
            for key, value in found.items():
                progress = time.monotonic()
                for request in self._flying.pop(key):
                    yield request, value
            if found:
                continue
            self._note_failures()
            if not self._flying and (self._failures or not any(self._queued.values())):
                break
            self._check()
            if time.monotonic() - progress > PATIENCE_S:
                raise CollectionFailed(f"the farm has finished nothing for {PATIENCE_S:.0f} s")
            self._store.wait(self._run_id, POLL_S)
        if self._failures:
            first, more = next(iter(self._failures.values())), len(self._failures) - 1
            raise CollectionFailed(first + (f" (and {more} more)" if more else ""))

    def _send_queued(self) -> None:
        for task, queued in self._queued.items():
            free = self._limits[task] - sum(requests[0].task == task for requests in self._flying.values())
            while queued and free > 0:
                request = queued.popleft()
                if request.key in self._flying:
                    self._flying[request.key].append(request)  # the same question: one answer is enough
                    continue
                self._flying[request.key] = [request]
                if not self._store.shared(self._run_id, [request.key]):
                    arguments = [self._run_id, request.index, request.sample, self._attempt]
                    self._app.send_task(task, args=arguments, ignore_result=True)
                    free -= 1

    def _note_failures(self) -> None:
        records = self._store.stages(self._run_id, RECORD)
        for record in records.values():
            place = (record["name"], record["index"], record["sample"])
            key = next((k for k, (r, *_) in self._flying.items() if (r.task, r.index, r.sample) == place), None)
            if record["attempt"] == self._attempt and key is not None:
                self._flying.pop(key)
                self._failures[key] = f"{record['name']}: {record['error']}"
