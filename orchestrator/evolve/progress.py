"""The plan in flight: shown to whoever watches the run, and its best kept where the run is interrupted."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

import redis

from orchestrator.evolve.optimisers import Generation, list_to_deltas
from orchestrator.evolve.records import History
from orchestrator.evolve.resume import keep_servers
from orchestrator.evolve.search import RunState, Search
from orchestrator.farm import FarmUnavailable
from orchestrator.farm.work import Records
from orchestrator.report.format import format_duration, format_score
from orchestrator.report.live import STAGES, Pace, Snapshot, View, usage_text
from orchestrator.runs.folder import OutputFolder, OutputNotWritable
from orchestrator.runs.jobs import ArtifactRequests
from orchestrator.runs.kinds import STEP_FILE
from orchestrator.runs.session import Session
from orchestrator.settings import SettingsError
from orchestrator.settings.options import Settings
from tasks.plan import Candidate, Evaluations, Phase, Plan, evaluations, stage_refs
from tasks.records import Failure
from tasks.store.client import RunTaken
from tasks.store.store import Store

FLUSH_EVERY_S = 1.0
FIGURES = ("best", "mean", "best_ever", "baseline")


@dataclass
class ProgressReporter:
    """Called with the records of the plan in flight, as often as they may have changed.

    recorded: of the history and the finished plans of this generation; figures: the fitness of the population, of the
    run (best_ever) and of the start (baseline).
    """

    session: Session
    settings: Settings
    view: View
    artifacts: ArtifactRequests
    recorded: Evaluations = field(default_factory=Evaluations)
    started: float = field(default_factory=time.monotonic)
    figures: Mapping[str, float | None] = field(default_factory=lambda: dict.fromkeys(FIGURES))
    generation: int = 0

    def __post_init__(self) -> None:
        session = self.session
        self._store, self._run_id, self._publisher = session.farm.store, session.run_id, session.publisher
        self._written: set[str] = set()
        self._flushed, self._step = 0.0, ""  # the step is what the folder says
        self._plan, self._pace = "", Pace()  # of the plan in flight

    def __call__(self, plan: Plan, records: Records, failures: Sequence[Failure], arm: str = "") -> None:
        """Show the records, and write what is new from time to time."""
        self._keep_step(STAGES[plan.purpose])
        if self._plan != plan.name:
            self._plan, self._pace = plan.name, Pace()
        usage = self._store.usage(self._run_id)
        if time.monotonic() - self._flushed > FLUSH_EVERY_S:
            self.flush(usage)
        shown = self._of_plan(plan, records, {one.name: one.error for one in failures}, usage)
        self.view.show(replace(shown, arm=arm))
        if all(ref.field in records for candidate in plan.candidates for ref in stage_refs(candidate)):
            self.recorded += _evaluated(plan, records)
            self._plan = ""

    def take_up(self, history: History, recorded: Evaluations) -> None:
        """Go on from the last generation that was recorded."""
        self.recorded = recorded
        if history:
            last = history[-1]
            self.generation = last["generation"] + 1
            figures = (last["best"], last["mean"], last["best_ever"], history[0]["population"][0]["fitness"])
            self.figures = dict(zip(FIGURES, figures, strict=True))

    def end_population(self, generation: Generation, best_ever: float | None) -> None:
        """Take over the fitness of a population that has been evaluated, and the highest fitness of the run."""
        fitness = [one.score.fitness for one in generation.population]
        baseline = self.figures["baseline"] if generation.number else fitness[0]
        figures = (max(fitness), sum(fitness) / len(fitness), best_ever, baseline)
        self.figures = dict(zip(FIGURES, figures, strict=True))

    def end_generation(self, history: History, recorded: Evaluations) -> None:
        """A generation is recorded: say what the run has used until now."""
        self.take_up(history, recorded)
        used = usage_text(self._snapshot(""))
        took = format_duration(time.monotonic() - self.started)
        best = format_score(self.figures["best_ever"])
        self.view.notify(f"generation {self.generation - 1} finished: best so far {best}; {used}; {took} so far")

    def report_setup(self, step: str, progress: tuple[int, int] | None) -> None:
        """Show how far the clustering of the vocabulary is."""
        self._keep_step(step)
        self.view.show(replace(self._snapshot("clusters"), note=step, progress=progress))

    def flush(self, usage: Mapping[str, float] | None = None) -> None:
        """Write prompts, files and servers: a run that parks on a farm of two servers can go on with both."""
        for name, text in self._store.prompts(self._run_id, self._written).items():
            self.session.output.write(f"reflector_prompts/{name}", text)
            self._written.add(name)
        self.artifacts.save_ready()
        keep_servers(self.session.output, self._store.servers(self._run_id))
        self._publisher.publish({"done": self.generation, **self.figures}, usage=usage)
        self._flushed = time.monotonic()

    def _keep_step(self, step: str) -> None:
        if step != self._step:
            self._step = step
            self.session.output.write_json(STEP_FILE, step)

    def _snapshot(self, stage: str, usage: Mapping[str, float] | None = None) -> Snapshot:
        """The run at a stage, without what is evaluated there."""
        usage = self._store.usage(self._run_id) if usage is None else usage
        calls = int(usage.get("requests", 0))
        cost = usage.get("cost_usd", None if calls else 0.0)  # no call has told its usage
        return Snapshot(
            run=self._run_id,
            generation=self.generation,
            generations=self.settings.ngen,
            plan=stage,
            queues=dict(self.session.farm.queues()),
            elapsed_s=time.monotonic() - self.started,
            evaluations=self.recorded,
            calls=calls,
            tokens=int(usage.get("target", 0)),
            cost_usd=cost if self._publisher.is_priced else None,
            budget_usd=self._publisher.budget_usd,
            best=self.figures["best"],
            mean=self.figures["mean"],
            best_ever=self.figures["best_ever"],
            baseline=self.figures["baseline"],
        )

    def _of_plan(self, plan: Plan, records: Records, errors: Mapping[str, str], usage: Mapping[str, float]) -> Snapshot:
        left = sum(1 for candidate in plan.candidates for ref in stage_refs(candidate) if ref.field not in records)
        done = len(records)
        return replace(
            self._snapshot(plan.purpose, usage),
            generation=plan.generation,
            note="stages",
            progress=(done, done + left),
            candidates=len(plan.candidates),
            failed={_node(plan, c, records): errors[str(c.index)] for c in plan.candidates if str(c.index) in errors},
            left_s=self._pace.left(done, done + left),
            evaluations=self.recorded + _evaluated(plan, records),
        )


def _evaluated(plan: Plan, records: Records) -> Evaluations:
    answers = [ref.field for c in plan.candidates for ref in stage_refs(c) if ref.stage == "answer"]
    return evaluations(records[field] for field in answers if field in records)


def _node(plan: Plan, candidate: Candidate, records: Records) -> str:
    """What a candidate that has failed is at: the first stage without a record."""
    refs = stage_refs(candidate)
    return plan.node(candidate.index, next((ref.phase for ref in refs if ref.field not in records), refs[-1].phase))


def scored(plan: Plan, records: Records) -> Iterator[tuple[float, tuple[float, ...], str]]:
    """The evaluations of a plan that are done, in its order: the fitness of a vector, its deltas and their clusters."""
    for one in plan.candidates:
        vectors: dict[Phase, tuple[float, ...]] = {"pre": one.deltas}
        delta = records.get(f"{one.index}:mut:reflect", {}).get("delta")
        if delta is not None:
            vectors["mut"] = one.with_delta(delta)
        for phase, deltas in vectors.items():
            if score := records.get(f"{one.index}:{phase}:score"):
                yield score["fitness"], deltas, one.clustering


@dataclass
class InProgress:
    """The generation in progress: `state` at its start, and its `plans` with their records so far.

    `evolution_state.json` describes the start of a generation, and is left as it is where it exists.  The best deltas
    and their processor are the best of all evaluations so far.
    """

    output: OutputFolder
    store: Store
    run_id: str
    search: Search
    state: RunState
    plans: dict[str, tuple[Plan, Records]] = field(default_factory=dict)

    @contextmanager
    def written_if_interrupted(self) -> Iterator[None]:
        """Whatever ends the block early, what is known is written, unless it is refused or another process's by now."""
        try:
            yield
        except (SettingsError, RunTaken):
            raise
        except BaseException as error:
            with suppress(OutputNotWritable):  # it is reported by what ended the block
                self._write(is_farm_up=not isinstance(error, FarmUnavailable | redis.RedisError))
            raise

    def _write(self, *, is_farm_up: bool) -> None:
        """Where the farm is down, what it has finished last is not known, and no processor is written."""
        if not self.output.state.exists():
            self.output.write("evolution_state.json", self.search.to_json(self.state))
        before = self.search.best(self.state)
        known = [(before.best.fitness, before.best.deltas, before.arm.clustering)] if before else []
        for name, (plan, records) in self.plans.items():
            finished = dict(records)
            with suppress(redis.RedisError):
                finished |= self.store.stages(self.run_id, name) if is_farm_up else {}
            known += scored(plan, finished)
        if not known:
            return
        _, deltas, clustering = max(known, key=lambda one: one[0])
        self.output.write_json("deltas_best.json", list_to_deltas(deltas, self.search.any_params.cluster_ids))
        if is_farm_up:
            from tasks.gpu.processor import generate  # only an interruption needs it

            with suppress(LookupError, ValueError, redis.RedisError):  # no clustering yet, or the store is gone
                text = generate(self.store, self.run_id, deltas, clustering=clustering)
                self.output.write("processor_best.py", text)
