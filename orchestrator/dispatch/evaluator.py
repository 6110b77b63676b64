"""Evaluating a plan on the farm: dispatch what is missing, watch the record, and give back the outcomes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from celery import Celery

from orchestrator.dispatch.chords import send
from tasks.plan import Member, Outcome, Plan, outcome
from tasks.store import Store

log = logging.getLogger(__name__)
POLL_S = 0.25

Records = Mapping[str, Mapping[str, Any]]
Watch = Callable[[Plan, Records], None]


@dataclass(frozen=True)
class Failure:
    """A member that a stage gave up on."""

    node: str
    stage: str
    error: str


class Parked(Exception):
    """The plan cannot be completed now.  What was finished is in the record; a new dispatch does the rest."""

    def __init__(self, reason: str, failures: tuple[Failure, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.failures = failures


@dataclass(frozen=True)
class FarmEvaluator:
    """Evaluates plans on the farm behind `app`.

    `watch` is called with the record whenever it may have changed, and may raise to stop the waiting: the farm
    goes on without us, and whatever it finishes is found by the next call with the same plan.
    """

    app: Celery
    store: Store
    run_id: str
    watch: Watch
    patience_s: float  # without any stage finishing, before the run parks

    def __call__(self, plan: Plan) -> list[Outcome]:
        """The outcomes of all members, in their order.  Raises: Parked, and whatever `watch` raises."""
        self.store.put_plan(self.run_id, plan)
        self.store.forget_failures(self.run_id, plan.name)
        dispatch = self.store.next_dispatch(self.run_id, plan.name)
        records = self.store.stages(self.run_id, plan.name)
        missing = [member for member in plan.members if outcome(member, records) is None]
        log.info("run=%s plan=%s members=%d missing=%d", self.run_id, plan.name, len(plan.members), len(missing))
        if missing:
            send(self.app, self.run_id, plan.name, missing, records, dispatch)
            records = self._wait(plan, missing, records, dispatch)
        found = [outcome(member, records) for member in plan.members]
        return [o for o in found if o is not None]

    def _wait(
        self, plan: Plan, missing: list[Member], records: dict[str, dict[str, Any]], dispatch: int
    ) -> dict[str, dict[str, Any]]:
        """Until every member is done, or has failed while no other is at work.  Raises: Parked."""
        known = dict(records)
        progress = time.monotonic()
        while True:
            new = self.store.stages(self.run_id, plan.name, known)
            new = {f: r for f, r in new.items() if not f.endswith(":failed") or r["dispatch"] == dispatch}
            known.update(new)
            self.watch(plan, known)
            open_members = [m for m in missing if outcome(m, known) is None]
            failed = [m for m in open_members if f"{m.index}:failed" in known]
            if not open_members:
                return known
            if len(failed) == len(open_members):
                raise _parked(plan, failed, known)
            if new:
                progress = time.monotonic()
            elif time.monotonic() - progress > self.patience_s:
                raise Parked(f"no stage of {plan.name} has finished for {self.patience_s:.0f} s")
            self.store.wait(self.run_id, POLL_S)


def _parked(plan: Plan, failed: list[Member], records: Records) -> Parked:
    failures = []
    for member in failed:
        record = records[f"{member.index}:failed"]
        failures.append(Failure(plan.node(member.index, record["phase"]), record["stage"], record["error"]))
    first = failures[0]
    more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    return Parked(f"{first.stage} of {first.node} failed: {first.error}{more}", tuple(failures))
