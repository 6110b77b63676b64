"""Jobs on the farm: a bounded number of each task in flight, each awaited in the store under its content key."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from celery import Celery

from orchestrator.farm.dispatcher import Dispatcher, parking_reason
from orchestrator.farm.producer import submit
from tasks.common import tracing
from tasks.queues import LABEL
from tasks.records import Failure, JobSpec
from tasks.store.keys import JOBS, PROGRESS
from tasks.store.store import Store

Result = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """A result that the driver needs: its content key, and the job that computes it."""

    key: str
    spec: JobSpec


@dataclass
class Scheduler:
    """The jobs of one run in one session; only one scheduler of a run may exist at a time.

    `limits` has the most jobs in flight by task, over all workers together; a task that is not named has no limit.
    Of what may be sent at one time, the jobs of a task that is named earlier are sent first.  After a failure nothing
    new is sent, since the next job may well fail for the same reason; with `goes_on` the others are sent all the same.
    """

    dispatcher: Dispatcher
    limits: Mapping[str, int] = field(default_factory=dict)
    goes_on: bool = False

    def __post_init__(self) -> None:
        self._app, self._store, self._run_id = self.dispatcher.farm.app, self.dispatcher.store, self.dispatcher.run_id
        self._queued: dict[str, deque[Request]] = {}
        self._sent: dict[str, list[Request]] = {}  # by key: neither finished nor failed, or failed and not yet taken
        self._ready: deque[tuple[Request, Result]] = deque()
        self._finished = 0
        self._long_job: str | None = None  # how far a job is that reports it
        self.attempt = self.dispatcher.begin(JOBS)
        self._unselected = {failure.name for failure in self._store.failures(self._run_id, JOBS)}
        self._failed: dict[str, Failure] = {}
        self.cached: Counter[str] = Counter()  # by task: results that were in the store before this session
        self._computed: set[str] = set()  # keys that were sent in this session

    def submit(self, request: Request) -> None:
        self._queued.setdefault(request.spec.task, deque()).append(request)

    def results(self, watch: Callable[[], None] = lambda: None) -> Iterator[tuple[Request, Result]]:
        """Each requested result as it comes, until nothing is left; more may be submitted meanwhile.

        After a failure what is in flight is awaited, and with `goes_on` what is queued.  `watch` is called after each
        look at the store.
        """
        self._send_queued()
        for _ in self.dispatcher.wait(self):
            watch()
            # What the store has already comes without a message, and so without a pause.
            while self._ready:
                yield from self._take()
                self._send_queued()
                self.refresh()
            self._send_queued()

    def poll(self) -> tuple[list[tuple[Request, Result]], list[Failure]]:
        """The results and the failures since the last call, without waiting; both are then forgotten."""
        self._send_queued()
        self.refresh()
        failures = self.failures()
        for failure in failures:
            self._store.forget_failure(failure)
            del self._sent[failure.name]
        self._failed = {}
        return list(self._take()), failures

    @property
    def name(self) -> str:
        return "job"

    def refresh(self) -> None:
        found = self._store.shared(self._run_id, list(self._sent))
        for key, result in found.items():
            self._ready += [(request, result) for request in self._sent.pop(key)]
        self._finished += len(found)
        failures = self._store.failures(self._run_id, JOBS)
        before = {*self._failed, *self._unselected}
        self._failed = {f.name: f for f in failures if f.attempt == self.attempt and f.name in self._sent}
        if self.goes_on and (self.is_running() or any(self._queued.values())):
            for name, failure in self._failed.items():
                if name not in before:
                    self.dispatcher.notify(f"{parking_reason([failure])}; the other jobs go on")
        self._long_job = self._store.metadata(self._run_id, PROGRESS)

    def progress(self) -> object:
        failed = {(failure.name, failure.task) for failure in self._failed.values()}
        return self._finished, len(self._sent), failed, self._long_job

    def is_done(self) -> bool:
        return not (self._sent or self._ready or any(self._queued.values()))

    def is_running(self) -> bool:
        return len(self._failed) < len(self._sent) or bool(self._ready)

    def failures(self) -> list[Failure]:
        return list(self._failed.values())

    def resend(self) -> int:
        missing = [requests[0] for key, requests in self._sent.items() if key not in self._failed]
        for request in missing:
            send_job(self._app, self._store, self._run_id, request.key, request.spec, self.attempt)
        return len(missing)

    def _take(self) -> Iterator[tuple[Request, Result]]:
        while self._ready:
            yield self._ready.popleft()

    def _send_queued(self) -> None:
        if not self.goes_on and any(key not in self._unselected for key in self._failed):
            return
        named = list(self.limits)
        for task in sorted(self._queued, key=lambda task: named.index(task) if task in named else len(named)):
            queued = self._queued[task]
            in_flight = sum(r[0].spec.task == task and key not in self._failed for key, r in self._sent.items())
            free = self.limits.get(task, len(queued) + in_flight) - in_flight
            while queued and free > 0:
                free -= self._send(queued.popleft())

    def _send(self, request: Request) -> bool:
        """Returns whether a message was sent: equal requests are one job, and what is in the store is no job."""
        if request.key in self._sent:
            self._sent[request.key].append(request)
            return False
        self._sent[request.key] = [request]
        if request.key in self._unselected:
            return False
        if self._store.shared(self._run_id, [request.key]):
            self.cached[request.spec.task] += request.key not in self._computed
            return False
        self._computed.add(request.key)
        self._store.put_job(self._run_id, request.key, request.spec)
        send_job(self._app, self._store, self._run_id, request.key, request.spec, self.attempt)
        return True


def send_job(app: Celery, store: Store, run_id: str, key: str, spec: JobSpec, attempt: int) -> None:
    """Send the message of one job, whose spec is in the store."""

    def send() -> None:
        app.send_task(
            spec.task,
            args=[run_id, key, attempt],
            ignore_result=True,
            time_limit=None if spec.limit_s is None else int(spec.limit_s),
            headers={LABEL: spec.label, **tracing.headers()},
        )

    submit(app, store, send)


def send_again(app: Celery, store: Store, run_id: str, keys: list[str]) -> None:
    """Send jobs of the latest attempt again."""
    attempt = store.attempt(run_id, JOBS)
    for key in keys:
        if spec := store.job_spec(run_id, key):
            send_job(app, store, run_id, key, spec, attempt)
