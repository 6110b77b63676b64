"""From the record of the plan in flight to what a person sees, and new prompts into the output folder."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from orchestrator.evolve.optimisers.base import Generation
from orchestrator.farm.dispatcher import Dispatcher
from orchestrator.farm.evaluator import Records
from orchestrator.report.formatting import INITIAL
from orchestrator.report.live import CandidateView, Snapshot, Totals, View
from orchestrator.runs.artifacts import ArtifactRequests
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.status import StatusPublisher
from orchestrator.settings import Settings, layout_of
from tasks.plan import Candidate, Evaluations, Plan, evaluations, stage_refs
from tasks.records import Failure

FLUSH_EVERY_S = 1.0


@dataclass
class GenerationProgress:
    """The generation in flight, from 0, and the fitness of its population (best, mean) and of the run (best_ever)."""

    generation: int = 0
    best: float | None = None
    mean: float | None = None
    best_ever: float | None = None
    baseline: float | None = None

    def update(self, history: Sequence[Mapping[str, Any]]) -> None:
        """Take over the last generation that was recorded."""
        if not history:
            return
        self.generation = history[-1]["generation"] + 1
        self.best, self.mean, self.best_ever = (history[-1][name] for name in ("best", "mean", "best_ever"))
        self.baseline = history[0]["population"][0]["fitness"]

    def evaluated(self, generation: Generation, best_ever: float | None) -> None:
        """Take over the fitness of a population that has been evaluated, and the highest fitness of the run."""
        fitness = [evaluated.score.fitness for evaluated in generation.population]
        self.best, self.mean, self.best_ever = max(fitness), sum(fitness) / len(fitness), best_ever
        if generation.number == 0:
            self.baseline = fitness[0]


@dataclass
class ProgressReporter:
    """Called with the records of the plan in flight, as often as they may have changed."""

    dispatcher: Dispatcher
    settings: Settings
    output: OutputFolder
    view: View
    artifacts: ArtifactRequests
    publisher: StatusPublisher
    progress: GenerationProgress = field(default_factory=GenerationProgress)
    baseline_name: str = INITIAL
    arms: Mapping[str, str] = field(default_factory=dict)  # the system prompts by name, where there are several
    started: float = field(default_factory=time.monotonic)
    recorded: Evaluations = field(
        default_factory=Evaluations
    )  # in the history, and in finished plans of this generation

    def __post_init__(self) -> None:
        self._store, self._run_id = self.dispatcher.store, self.dispatcher.run_id
        self._written: set[str] = set()
        self._flushed = 0.0
        self._began = time.monotonic()  # of the plan in flight
        self._totals: Totals | None = None  # when the last generation was recorded
        self._plan: tuple[str, int] = ("", 0)  # the plan in flight, and how many stages it had at the start

    def __call__(self, plan: Plan, records: Records, failures: Sequence[Failure]) -> None:
        """Show the records, and write what is new from time to time."""
        if self._plan[0] != plan.name:
            self._plan, self._began = (plan.name, len(records)), time.monotonic()
        finished = len(records) - self._plan[1]
        usage = self._store.usage(self._run_id)
        if time.monotonic() - self._flushed > FLUSH_EVERY_S:
            self.flush(usage)
        errors = {failure.name: failure.error for failure in failures}
        self.view.show(self._snapshot(plan, records, errors, finished, usage))
        if all(ref.field in records for candidate in plan.candidates for ref in stage_refs(candidate)):
            self.recorded += _evaluated(plan, records)
            self._plan = ("", 0)

    def end_generation(self, recorded: Evaluations) -> None:
        """A generation is recorded: take over all evaluations so far, and what the run has used for them."""
        self.recorded = recorded
        usage = self._store.usage(self._run_id)
        self._totals = Totals(*self._used(usage), recorded)

    def _used(self, usage: Mapping[str, float]) -> tuple[int, int, float | None]:
        """Calls, tokens and cost."""
        cost = usage.get("cost_usd", 0.0) if self.publisher.is_priced else None
        return int(usage.get("requests", 0)), int(usage.get("target", 0)), cost

    def report_setup(self, step: str, progress: tuple[int, int] | None) -> None:
        """Show how far the clustering of the vocabulary is."""
        self.view.show(
            Snapshot(
                run=self._run_id,
                generation=self.progress.generation,
                generations=self.settings.ngen,
                plan="clusters",
                queues=dict(self.dispatcher.farm.queues()),
                elapsed_s=time.monotonic() - self.started,
                note=step,
                progress=progress,
            )
        )

    def flush(self, usage: Mapping[str, float] | None = None) -> None:
        """Write new prompts and finished files into the output folder, and publish how far the run is."""
        for name, text in self._store.prompts(self._run_id, self._written).items():
            self.output.write(f"reflector_prompts/{name}", text)
            self._written.add(name)
        self.artifacts.save_ready()
        figures = asdict(self.progress)
        self.publisher.publish({"done": figures.pop("generation"), **figures}, usage=usage)
        self._flushed = time.monotonic()

    def _snapshot(
        self, plan: Plan, records: Records, errors: Mapping[str, str], finished: int, usage: Mapping[str, float]
    ) -> Snapshot:
        elapsed = time.monotonic() - self.started
        left = sum(1 for candidate in plan.candidates for ref in stage_refs(candidate) if ref.field not in records)
        done, took = len(records), time.monotonic() - self._began
        calls, tokens, cost = self._used(usage)
        return Snapshot(
            run=self._run_id,
            generation=plan.generation,
            generations=self.settings.ngen,
            plan=plan.purpose,
            note="stages",
            progress=(done, done + left),
            arm=self.arm(plan),
            candidates=tuple(_view(plan, c, records, errors, layout_of(self.settings).ids) for c in plan.candidates),
            best=self.progress.best,
            mean=self.progress.mean,
            best_ever=self.progress.best_ever,
            baseline=self.progress.baseline,
            queues=dict(self.dispatcher.farm.queues()),
            elapsed_s=elapsed,
            # Candidates are answered side by side: before half of the work is done, its pace says little.
            left_s=took / finished * left if 0 < left <= finished else None,
            calls=calls,
            tokens=tokens,
            cost_usd=cost,
            budget_usd=self.publisher.budget_usd,
            baseline_name=self.baseline_name,
            evaluations=self.recorded + _evaluated(plan, records),
            totals=self._totals,
        )

    def arm(self, plan: Plan) -> str:
        """The name of the arm of a generation's plan."""
        return next((name for name, prompt in self.arms.items() if plan.candidates[0].system_prompt == prompt), "")


def _evaluated(plan: Plan, records: Records) -> Evaluations:
    """The evaluations of a plan that are done."""
    whole = [ref.field for c in plan.candidates for ref in stage_refs(c) if ref.stage == "answer"]
    return evaluations(records[field] for field in whole if field in records)


def _view(
    plan: Plan, candidate: Candidate, records: Records, errors: Mapping[str, str], cluster_ids: tuple[str, ...]
) -> CandidateView:
    """What a candidate is at: the first stage without a record, or how it ended."""
    todo = [ref for ref in stage_refs(candidate) if ref.field not in records]
    error = errors.get(str(candidate.index))
    last = stage_refs(candidate)[-1] if not todo else todo[0]
    score = records.get(f"{candidate.index}:mut:score") or records.get(f"{candidate.index}:pre:score") or {}
    if score.get("skipped"):
        score = records[f"{candidate.index}:pre:score"]
    view = CandidateView(
        node=plan.node(candidate.index, last.phase),
        stage="done" if not todo else last.stage,
        target=None if candidate.target is None else cluster_ids[candidate.target],
        fitness=score.get("fitness"),
    )
    if todo and error:
        return replace(view, stage="failed", error=error)
    if todo == stage_refs(candidate):
        return replace(view, stage="waiting")
    return view
