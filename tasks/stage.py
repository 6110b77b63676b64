"""How every stage of a candidate runs: once, with its outcome or its failure in the record.

A stage task takes `(run, plan, index, phase, attempt)` and nothing else: keys and small numbers.  It returns nothing,
since its outcome is in the store.  It can run twice: a stage that has its record does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tasks.plan import Candidate, Phase, Plan, StageName, StageRef, node_id, stage_refs
from tasks.records import Example, Run, Sampling
from tasks.store.plans import WorkState
from tasks.store.store import Store
from tasks.task import FailureLocation, RecordedTask, current_store, discard, run_once


@dataclass(frozen=True)
class Stage:
    """A stage in progress: its run, plan and candidate, and access to the results of the stages before it."""

    store: Store
    run: Run
    plan: Plan
    candidate: Candidate
    phase: Phase
    attempt: int

    @property
    def node(self) -> str:
        return self.plan.node(self.candidate.index, self.phase)

    @property
    def cache_salt(self) -> str:
        """Part of the keys of answers and verdicts: with the evaluation cache off each individual is answered anew.

        What is measured around a search is answered once a run, since a system is in several of these plans.
        """
        if self.run.evaluation_cache:
            return ""
        if not self.plan.is_of_generation:
            return self.run.id
        return f"{self.run.id} {self.node}"

    def need(self, stage: StageName, phase: Phase | None = None) -> dict[str, Any]:
        """The record of an earlier stage."""
        ref = StageRef(self.candidate.index, stage, phase or self.phase)
        found = self.store.stage(self.run.id, self.plan.name, ref.field)
        if found is None:
            raise LookupError(f"{self.node}: stage {stage} has left no record")
        return found

    def deltas(self) -> tuple[float, ...]:
        """The deltas to evaluate in this phase: the candidate's own, or with the reflector's new one."""
        if self.phase == "pre":
            return self.candidate.deltas
        return self.candidate.with_delta(self.need("reflect")["delta"])

    def examples(self) -> tuple[Example, ...]:
        """The questions of this candidate."""
        return self.store.examples(self.run.id)[self.candidate.examples]

    @property
    def sampling(self) -> Sampling:
        """The run's, with the candidate's own cap if that is smaller, and the next seed for a further measurement."""
        sampling = self.run.target.sampling
        cap = min(self.candidate.max_tokens or sampling.max_new_tokens, sampling.max_new_tokens)
        return replace(sampling, max_new_tokens=cap, seed=sampling.seed + self.candidate.repeat)

    @property
    def clustering(self) -> str:
        """The content hash of the clustering that the deltas belong to."""
        return self.store.clusterings.chosen(self.run.id, self.candidate.clustering)

    @property
    def system_prompt(self) -> str:
        """The system prompt of this candidate: its own, or the run's."""
        own = self.candidate.system_prompt
        return self.run.target.system_prompt if own is None else own

    def scratchpad(self) -> str:
        """The candidate's scratchpad before mutation: merged from its parents, or its one parent's."""
        if self.candidate.merge is None:
            return self.candidate.scratchpad
        return str(self.need("merge", "pre")["scratchpad"])


class StageTask(RecordedTask):
    """The base of the stage tasks: a failure is recorded for its candidate, under the candidate's index."""

    abstract = True

    def location(self, run: str, plan: str, index: int, phase: Phase, attempt: int) -> FailureLocation:
        return FailureLocation(run, plan, str(index), node_id(plan, index, phase), attempt)


def run_stage(
    stage: StageName,
    args: tuple[str, str, int, Phase, int],
    work: Callable[[Stage], Mapping[str, Any]],
) -> None:
    """Do `work` unless it is done, and record its outcome with the seconds that it took."""
    run_id, plan_name, index, phase, attempt = args
    store, ref = current_store(), StageRef(index, stage, phase)

    def find() -> tuple[WorkState, Stage]:
        state, run, plan = store.stage_state(run_id, plan_name, ref.field)
        if not any(ref in stage_refs(candidate) for candidate in plan.candidates):
            raise discard(f"plan {plan_name} of {run_id} has no stage {ref.field}")
        return state, Stage(store, run, plan, plan.candidate(index), phase, attempt)

    def do(at_work: Stage) -> Mapping[str, Any]:
        skipped = stage != "reflect" and phase == "mut" and at_work.need("reflect")["delta"] is None
        return {"skipped": True} if skipped else work(at_work)

    def keep(outcome: dict[str, Any]) -> None:
        store.put_stage(run_id, plan_name, ref.field, outcome, attempt)

    run_once(store, f"{run_id}:{plan_name}:{ref.field}", attempt, find, do, keep)
