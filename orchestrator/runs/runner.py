"""One session of an evolution: from checked settings to the last generation, or to where it stops.

The order matters.  What can be refused is refused before anything is started: settings, data, output folder.
Then the farm, then the clustering, then generation after generation, each recorded before the next one starts.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property

from orchestrator.callbacks import Callbacks, GenerationInfo, RunInfo
from orchestrator.dispatch.dispatcher import Dispatcher, WaitLimits
from orchestrator.dispatch.evaluator import FarmEvaluator, Records
from orchestrator.dispatch.scheduler import Scheduler
from orchestrator.farm.connection import FarmConnection
from orchestrator.farm.producer import delete_results
from orchestrator.optimisers.base import SearchState
from orchestrator.optimisers.individual import list_to_deltas
from orchestrator.optimisers.planning import plan_names
from orchestrator.output import OutputError, OutputFolder, writing
from orchestrator.report.live import View
from orchestrator.report.summary import FinalReport
from orchestrator.runs import clustering, setup
from orchestrator.runs.artifacts import ArtifactRequests, Recorder, evaluations_of
from orchestrator.runs.baselines import Baselines, ensure_baselines, prompts_to_measure, read_baselines
from orchestrator.runs.changes import CHANGES_FILE, record_change, saved_settings
from orchestrator.runs.final import Closing
from orchestrator.runs.interruption import InProgress, read_in_progress
from orchestrator.runs.lengths import check_prompts
from orchestrator.runs.measuring import PLANS, Measurer, is_of_search
from orchestrator.runs.ownership import run_session
from orchestrator.runs.progress import ProgressReporter
from orchestrator.runs.provenance import keep_clusters, keep_versions
from orchestrator.runs.refusal import restored_if_refused
from orchestrator.runs.report import build_report
from orchestrator.runs.sameness import ensure_same_server, keep_questions, keep_servers, servers_kept, unknown_servers
from orchestrator.runs.search import FinishedGeneration, Search, load_search, make_search
from orchestrator.runs.status import StatusPublisher, clear_parked_state
from orchestrator.runs.vectors import Families, Vectors, ensure_vectors, read_vectors
from orchestrator.settings import Settings, make_run, write_config
from orchestrator.settings.options import options
from orchestrator.settings.references import BEST_VECTOR
from orchestrator.settings.run import endpoint_of, stage_limit_s
from tasks import tracing
from tasks.code_version import code_version
from tasks.failure import Failure
from tasks.openai.provider import is_priced
from tasks.plan import Evaluations, Plan
from tasks.store.keys import CLUSTERING, LIMIT
from tasks.store.results import KEPT_S
from tasks.store.retention import DAY_S

log = logging.getLogger(__name__)
KIND_NAME = "evolve"
FINISHING_S = 60.0
NO_PROGRESS_S = 60.0  # beyond the hard limit of a stage, which is reported as that stage's failure


@dataclasses.dataclass
class Runner:
    """One session of a run.  `run` returns the closing report; what it raises is how the session ended."""

    settings: Settings
    examples: setup.Examples
    output: OutputFolder
    view: View
    open_farm: Callable[[Settings, Callable[[str], None]], AbstractContextManager[FarmConnection]]
    callbacks: Callbacks = dataclasses.field(default_factory=lambda: Callbacks(()))
    only: tuple[str, ...] = ()  # the failed tasks to retry; without names, all
    retry_wait_s: float = 0.0  # for a retry of the failed tasks, before the run parks

    def run(self) -> FinalReport:
        self.view.notify(setup.evolve_announcement(self.settings))
        for line in setup.repeated_questions(self.examples):
            self.view.notify(line)
        clustering.collected_sides(self.settings)  # what cannot be read is refused before anything is started
        search, state = load_search(self.settings, self.output)
        run_id = self.output.run_id(KIND_NAME)
        with restored_if_refused(self.output.config, self.output.path / CHANGES_FILE):
            if self.output.config.exists():
                record_change(self.output, saved_settings(self.output.path), self.settings, state.generation)
            with writing(self.output.config):
                write_config(self.settings, self.output.config)
            return self._session(run_id, search, state)

    def _session(self, run_id: str, search: Search, state: SearchState) -> FinalReport:
        notify = self.view.notify
        opened = self.open_farm(self.settings, notify)
        with run_session(self.output, run_id, KIND_NAME, opened, notify) as farm:
            session = _Session(self, farm, run_id, search, state)
            session.begin()
            self.callbacks.start(session.info())
            with session.publisher.publish_final_state(), session.in_progress.written_if_interrupted():
                session.check()
                with servers_kept(self.output, farm.store, run_id):
                    session.measure()
                    return session.finish(session.generations())


@dataclasses.dataclass
class _Session:
    """The parts of a session, once its farm is up."""

    runner: Runner
    farm: FarmConnection
    run_id: str
    search: Search
    state: SearchState  # at the start of the session
    baselines: Baselines = dataclasses.field(init=False)  # from `measure` on
    vectors: Vectors = dataclasses.field(init=False)  # from `measure` on

    def __post_init__(self) -> None:
        runner, settings, store = self.runner, self.runner.settings, self.farm.store
        limits = WaitLimits(stage_limit_s() + NO_PROGRESS_S, runner.retry_wait_s)
        self.dispatcher = Dispatcher(self.farm, self.run_id, limits, runner.view.notify, runner.only)
        self.examples = runner.examples
        about = {"kind": KIND_NAME, "unit": "generations", "total": self.search.params.generations}
        self.is_priced = is_priced(endpoint_of(settings))
        self.publisher = StatusPublisher(self.run_id, store, runner.output, about, settings.budget_usd, self.is_priced)
        self.in_progress = InProgress(runner.output, store, self.run_id, self.search, self.state)

    @cached_property
    def scheduler(self) -> Scheduler:
        return Scheduler(self.dispatcher)

    @cached_property
    def artifacts(self) -> ArtifactRequests:
        return ArtifactRequests(self.scheduler, self.runner.output, stage_limit_s())

    @cached_property
    def reporter(self) -> ProgressReporter:
        runner = self.runner
        return ProgressReporter(
            self.dispatcher, self.search, runner.output, runner.view, self.artifacts, self.publisher
        )

    @cached_property
    def recorder(self) -> Recorder:
        return Recorder(self.runner.output, self.farm.store, self.run_id, self.search, self.artifacts, self.is_priced)

    @cached_property
    def evaluate(self) -> FarmEvaluator:
        return FarmEvaluator(self.dispatcher, self._watch)

    @cached_property
    def measurer(self) -> Measurer:
        """For everything after the baselines."""
        return Measurer(self.evaluate, self.examples)

    def _families(self) -> Families:
        """The vectors without search that the run's clustering allows; none for a run that does not need them."""
        settings = self.runner.settings
        if settings.prompts_path is None and settings.initial_deltas_path != BEST_VECTOR:
            return Families()
        found = self.farm.store.metadata(self.run_id, CLUSTERING)
        assert found is not None, "the vocabulary is clustered before the search"
        figures, params = self.farm.store.clusterings.figures(found), self.search.params
        return Families.of(len(params.cluster_ids), figures.eos, figures.log_odds, params.bound)

    def _watch(self, plan: Plan, records: Records, failures: Sequence[Failure]) -> None:
        if is_of_search(plan):
            self.in_progress.plans[plan.name] = (plan, records)
        self.reporter(plan, records, failures)

    def begin(self) -> None:
        """Put the run into the store, and take up what earlier sessions have recorded."""
        settings, store, state = self.runner.settings, self.farm.store, self.state
        run, known = make_run(settings, self.run_id), read_baselines(self.runner.output)
        store.retention.apply_rule(self.run_id, KEPT_S / DAY_S)
        # Tasks of an earlier session may still run: they go on with the system prompt that the search has.
        store.put_run(run if known is None else known.run(run, settings, self._prompt(known)))
        store.set_requirements(self.run_id, code_version(), settings.target_model)
        store.put_metadata(self.run_id, LIMIT, str(stage_limit_s()))
        store.put_examples(self.run_id, self.runner.examples)
        self.recorder.resume(state.generation)
        self.publisher.restore(self.recorder.history)
        clear_parked_state(self.runner.output)  # not earlier: a start that is refused leaves the run parked
        self.reporter.progress.generation = state.generation
        self.reporter.recorded = evaluations_of(self.recorder.history)
        self.reporter.progress.update(self.recorder.history)

    def _forget_stages(self) -> None:
        """What is recorded of the generation in progress, and of all that is measured around the search."""
        self.farm.store.forget_stages(self.run_id, [*plan_names(self.state.generation), *PLANS])

    def check(self) -> None:
        """Check the prompts and the target server, before anything is answered."""
        settings, watch = self.runner.settings, self.reporter.report_setup
        too_long, notify = settings.too_long, self.runner.view.notify
        prompts = prompts_to_measure(settings, self.runner.output).values()
        self.examples = check_prompts(self.scheduler, too_long, self.examples, prompts, watch, notify)
        target, output = self.farm.store.run(self.run_id).target, self.runner.output
        ensure_same_server(self.scheduler, settings, target, output)
        if unknown_servers(output, self.farm.store, self.run_id):
            notify("a server that is not the run's has answered since its process was killed; that is computed again")
            self._forget_stages()
            self.farm.store.forget_servers(self.run_id)
        keep_questions(output, self.runner.examples)
        keep_versions(output)

    def measure(self) -> None:
        """All that precedes the first generation, as far as it has not been done.

        The prompts are measured, the vocabulary is clustered, the clusters are described, and the vectors without
        search are measured.
        """
        settings, watch, notify = self.runner.settings, self.reporter.report_setup, self.runner.view.notify
        self.baselines = ensure_baselines(Measurer(self.evaluate, self.examples), settings, self.runner.output)
        self.reporter.recorded = self.baselines.evaluations + evaluations_of(self.recorder.history)
        store = self.farm.store
        store.put_run(self.baselines.run(store.run(self.run_id), settings, self._prompt(self.baselines)))
        sides = clustering.ensure_sides(self.measurer, self.baselines, settings, self.runner.output)
        found = clustering.ensure_clustering(self.scheduler, watch, sides)
        log.info("clustering %s", found)
        clustering.describe_discovered(self.scheduler, settings, watch, notify)
        if path := settings.cluster_descriptions_path:
            clustering.override_descriptions(self.farm.store, self.run_id, path, len(self.search.params.cluster_ids))
        keep_clusters(self.runner.output, store, self.run_id, found)
        measurer, clusters = Measurer(self.evaluate, self.examples), len(self.search.params.cluster_ids)
        self.vectors = ensure_vectors(
            measurer, self._families(), clusters, self.baselines.start_prompts(settings), self.runner.output
        )
        store.put_run(self.baselines.run(store.run(self.run_id), settings, self.vectors.start.prompt))
        self.reporter.recorded = self._evaluations()
        if settings.initial_deltas_path == BEST_VECTOR:
            self._start_from(self.vectors)
        notify(setup.reflector_prompt_estimate(self.farm.store, self.run_id, len(self.examples["training"])))

    def _prompt(self, baselines: Baselines) -> str:
        """The name of the search's system prompt, as far as it is known: the best one until the vectors are."""
        vectors = read_vectors(self.runner.output)
        return baselines.best_prompt if vectors is None else vectors.start.prompt

    def _start_from(self, vectors: Vectors) -> None:
        """Where the search starts is known now; a session that goes on has known it before."""
        if self.search.params.initial_deltas != vectors.start.deltas:
            self.search = make_search(self.runner.settings, vectors.start.deltas)
            self.reporter.search = self.recorder.search = self.in_progress.search = self.search
            self.in_progress.state = self.state = self.search.init()

    def _evaluations(self) -> Evaluations:
        """Those of the recorded generations, and of what was measured before the first."""
        return self.baselines.evaluations + self.vectors.evaluations + evaluations_of(self.recorder.history)

    def generations(self) -> SearchState:
        """Run the generations that are left; returns the state after the last."""
        runner, total, state = self.runner, self.search.params.generations, self.state
        if state.generation:
            runner.view.notify(f"going on with generation {state.generation} of {total}")
            if state.best is not None and self.recorder.history and read_in_progress(runner.output.path) is None:
                self.recorder.request_again(state.best)
        started = time.monotonic()
        watch = self.reporter.progress.evaluated
        generations = self.search.generations(state, self.evaluate, watch)
        for finished in tracing.spanned("generation", generations, lambda one: {"generation": one.generation.number}):
            self.recorder.record(finished, time.monotonic() - started)
            self._forget(plan_names(finished.generation.number))
            self.reporter.end_generation(self._evaluations())
            self.reporter.progress.update(self.recorder.history)
            self.in_progress.next(finished)
            runner.callbacks.end_generation(self._told(finished))
            started, state = time.monotonic(), finished.state
        return state

    def info(self) -> RunInfo:
        """The run, as callbacks are told of it."""
        settings = {option.field: getattr(self.runner.settings, option.field) for option in options()}
        folder, total = self.runner.output.path, self.search.params.generations
        return RunInfo(self.run_id, KIND_NAME, folder, settings, total, self.state.generation)

    def _told(self, finished: FinishedGeneration) -> GenerationInfo:
        """A recorded generation, as callbacks are told of it."""
        best, ids = finished.state.best, self.search.params.cluster_ids
        assert best is not None, "a generation always evaluates an individual"
        deltas = list_to_deltas(best.deltas, ids)
        return GenerationInfo(finished.generation.number, self.recorder.history[-1], deltas, best.scratchpad)

    def _forget(self, plans: Sequence[str]) -> None:
        """Drop plans whose outcomes are in the output folder; the answers and verdicts of their stages may expire."""
        self.farm.store.forget_plans(self.run_id, plans)
        self._release()

    def _release(self) -> None:
        keep_servers(self.runner.output, self.farm.store.servers(self.run_id))
        self.farm.store.release_shared(self.run_id)

    def finish(self, state: SearchState) -> FinalReport:
        """Choose the winner, compare it, save all files, and build the report."""
        settings, output = self.runner.settings, self.runner.output
        if state.best is None:
            raise OutputError(f"{output.state} holds no best individual, and CONFIG_NGEN leaves none to find")
        params = self.search.params
        closing = Closing(self.measurer, settings, self.baselines, self.vectors, output, state.generation)
        final = closing.conclude(state.best, params.initial_deltas)
        self.recorder.record_final(final)
        self.artifacts.wait(FINISHING_S)
        self._release()  # what is written later is held again
        self.farm.store.release_clusterings(self.run_id)
        self.reporter.flush()
        self.in_progress.clear()
        delete_results(self.farm.app, self.run_id)
        evaluations = self._evaluations() + self.measurer.evaluations
        return build_report(settings, output, self.farm, self.run_id, self.recorder, final, evaluations)
