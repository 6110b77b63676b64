"""One session of a run: from checked settings to the last generation, or to where it has to stop.

The order matters.  What can be refused is refused before anything is started: settings, data, output folder.
Then the farm, then the clustering, then generation after generation, each recorded before the next one starts.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from orchestrator.evolution.individual import canonical_order, list_to_deltas
from orchestrator.evolution.loop import evolve
from orchestrator.evolution.params import Params
from orchestrator.evolution.planning import plan_names
from orchestrator.evolution.state import State, StateError, initial_state, state_from_json
from orchestrator.output import OutputError, OutputFolder, writing
from orchestrator.runs import setup
from orchestrator.runs.artifacts import ArtifactRequests, Recorder
from orchestrator.runs.final import compare, final_plan
from orchestrator.runs.progress import ProgressReporter
from orchestrator.runs.publisher import StatusPublisher
from orchestrator.settings import (
    RESUMABLE,
    Settings,
    SettingsError,
    changed_options,
    load_settings,
    read_deltas,
    write_config,
)
from tasks import logs
from tasks.code_version import code_version
from tasks.store.keys import LIMIT

if TYPE_CHECKING:
    from orchestrator.dispatch.evaluator import FarmEvaluator
    from orchestrator.farm.connection import FarmConnection
    from orchestrator.report.summary import FinalReport
    from orchestrator.report.view import View

log = logging.getLogger(__name__)
FINISHING_S = 60.0
PATIENCE_S = 60.0  # beyond the hard limit of a stage, which is told as that stage's failure


def genetics_of(settings: Settings) -> Params:
    """The parameters of the genetic algorithm."""
    deltas = read_deltas(settings.initial_deltas_path, settings.kmeans_clusters)
    ids = canonical_order(list(deltas))
    return Params(
        seed=settings.seed,
        cluster_ids=ids,
        initial_deltas=tuple(float(deltas[c]) for c in ids),
        population_size=settings.population_size,
        generations=settings.ngen,
        crossover_probability=settings.cxpb,
        mutation_probability=settings.mutpb,
        elitism_size=settings.elitism_size,
        selection=settings.selection,
        tournament_size=settings.tournament_size,
        top_k=settings.truncation_top_k,
    )


def check_resumable(output: OutputFolder, settings: Settings) -> None:
    """Refuse to go on with a run under settings that would make it another one.  Raises: SettingsError."""
    if not output.config.exists():
        return
    before = load_settings(output.config)
    differing = [name for name in changed_options(before, settings) if name not in RESUMABLE]
    if differing:
        raise SettingsError(
            [
                f"CONFIG_{name}: {getattr(settings, name.lower())!r} here, but {getattr(before, name.lower())!r} in "
                f"the run in {output.path}; give another --output, or --fresh to set that run aside"
                for name in differing
            ]
        )


def load_state(output: OutputFolder, params: Params) -> State:
    """Where the run stands: the saved state, or the start.  Raises: OutputError for a state that is of no use."""
    if not output.state.exists():
        return initial_state(params)
    try:
        return state_from_json(output.state.read_text(), params)
    except (StateError, UnicodeDecodeError) as error:
        raise OutputError(f"{output.state}: {error}") from None


@dataclasses.dataclass
class Session:
    """A run at work.  `run` gives the closing report; what it raises says how the run ended."""

    settings: Settings
    examples: setup.Examples
    output: OutputFolder
    view: View
    open_farm: Callable[[Settings, Callable[[str], None]], AbstractContextManager[FarmConnection]]
    only: tuple[str, ...] = ()  # of what has failed, what is to be retried; nothing named means all

    def run(self) -> FinalReport:
        """Raises: SettingsError, OutputError, FarmError, Parked, KeyboardInterrupt."""
        params = genetics_of(self.settings)
        state = load_state(self.output, params)
        run_id = self.output.run_id()
        with writing(self.output.config):
            write_config(self.settings, self.output.config)
        with logs.about(run=run_id), self.open_farm(self.settings, self.view.notify) as farm:
            return self._evolve(farm, run_id, params, state)

    def _evolve(self, farm: FarmConnection, run_id: str, params: Params, state: State) -> FinalReport:
        from orchestrator.settings import make_run

        store, settings = farm.store, self.settings
        store.put_run(make_run(settings, run_id))
        store.set_requirements(run_id, code_version(), settings.target_model)
        store.put_metadata(run_id, LIMIT, str(settings.stage_timeout_s))
        setup.put_examples(store, run_id, self.examples)
        studio = ArtifactRequests(farm.app, store, run_id, self.output)
        bulletin = StatusPublisher(run_id, store, self.output, params.generations, settings.budget_usd)
        watcher = ProgressReporter(
            run_id, params, store, self.output, self.view, studio, farm.queues, farm.check, bulletin
        )
        recorder = Recorder(self.output, store, run_id, params.cluster_ids, studio)
        recorder.resume(state.generation)
        bulletin.restore(recorder.history)
        watcher.standing.generation = state.generation
        watcher.standing.follow(recorder.history)
        with bulletin.publish_final_state():
            return self._generations(farm, watcher, recorder, params, state)

    def _generations(
        self,
        farm: FarmConnection,
        watcher: ProgressReporter,
        recorder: Recorder,
        params: Params,
        state: State,
    ) -> FinalReport:
        from orchestrator.dispatch.evaluator import FarmEvaluator
        from orchestrator.dispatch.messages import count
        from orchestrator.runs.setup import describe_discovered

        store, settings, run_id = farm.store, self.settings, watcher.run_id
        patience = settings.stage_timeout_s + PATIENCE_S
        clustering = setup.ensure_clustering(farm.app, store, run_id, watcher.preparing, patience)
        log.info("clustering %s", clustering)
        describe_discovered(farm, settings, run_id, watcher.preparing, self.view.notify)
        if settings.cluster_descriptions_path:
            setup.override_descriptions(store, run_id, settings.cluster_descriptions_path, len(params.cluster_ids))
        evaluate = FarmEvaluator(
            farm.app, store, run_id, watcher, patience, settings.retry_wait_s, self.view.notify, self.only,
            messages=lambda: count(farm.broker, run_id),
        )  # fmt: skip
        if state.generation:
            self.view.notify(f"going on with generation {state.generation} of {params.generations}")
        started = time.monotonic()
        for generation in evolve(state, params, evaluate, recorder.tree):
            recorder.record(generation, time.monotonic() - started)
            store.forget_plans(run_id, plan_names(generation.generation))
            watcher.standing.follow(recorder.history)
            started, state = time.monotonic(), generation.state
        return self._finish(farm, evaluate, watcher, recorder, params, state)

    def _finish(
        self,
        farm: FarmConnection,
        evaluate: FarmEvaluator,
        watcher: ProgressReporter,
        recorder: Recorder,
        params: Params,
        state: State,
    ) -> FinalReport:
        from orchestrator.dispatch.producer import delete_results
        from orchestrator.runs.final import build_report

        if state.best is None:
            raise OutputError(f"{self.output.state} holds no best individual, and CONFIG_NGEN leaves none to find")
        plan = final_plan(state.best, state.generation, validation=bool(self.examples["validation"]))
        comparisons = compare(evaluate, plan, self.examples)
        self.output.write_json("answers.json", [dataclasses.asdict(comparison) for comparison in comparisons])
        deltas: Mapping[str, float] = list_to_deltas(state.best.deltas, params.cluster_ids)
        until = time.monotonic() + FINISHING_S
        watcher.studio.wait(lambda: farm.store.wait(watcher.run_id, 0.25), until, time.monotonic)
        watcher.drain()
        delete_results(farm.app, watcher.run_id)
        return build_report(self.settings, self.output, farm, watcher.run_id, deltas, recorder, comparisons)
