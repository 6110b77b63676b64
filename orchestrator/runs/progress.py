"""Whether anybody takes a run's work: a run that waits for workers that are not there, or refuse, says so.

Watching a plan: from the record in the store to a snapshot for the view, and prompts into the output folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from orchestrator.dispatch.evaluator import Parked, Records
from orchestrator.evolution.params import Params
from orchestrator.output import OutputFolder
from orchestrator.report.view import CandidateView, Snapshot, View
from orchestrator.runs.artifacts import ArtifactRequests
from orchestrator.runs.lifecycle import REASON
from orchestrator.runs.publisher import StatusPublisher
from tasks.plan import Candidate, Plan, stage_refs
from tasks.store.keys import CANCELLED
from tasks.store.registry import WorkerRegistry
from tasks.store.store import Store

EVERY_S = 5.0
MISSES_BEFORE_WARNING = 3  # in a row that must find nobody: an embedded worker that died is back sooner


class WorkerAvailabilityMonitor:
    """Looks every few seconds, and says each finding once."""

    def __init__(
        self, roster: WorkerRegistry, queues: Callable[[], Mapping[str, int]], say: Callable[[str], None]
    ) -> None:
        self._roster, self._queues, self._say = roster, queues, say
        self._looked = time.monotonic()
        self._missed: dict[str, int] = {}
        self._said: dict[str, str] = {}

    def look(self) -> None:
        """Raises: redis.RedisError."""
        if time.monotonic() - self._looked < EVERY_S:
            return
        self._looked = time.monotonic()
        reports = self._roster.workers()
        for queue, waiting in self._queues().items():
            self._note(queue, nobody(queue, waiting, reports))

    def _note(self, queue: str, line: str) -> None:
        self._missed[queue] = self._missed.get(queue, 0) + 1 if line else 0
        if line and self._missed[queue] < MISSES_BEFORE_WARNING:
            return
        if line and self._said.get(queue) != line:
            self._say(line)
        self._said[queue] = line


def nobody(queue: str, waiting: int, reports: list[dict[str, Any]]) -> str:
    """A line when something waits in a queue and no worker takes it; else ""."""
    here = [report for report in reports if report["queue"] == queue]
    if not waiting or any(report.get("state", "ready") == "ready" for report in here):
        return ""
    reasons = sorted({f"{report['worker']}: {report.get('why')}" for report in here})
    why = "; ".join(reasons) or f"no worker is there: start one with `python -m workers {queue}`"
    return f"nobody takes the work on {queue}: {why}"


STEPS_OF_AN_EVALUATION = 3
STEPS_OF_A_MUTATION = 4
DRAIN_EVERY_S = 1.0


@dataclass
class Standing:
    """Where the run stands between plans; the driver keeps it up to date for the view."""

    generation: int = 0
    best: float | None = None
    mean: float | None = None
    best_ever: float | None = None
    baseline: float | None = None

    def follow(self, history: Sequence[Mapping[str, Any]]) -> None:
        """Take over what the last generation came to."""
        if history:
            self.generation = history[-1]["generation"] + 1
            self.best, self.mean, self.best_ever = (history[-1][name] for name in ("best", "mean", "best_ever"))
            self.baseline = history[0]["population"][0]["fitness"]

    def evaluated(self, plan: Plan, records: Records) -> None:
        """Take over what the evaluation of a population came to."""
        if plan.name.endswith("_pop"):
            fitness = [records[f"{candidate.index}:pre:score"]["fitness"] for candidate in plan.candidates]
            self.best, self.mean = max(fitness), sum(fitness) / len(fitness)
            self.best_ever = max(self.best, self.best_ever or self.best)
            self.baseline = fitness[0] if self.baseline is None else self.baseline


@dataclass
class ProgressReporter:
    """Called with the record of the plan in flight, as often as it may have changed."""

    run_id: str
    params: Params
    store: Store
    output: OutputFolder
    view: View
    studio: ArtifactRequests
    queues: Callable[[], Mapping[str, int]]
    check_farm: Callable[[], None]
    bulletin: StatusPublisher
    standing: Standing = field(default_factory=Standing)
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._written: set[str] = set()
        self._attendance = WorkerAvailabilityMonitor(WorkerRegistry(self.store.redis), self.queues, self.view.notify)
        self._drained = 0.0
        self._steps_before = 0  # finished in earlier plans of this session
        self._plan: tuple[str, int] = ("", 0)  # the plan in flight, and the stages that it had left at the start

    def __call__(self, plan: Plan, records: Records) -> None:
        """Show the record.  Raises: Parked when the run was cancelled; whatever `check_farm` raises."""
        self._check()
        done = sum(1 for name in records if not name.endswith(":failed"))
        if self._plan[0] != plan.name:
            self._plan = (plan.name, done)
        now = time.monotonic()
        if now - self._drained > DRAIN_EVERY_S:
            self.drain()
        self.view.show(self._snapshot(plan, records, done - self._plan[1]))
        if all(ref.field in records for candidate in plan.candidates for ref in stage_refs(candidate)):
            self.standing.evaluated(plan, records)
            self._steps_before += done - self._plan[1]
            self._plan = ("", 0)

    def preparing(self, step: str, progress: tuple[int, int] | None) -> None:
        """Show how far the clustering of the vocabulary is.  Raises: as above."""
        self._check()
        self.view.show(
            Snapshot(
                run=self.run_id,
                generation=self.standing.generation,
                generations=self.params.generations,
                plan="clusters",
                queues=dict(self.queues()),
                elapsed_s=time.monotonic() - self.started,
                note=step,
                progress=progress,
            )
        )

    def _check(self) -> None:
        self.check_farm()
        self._attendance.look()
        if self.store.metadata(self.run_id, CANCELLED):
            raise Parked(REASON)

    def drain(self) -> None:
        """Write new prompts and finished files into the output folder, and tell where the run stands."""
        for name, text in self.store.prompts(self.run_id, self._written).items():
            self.output.write(f"reflector_prompts/{name}", text)
            self._written.add(name)
        self.studio.collect()
        self.bulletin.publish(asdict(self.standing))
        self._drained = time.monotonic()

    def _snapshot(self, plan: Plan, records: Records, done_here: int) -> Snapshot:
        usage = self.store.usage(self.run_id)
        elapsed = time.monotonic() - self.started
        done = self._steps_before + done_here
        left = self._steps_left(plan, records)
        return Snapshot(
            run=self.run_id,
            generation=plan.generation,
            generations=self.params.generations,
            plan=_kind(plan.name),
            candidates=tuple(_view(plan, candidate, records, self.params.cluster_ids) for candidate in plan.candidates),
            best=self.standing.best,
            mean=self.standing.mean,
            best_ever=self.standing.best_ever,
            baseline=self.standing.baseline,
            queues=dict(self.queues()),
            elapsed_s=elapsed,
            left_s=elapsed / done * left if done >= STEPS_OF_AN_EVALUATION else None,
            calls=int(usage.get("requests", 0)),
            tokens=int(usage.get("target", 0)),
            cost_usd=usage.get("cost_usd", 0.0),
            budget_usd=self.bulletin.budget_usd,
        )

    def _steps_left(self, plan: Plan, records: Records) -> float:
        """Stages still to be done: of this plan exactly, of later generations as the probabilities have it."""
        here = sum(1 for candidate in plan.candidates for ref in stage_refs(candidate) if ref.field not in records)
        if plan.name == "final":
            return here
        later = self.params.generations - plan.generation - (1 if plan.name.endswith("_child") else 0)
        expected = (
            STEPS_OF_AN_EVALUATION
            + STEPS_OF_A_MUTATION * self.params.mutation_probability
            + self.params.crossover_probability
        )
        return here + later * self.params.offspring_size * expected


def _kind(name: str) -> Any:
    return "final" if name == "final" else "offspring" if name.endswith("_child") else "population"


def _view(plan: Plan, candidate: Candidate, records: Records, cluster_ids: tuple[str, ...]) -> CandidateView:
    """What a candidate is at: the first stage without a record, or how it ended."""
    todo = [ref for ref in stage_refs(candidate) if ref.field not in records]
    failed = records.get(f"{candidate.index}:failed")
    last = stage_refs(candidate)[-1] if not todo else todo[0]
    score = records.get(f"{candidate.index}:mut:score") or records.get(f"{candidate.index}:pre:score") or {}
    if score.get("skipped"):
        score = records[f"{candidate.index}:pre:score"]
    view = CandidateView(
        node=plan.node(candidate.index, last.phase),
        stage="done" if not todo else last.stage,
        phase=last.phase,
        target=None if candidate.target is None else cluster_ids[candidate.target],
        fitness=score.get("fitness"),
        merges=candidate.merge is not None,
    )
    if todo and failed:
        return replace(view, stage="failed", error=failed["error"])
    if todo == stage_refs(candidate):
        return replace(view, stage="waiting")
    return view
