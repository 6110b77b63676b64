"""Work on the farm: plans and jobs, sent as messages and awaited in the store (`Dispatcher.wait`).

A message names the run, and what to do by keys and small numbers, never by a text; the truth is the record in the
store.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import redis
from celery import Celery, chain, chord
from celery.canvas import Signature
from kombu.exceptions import OperationalError

from orchestrator.farm.dispatcher import Dispatcher, parking_reason
from tasks.common import logs
from tasks.plan import Candidate, Outcome, Plan, StageRef, outcome, stage_refs
from tasks.queues import LABEL, STAGE_TASKS
from tasks.records import Failure, JobSpec
from tasks.store.client import waiting_of
from tasks.store.keys import JOBS, PROGRESS
from tasks.store.store import Store

log = logging.getLogger(__name__)

Records = Mapping[str, Mapping[str, Any]]
Watch = Callable[[Plan, Records, Sequence[Failure]], None]
Result = dict[str, Any]


@dataclass(frozen=True)
class FarmEvaluator:
    """Evaluates plans on the farm: each as a flat chord with one chain of stages for each candidate.

    `watch` is called with the plan's records and failures whenever they may have changed, and may raise to stop the
    waiting: the farm goes on, and whatever it finishes is found by the next call with the same plan.
    """

    dispatcher: Dispatcher
    watch: Watch

    def __call__(self, plan: Plan) -> list[Outcome]:
        """The outcomes of all candidates, in their order."""
        dispatcher, store, run_id = self.dispatcher, self.dispatcher.store, self.dispatcher.run_id
        with logs.fields(generation=plan.generation):
            store.put_plan(run_id, plan)
            work = PlanWork(dispatcher, plan, dispatcher.begin(plan.name), store.stages(run_id, plan.name))
            work.refresh()
            log.info("%s: %d of %d candidates to evaluate", plan.name, len(work.open()), len(plan.candidates))
            send_chord(dispatcher.farm.app, store, run_id, plan.name, work.missing(), work.records, work.attempt)
            for _ in dispatcher.wait(work):
                self.watch(plan, work.records, work.failures())
        return [found for candidate in plan.candidates if (found := outcome(candidate, work.records)) is not None]


@dataclass
class PlanWork:
    """One attempt at a plan."""

    dispatcher: Dispatcher
    plan: Plan
    attempt: int
    records: dict[str, dict[str, Any]]
    _failed: dict[str, Failure] = field(default_factory=dict)  # by the candidate's index, as text

    @property
    def name(self) -> str:
        return f"stage of {self.plan.name}"

    def so_far(self) -> str:
        done = len(self.plan.candidates) - len(self.open())
        return f"waiting for {self.plan.name}: {done} of {len(self.plan.candidates)} done"

    def refresh(self) -> None:
        store, run_id = self.dispatcher.store, self.dispatcher.run_id
        self.records |= store.stages(run_id, self.plan.name, self.records)
        failures = store.failures(run_id, self.plan.name)
        self._failed = {failure.name: failure for failure in failures if failure.attempt == self.attempt}

    def progress(self) -> object:
        return len(self.records), {(failure.name, failure.task) for failure in self._failed.values()}

    def is_done(self) -> bool:
        return not self.open()

    def is_running(self) -> bool:
        return bool(self.missing())

    def failures(self) -> list[Failure]:
        return [self._failed[str(c.index)] for c in self.open() if str(c.index) in self._failed]

    def resend(self) -> int:
        farm, run_id = self.dispatcher.farm, self.dispatcher.run_id
        missing = self.missing()
        send_chord(farm.app, farm.store, run_id, self.plan.name, missing, self.records, self.attempt)
        return len(missing)

    def open(self) -> list[Candidate]:
        return [candidate for candidate in self.plan.candidates if outcome(candidate, self.records) is None]

    def missing(self) -> list[Candidate]:
        """Those of the open candidates that have not failed."""
        return [candidate for candidate in self.open() if str(candidate.index) not in self._failed]


@dataclass(frozen=True)
class Request:
    """A result that the driver needs: its content key, and the job that computes it."""

    key: str
    spec: JobSpec


class Journal(Protocol):
    """Results by key that outlive the store (`orchestrator.runs.jobs.Journal`)."""

    results: dict[str, Result]

    def add(self, results: Mapping[str, Result]) -> None: ...


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
    name: ClassVar[str] = "job"

    def __post_init__(self) -> None:
        self._app, self._store, self._run_id = self.dispatcher.farm.app, self.dispatcher.store, self.dispatcher.run_id
        self._queued: dict[str, deque[Request]] = {}
        self._sent: dict[str, list[Request]] = {}  # by key: neither finished nor failed, or failed and not yet taken
        self._ready: deque[tuple[Request, Result]] = deque()
        self._journals: dict[str, Journal] = {}  # by key
        self._finished = 0
        self._long_job: str | None = None  # how far the job is that reported last; it may have ended
        self.attempt = self.dispatcher.begin(JOBS)
        self._unselected = {failure.name for failure in self._store.failures(self._run_id, JOBS)}
        self._failed: dict[str, Failure] = {}
        self.cached: Counter[str] = Counter()  # by task: results that were in the store before this session
        self._computed: set[str] = set()  # keys that were sent in this session

    def submit(self, request: Request, journal: Journal | None = None) -> None:
        """What the journal has is not computed again, and what comes is in it before `results` gives it."""
        if journal is not None:
            self._journals[request.key] = journal
            if request.key in journal.results:
                self._store.put_shared(self._run_id, request.key, journal.results[request.key])
        self._queued.setdefault(request.spec.task, deque()).append(request)

    def result(
        self, key: str, spec: JobSpec, watch: Callable[[], None] = lambda: None, journal: Journal | None = None
    ) -> Result:
        """The result of one job, with nothing else in flight."""
        self.submit(Request(key, spec), journal)
        [(_, result)] = self.results(watch)
        return result

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
                self._write_journals()
                while self._ready:
                    yield self._ready.popleft()
                self._send_queued()
                self.refresh()
            self._send_queued()

    def _write_journals(self) -> None:
        found = defaultdict[Journal, dict[str, Result]](dict)
        for request, result in self._ready:
            if journal := self._journals.get(request.key):
                found[journal][request.key] = result
        for journal, results in found.items():
            journal.add(results)

    def poll(self) -> tuple[list[tuple[Request, Result]], list[Failure]]:
        """The results and the failures since the last call, without waiting; both are then forgotten."""
        self._send_queued()
        self.refresh()
        failures, found = self.failures(), [*self._ready]
        for failure in failures:
            self._store.forget_failure(failure)
            del self._sent[failure.name]
        self._failed = {}
        self._ready.clear()
        return found, failures

    def so_far(self) -> str:
        """A job that reports how far it is says more than the number of jobs."""
        queued = sum(map(len, self._queued.values()))
        total = self._finished + len(self._sent) + queued
        step = json.loads(self._long_job or "{}")
        is_awaited = step.get("job") in self._sent and step.get("total")
        at = f"; {step['stage']} {step['done']:,} of {step['total']:,}" if is_awaited else ""
        kinds = ", ".join(sorted({requests[0].spec.task for requests in self._sent.values()}))
        return f"waiting for {kinds or 'jobs'}: {self._finished} of {total} jobs done{at}"

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


# Messages.  What is sent is sent again from its start where the broker refuses: work that was sent twice is done once.


def new_id(run_id: str) -> str:
    """An id for a task or a chord of a run.  Run ids have no dot in them."""
    return f"{run_id}.{uuid.uuid4().hex}"


def send_chord(
    app: Celery,
    store: Store,
    run_id: str,
    plan_name: str,
    candidates: Sequence[Candidate],
    recorded: Container[str],
    attempt: int,
) -> None:
    """Send the missing stages of `candidates` as one chord."""
    limit_s = store.stage_limit(run_id)

    def signature(ref: StageRef) -> Signature:
        arguments = (run_id, plan_name, ref.index, ref.phase, attempt)
        return app.signature(STAGE_TASKS[ref.stage], args=arguments, immutable=True, time_limit=limit_s)

    missing = [[ref for ref in stage_refs(candidate) if ref.field not in recorded] for candidate in candidates]
    # The longest chain first: started last, it would run alone while all GPUs but one are idle.
    missing.sort(key=len, reverse=True)

    def send() -> None:
        chains = [chain(*map(signature, refs)) if len(refs) > 1 else signature(refs[0]) for refs in missing]
        body = app.signature("cpu.gather", args=(run_id, plan_name, attempt), immutable=True)
        # The chord's own id becomes the header's, the other one the body's.
        chord(chains, body, app=app, task_id=new_id(run_id)).apply_async(task_id=new_id(run_id))

    if missing:
        waiting_of(store.redis).call_with_retry(send, reconnecting(app))


def send_job(app: Celery, store: Store, run_id: str, key: str, spec: JobSpec, attempt: int) -> None:
    """Send the message of one job, whose spec is in the store."""

    def send() -> None:
        app.send_task(
            spec.task,
            args=[run_id, key, attempt],
            ignore_result=True,
            time_limit=None if spec.limit_s is None else int(spec.limit_s),
            headers={LABEL: spec.label},
        )

    waiting_of(store.redis).call_with_retry(send, reconnecting(app))


def reconnecting(app: Celery) -> Callable[[object], None]:
    """After a failover an open connection is one to the server that has become a replica: it is closed."""

    def reconnect(_: object) -> None:
        app.backend.client.connection_pool.disconnect()  # type: ignore[attr-defined]  # every backend here is a Redis
        with suppress(redis.RedisError, OperationalError), app.producer_pool.acquire(block=True) as producer:
            producer.channel.client.connection_pool.disconnect()  # type: ignore[union-attr]  # a kombu channel for Redis

    return reconnect
