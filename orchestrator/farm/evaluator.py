"""Evaluating a plan on the farm: a flat chord with one chain of stages for each candidate, awaited in the store.

The chord is the trigger; the truth is the plan's record in the store.  So a chain holds only the stages that have
no record yet, and its messages name run, plan, candidate, phase and attempt, never a text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from celery import Celery, chain, chord
from celery.canvas import Signature

from orchestrator.farm.dispatcher import Dispatcher
from orchestrator.farm.producer import new_id, submit
from tasks.common import logs, tracing
from tasks.plan import Candidate, Outcome, Plan, StageRef, outcome, stage_refs
from tasks.queues import STAGE_TASKS
from tasks.records import Failure
from tasks.store.store import Store

log = logging.getLogger(__name__)

Records = Mapping[str, Mapping[str, Any]]
Watch = Callable[[Plan, Records, Sequence[Failure]], None]


@dataclass(frozen=True)
class FarmEvaluator:
    """Evaluates plans on the farm.

    `watch` is called with the plan's records and failures whenever they may have changed, and may raise to stop the
    waiting: the farm goes on, and whatever it finishes is found by the next call with the same plan.
    """

    dispatcher: Dispatcher
    watch: Watch

    def __call__(self, plan: Plan) -> list[Outcome]:
        """The outcomes of all candidates, in their order."""
        dispatcher, store, run_id = self.dispatcher, self.dispatcher.store, self.dispatcher.run_id
        with (
            logs.fields(generation=plan.generation),
            tracing.span("evaluation", plan=plan.name, candidates=len(plan.candidates)),
        ):
            store.put_plan(run_id, plan)
            attempt = dispatcher.begin(plan.name)
            work = PlanWork(dispatcher.farm.app, store, run_id, plan, attempt, store.stages(run_id, plan.name))
            work.refresh()
            log.info("%s: %d of %d candidates to evaluate", plan.name, len(work.open()), len(plan.candidates))
            work.resend()  # what is missing of it
            for _ in dispatcher.wait(work):
                self.watch(plan, work.records, work.failures())
        outcomes = [outcome(candidate, work.records) for candidate in plan.candidates]
        return [o for o in outcomes if o is not None]


@dataclass
class PlanWork:
    """One attempt at a plan."""

    app: Celery
    store: Store
    run_id: str
    plan: Plan
    attempt: int
    records: dict[str, dict[str, Any]]
    _failed: dict[str, Failure] = field(default_factory=dict)  # by the candidate's index, as text

    @property
    def name(self) -> str:
        return f"stage of {self.plan.name}"

    def refresh(self) -> None:
        self.records |= self.store.stages(self.run_id, self.plan.name, self.records)
        failures = self.store.failures(self.run_id, self.plan.name)
        self._failed = {failure.name: failure for failure in failures if failure.attempt == self.attempt}

    def progress(self) -> object:
        return len(self.records), {(failure.name, failure.task) for failure in self._failed.values()}

    def is_done(self) -> bool:
        return not self.open()

    def is_running(self) -> bool:
        return any(str(candidate.index) not in self._failed for candidate in self.open())

    def failures(self) -> list[Failure]:
        return [self._failed[str(c.index)] for c in self.open() if str(c.index) in self._failed]

    def resend(self) -> int:
        missing = [candidate for candidate in self.open() if str(candidate.index) not in self._failed]
        if missing:
            limit = self.store.stage_limit(self.run_id)
            send_chord(self.app, self.store, self.run_id, self.plan.name, missing, self.records, self.attempt, limit)
        return len(missing)

    def open(self) -> list[Candidate]:
        return [candidate for candidate in self.plan.candidates if outcome(candidate, self.records) is None]


def send_chord(
    app: Celery,
    store: Store,
    run_id: str,
    plan_name: str,
    candidates: Sequence[Candidate],
    recorded: Container[str],
    attempt: int,
    limit_s: float | None = None,
) -> None:
    """Send the missing stages of `candidates` as one chord; `limit_s` is the hard time limit of each stage."""

    headers = tracing.headers()

    def signature(ref: StageRef) -> Signature:
        arguments = (run_id, plan_name, ref.index, ref.phase, attempt)
        options = {"time_limit": limit_s, "headers": headers} if headers else {"time_limit": limit_s}
        return app.signature(STAGE_TASKS[ref.stage], args=arguments, immutable=True, **options)

    missing = [[ref for ref in stage_refs(candidate) if ref.field not in recorded] for candidate in candidates]
    # The longest chain first: started last, it would run alone while all GPUs but one are idle.
    missing.sort(key=len, reverse=True)

    def send() -> None:
        chains = [chain(*map(signature, refs)) if len(refs) > 1 else signature(refs[0]) for refs in missing]
        body = app.signature("cpu.gather", args=(run_id, plan_name, attempt), immutable=True)
        # The chord's own id becomes the header's, the other one the body's.
        chord(chains, body, app=app, task_id=new_id(run_id)).apply_async(task_id=new_id(run_id))

    submit(app, store, send)
