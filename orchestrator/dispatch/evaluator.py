"""Evaluating a plan on the farm: dispatch what is missing, watch the record, and give back the outcomes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from celery import Celery

from orchestrator.dispatch.chords import send
from orchestrator.dispatch.failures import Failed, failed_candidates
from tasks import logs
from tasks.openai.errors import BudgetSpent
from tasks.plan import Candidate, Outcome, Plan, outcome
from tasks.store.store import Store

log = logging.getLogger(__name__)
POLL_S = 0.25
QUIET_S = 30.0  # a killed worker's messages are back long before

Records = Mapping[str, Mapping[str, Any]]
Watch = Callable[[Plan, Records], None]


class Parked(Exception):
    """The plan cannot be completed now.  What was finished is in the record; a new attempt does the rest."""

    def __init__(self, reason: str, failures: tuple[Failed, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.failures = failures

    @property
    def budget_exhausted(self) -> bool:
        """Whether it was the budget that stopped it: more of it, and nothing else, lets it go on."""
        return any(failure.error.startswith(f"{BudgetSpent.__name__}:") for failure in self.failures)


@dataclass(frozen=True)
class FarmEvaluator:
    """Evaluates plans on the farm behind `app`.

    `watch` is called with the record whenever it may have changed, and may raise to stop the waiting: the farm
    goes on without us, and whatever it finishes is found by the next call with the same plan.  `say` is told what a
    person must know at once.  `only` names failed tasks: a plan that has some of them leaves its other failures be.

    A worker that is killed in the moment between taking a message and noting that it has taken it loses it (kombu
    takes and notes in two steps).  So where nothing has happened for `quiet_s` and `messages` counts none of the run,
    what is missing is sent again.  Were it not lost after all, no harm is done: a stage is done once.
    """

    app: Celery
    store: Store
    run_id: str
    watch: Watch
    patience_s: float  # without any stage finishing, before the run parks
    retry_wait_s: float = 0.0  # with nothing left but failures, for somebody to retry them, before the run parks
    say: Callable[[str], None] = log.info
    only: tuple[str, ...] = ()
    messages: Callable[[], int] | None = None  # of the run, that wait or are in a worker's hands
    quiet_s: float = QUIET_S

    def __call__(self, plan: Plan) -> list[Outcome]:
        """The outcomes of all candidates, in their order.  Raises: Parked, and whatever `watch` raises."""
        with logs.about(generation=plan.generation):
            return self._evaluate(plan)

    def _evaluate(self, plan: Plan) -> list[Outcome]:
        self.store.put_plan(self.run_id, plan)
        records = self.store.stages(self.run_id, plan.name)
        left = self._left_alone(plan, records)
        self.store.forget_failures(self.run_id, plan.name)
        attempt = self.store.next_attempt(self.run_id, plan.name)
        for index in left:
            failure = {**records[f"{index}:failed"], "attempt": attempt}
            self.store.put_failure(self.run_id, plan.name, str(index), failure)
        missing = [candidate for candidate in plan.candidates if outcome(candidate, records) is None]
        log.info("%s: %d of %d candidates to evaluate", plan.name, len(missing), len(plan.candidates))
        self._send(plan, [candidate for candidate in missing if candidate.index not in left], records, attempt)
        if missing:
            records = self._wait(plan, missing, attempt)
        found = [outcome(candidate, records) for candidate in plan.candidates]
        return [o for o in found if o is not None]

    def _send(self, plan: Plan, candidates: list[Candidate], records: Records, attempt: int) -> None:
        if candidates:
            limit = self.store.stage_limit(self.run_id)
            send(self.app, self.run_id, plan.name, candidates, records, attempt, limit)

    def _left_alone(self, plan: Plan, records: Records) -> set[int]:
        """The candidates whose failure stands, because others of the plan were named to be retried."""
        failed = failed_candidates(plan, records, self.store.attempt(self.run_id, plan.name))
        named = {one.index for one in failed if any(one.is_called(name) for name in self.only)}
        return {one.index for one in failed} - named if named else set()

    def _wait(self, plan: Plan, missing: list[Candidate], attempt: int) -> dict[str, dict[str, Any]]:
        """Until every candidate is done, or has failed while no other is at work.  Raises: Parked."""
        known: dict[str, dict[str, Any]] = {}
        progress = counted = time.monotonic()
        told = False
        while True:
            before, known = known, self._look(plan, known, attempt)
            self.watch(plan, known)
            open_candidates = [m for m in missing if outcome(m, known) is None]
            if not open_candidates:
                return known
            if known != before:
                progress = counted = time.monotonic()
                told = False
            idle = time.monotonic() - progress
            if all(f"{m.index}:failed" in known for m in open_candidates):
                failed = failed_candidates(plan, known, attempt, self.store.prompt_names(self.run_id))
                parked = Parked(_reason(failed), tuple(failed))
                if idle >= self.retry_wait_s or parked.budget_exhausted:  # only a new start has another budget
                    raise parked
                if not told:
                    self.say(f"{_reason(failed)}; waiting {self.retry_wait_s:.0f} s for a retry")
                    told = True
            elif idle > self.patience_s:
                raise Parked(f"no stage of {plan.name} has finished for {self.patience_s:.0f} s")
            elif time.monotonic() - counted > self.quiet_s:
                counted = time.monotonic()
                self._send_lost(plan, open_candidates, known, attempt)
            self.store.wait(self.run_id, POLL_S)

    def _send_lost(self, plan: Plan, open_candidates: list[Candidate], known: Records, attempt: int) -> None:
        if self.messages is not None and self.messages() == 0:
            lost = [candidate for candidate in open_candidates if f"{candidate.index}:failed" not in known]
            log.warning("run=%s plan=%s messages of %d candidates were lost", self.run_id, plan.name, len(lost))
            self._send(plan, lost, known, attempt)

    def _look(self, plan: Plan, known: dict[str, dict[str, Any]], attempt: int) -> dict[str, dict[str, Any]]:
        """The record as it is now: stages are never taken back, failures are when somebody retries them."""
        done = {field: record for field, record in known.items() if not field.endswith(":failed")}
        new = self.store.stages(self.run_id, plan.name, done)
        new = {f: r for f, r in new.items() if not f.endswith(":failed") or r["attempt"] == attempt}
        return {**done, **new}


def _reason(failed: list[Failed]) -> str:
    first, more = failed[0], f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return f"{first.stage} of {first.node} failed: {first.error}{more}"
