"""One session of an evolution: from checked settings to the last generation, or to where it stops.

The order matters.  What can be refused is refused before anything is started: settings, data, output folder.
Then the farm, the arms with their clusters, generation after generation, each recorded before the next one starts, and
the choice among all systems.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property

from orchestrator.callbacks import Callbacks, GenerationInfo, RunInfo
from orchestrator.evolve import clusters, setup
from orchestrator.evolve.arms import Preparation, parts_of
from orchestrator.evolve.changes import CHANGES_FILE, record_change, saved_settings
from orchestrator.evolve.closing import Closing
from orchestrator.evolve.individuals import individual_of, read_individuals
from orchestrator.evolve.interruption import InProgress, read_in_progress
from orchestrator.evolve.measuring import Measurer, measured_evaluations
from orchestrator.evolve.optimisers.base import list_to_deltas
from orchestrator.evolve.progress import ProgressReporter
from orchestrator.evolve.records import Recorder, evaluations_of
from orchestrator.evolve.report import build_report
from orchestrator.evolve.search import FinishedGeneration, RunState, Search, Turn, known_of, load_state, make_search
from orchestrator.evolve.systems import SYSTEMS_FILE, Book, Point, read_book
from orchestrator.farm.connection import FarmConnection
from orchestrator.farm.dispatcher import Dispatcher, WaitLimits
from orchestrator.farm.evaluator import FarmEvaluator, Records
from orchestrator.farm.jobs import Scheduler
from orchestrator.farm.producer import delete_results
from orchestrator.report.formatting import baseline_name
from orchestrator.report.live import STAGES, View
from orchestrator.report.text import FinalReport
from orchestrator.runs.artifacts import ArtifactRequests
from orchestrator.runs.folder import OutputError, OutputFolder, writing
from orchestrator.runs.lengths import check_prompts
from orchestrator.runs.provenance import keep_versions
from orchestrator.runs.sameness import ensure_same_server, keep_questions, keep_servers, servers_kept, unknown_servers
from orchestrator.runs.session import restored_if_refused, run_session
from orchestrator.runs.status import StatusPublisher, clear_parked_state
from orchestrator.settings import Settings, layout_of, make_run, write_config
from orchestrator.settings.brevity import prompts_of
from orchestrator.settings.options import options
from orchestrator.settings.run import endpoint_of, relative_objective, stage_limit_s
from tasks.common import tracing
from tasks.openai.endpoint import is_priced
from tasks.plan import STEMS, Evaluations, Plan, plan_name
from tasks.records import Failure
from tasks.store.keys import LIMIT
from tasks.store.results import DAY_S, KEPT_S
from tasks.store.workers import code_version

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
        clusters.collected_sides(self.settings)  # what cannot be read is refused before anything is started
        book = read_book(self.output)
        if self.output.state.exists() and not book.arms:
            raise OutputError(f"{self.output.state} is of a search whose {SYSTEMS_FILE} is missing: it has the arms")
        state = load_state(self.output, make_search(self.settings, book)) if book.arms else RunState()
        run_id = self.output.run_id(KIND_NAME)
        with restored_if_refused(self.output.config, self.output.path / CHANGES_FILE):
            if self.output.config.exists():
                record_change(self.output, saved_settings(self.output.path), self.settings, state.generation)
            with writing(self.output.config):
                write_config(self.settings, self.output.config)
            return self._session(run_id, book, state)

    def _session(self, run_id: str, book: Book, state: RunState) -> FinalReport:
        notify = self.view.notify
        opened = self.open_farm(self.settings, notify)
        with run_session(self.output, run_id, KIND_NAME, opened, notify) as farm:
            session = _Session(self, farm, run_id, book, state)
            session.begin()
            self.callbacks.start(session.info())
            with session.publisher.publish_final_state():
                session.check()
                with servers_kept(self.output, farm.store, run_id):
                    session.prepare()
                    with session.in_progress.written_if_interrupted():
                        session.generations()
                        return session.finish()


@dataclasses.dataclass
class _Session:
    """The parts of a session, once its farm is up.  `book` and `state` are what earlier sessions have recorded."""

    runner: Runner
    farm: FarmConnection
    run_id: str
    book: Book
    state: RunState

    def __post_init__(self) -> None:
        runner, settings, store = self.runner, self.runner.settings, self.farm.store
        limits = WaitLimits(stage_limit_s() + NO_PROGRESS_S, runner.retry_wait_s)
        self.dispatcher = Dispatcher(self.farm, self.run_id, limits, runner.view.notify, runner.only)
        self.examples = runner.examples
        about = {"kind": KIND_NAME, "unit": "generations", "total": settings.ngen}
        self.is_priced = is_priced(endpoint_of(settings))
        self.publisher = StatusPublisher(self.run_id, store, runner.output, about, settings.budget_usd, self.is_priced)

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
            self.dispatcher, runner.settings, runner.output, runner.view, self.artifacts, self.publisher
        )

    @cached_property
    def recorder(self) -> Recorder:
        ids = layout_of(self.runner.settings).ids
        return Recorder(self.runner.output, self.farm.store, self.run_id, ids, self.artifacts, self.is_priced)

    @cached_property
    def search(self) -> Search:
        """From `prepare` on."""
        return make_search(self.runner.settings, self.book)

    @cached_property
    def in_progress(self) -> InProgress:
        """From `prepare` on."""
        return InProgress(self.runner.output, self.farm.store, self.run_id, self.search, self.state)

    @cached_property
    def measurer(self) -> Measurer:
        """From `check` on."""
        return Measurer(FarmEvaluator(self.dispatcher, self._watch), self.examples)

    def _watch(self, plan: Plan, records: Records, failures: Sequence[Failure]) -> None:
        if plan.is_of_generation:
            self.in_progress.plans[plan.name] = (plan, records)
        self.reporter(plan, records, failures)

    def begin(self) -> None:
        """Put the run into the store, and take up what earlier sessions have recorded."""
        settings, store, state = self.runner.settings, self.farm.store, self.state
        store.retention.apply_rule(self.run_id, KEPT_S / DAY_S)
        store.put_run(make_run(settings, self.run_id))
        if self.book.arms:
            self._set_cap(self.book.cap)
            self._set_objective()
        store.set_requirements(self.run_id, code_version(), settings.target_model)
        store.put_metadata(self.run_id, LIMIT, str(stage_limit_s()))
        self.recorder.resume(state.generation)
        self.publisher.restore(self.recorder.history)
        clear_parked_state(self.runner.output)  # not earlier: a start that is refused leaves the run parked
        self.reporter.progress.generation = state.generation
        self.reporter.recorded = self._evaluations()
        self.reporter.progress.update(self.recorder.history)

    def _set_cap(self, tokens: int) -> None:
        run = self.farm.store.run(self.run_id)
        sampling = dataclasses.replace(run.target.sampling, max_new_tokens=tokens)
        self.farm.store.put_run(dataclasses.replace(run, target=dataclasses.replace(run.target, sampling=sampling)))

    def _set_objective(self) -> None:
        """The fitness is relative to the plain model on the training set."""
        run, plain = self.farm.store.run(self.run_id), self.book.plain.on("training")
        self.farm.store.put_run(
            dataclasses.replace(run, objective=relative_objective(self.runner.settings, *plain.point))
        )

    def check(self) -> None:
        """Check the prompts and the target server, before anything is answered."""
        settings, notify = self.runner.settings, self.runner.view.notify
        self._check_prompts()
        target, output = self.farm.store.run(self.run_id).target, self.runner.output
        ensure_same_server(self.scheduler, settings, target, output)
        if unknown_servers(output, self.farm.store, self.run_id):
            notify("a server that is not the run's has answered since its process was killed; that is computed again")
            self.farm.store.forget_stages(self.run_id, [plan_name(one, self.state.generation) for one in STAGES])
            self.farm.store.forget_servers(self.run_id)
        keep_questions(output, self.runner.examples)
        keep_versions(output)

    def _check_prompts(self) -> None:
        """Of all questions those that fit with the run's cap, and the parts of them on which prompts are halved."""
        runner, settings = self.runner, self.runner.settings
        prompts = [one.system_prompt for one in self.book.systems] or [*prompts_of(settings).values()]
        watch, notify = self.reporter.report_setup, runner.view.notify
        fitting = check_prompts(self.scheduler, settings.too_long, runner.examples, prompts, watch, notify)
        self.examples = {**fitting, **parts_of(fitting["training"])}
        self.farm.store.put_examples(self.run_id, self.examples)

    def _raise_cap(self, tokens: int) -> None:
        """With a larger cap fewer prompts fit."""
        reason = "too many of the plain model's answers reach the limit of tokens"
        self.runner.view.notify(f"{reason}, which is doubled to {tokens:,}")
        self._set_cap(tokens)
        self._check_prompts()
        self.measurer.examples = self.examples

    def prepare(self) -> None:
        """The arms: the prompts are measured, clusters are made of their answers, and their vectors are measured."""
        settings, output, watch = self.runner.settings, self.runner.output, self.reporter.report_setup
        made = clusters.Clusters(self.scheduler, settings, output, watch, self.runner.view.notify)
        if not self.book.arms:
            preparation = Preparation(self.measurer, settings, made.make, self._raise_cap)
            self.book = preparation.prepare(prompts_of(settings)).write(output)
        made.restore(self.book.arms)
        self._set_objective()
        self.reporter.recorded = self._evaluations()
        self.runner.view.notify(
            setup.reflector_prompt_estimate(self.farm.store, self.run_id, len(self.examples["training"]))
        )

    def _evaluations(self) -> Evaluations:
        """Those of the recorded generations, and of what was measured around the search."""
        return measured_evaluations(self.farm.store, self.run_id) + evaluations_of(self.recorder.history)

    def generations(self) -> None:
        """Run the generations that are left."""
        runner, total, state = self.runner, self.runner.settings.ngen, self.state
        self.recorder.search = self.search
        self.reporter.baseline_name = baseline_name(self.search.any_params.initial_deltas)
        self.reporter.arms = {arm.name: arm.system_prompt for arm in self.search.arms}
        if state.generation:
            runner.view.notify(f"going on with generation {state.generation} of {total}")
            if self.recorder.history and read_in_progress(runner.output.path) is None:
                self.recorder.request_again(state)
        started = time.monotonic()
        watch = self.reporter.progress.evaluated
        generations = self.search.generations(state, self.measurer.evaluate, watch, self._turns, known_of(self.book))
        for finished in tracing.spanned("generation", generations, lambda one: {"generation": one.generation.number}):
            self.recorder.record(finished, time.monotonic() - started)
            self._forget([plan_name(one, finished.generation.number) for one in STEMS])
            self.reporter.end_generation(self._evaluations())
            self.reporter.progress.update(self.recorder.history)
            self.in_progress.next(finished)
            runner.callbacks.end_generation(self._told(finished))
            started, self.state = time.monotonic(), finished.state

    def _turns(self) -> list[Turn]:
        """The recorded generations."""
        evaluated = [(*line["population"], *line["offspring"]) for line in self.recorder.history]
        points = [[Point(one["mean_tokens"], one["correctness"]) for one in rows] for rows in evaluated]
        return [Turn(line["arm"], rows) for line, rows in zip(self.recorder.history, points, strict=True)]

    def info(self) -> RunInfo:
        """The run, as callbacks are told of it."""
        settings = {option.field: getattr(self.runner.settings, option.field) for option in options()}
        folder, total = self.runner.output.path, self.runner.settings.ngen
        return RunInfo(self.run_id, KIND_NAME, folder, settings, total, self.state.generation)

    def _told(self, finished: FinishedGeneration) -> GenerationInfo:
        """A recorded generation, as callbacks are told of it."""
        found = self.search.best(finished.state)
        assert found is not None, "a generation always evaluates an individual"
        deltas = list_to_deltas(found.best.deltas, self.search.any_params.cluster_ids)
        return GenerationInfo(finished.generation.number, self.recorder.history[-1], deltas, found.best.scratchpad)

    def _forget(self, plans: Sequence[str]) -> None:
        """Drop plans whose outcomes are in the output folder; the answers and verdicts of their stages may expire."""
        self.farm.store.forget_plans(self.run_id, plans)
        self._release()

    def _release(self) -> None:
        keep_servers(self.runner.output, self.farm.store.servers(self.run_id))
        self.farm.store.release_shared(self.run_id)

    def finish(self) -> FinalReport:
        """Choose among all systems, test the choice, save all files, and build the report."""
        settings, output = self.runner.settings, self.runner.output
        individuals = [individual_of(record) for record in read_individuals(output.individuals)]
        closing = Closing(self.measurer, settings, output)
        self.book = closing.conclude(self.book, individuals, self.state.generation).write(output)
        comparisons = closing.comparisons(self.book)
        report = self.recorder.record_final(self.book, comparisons, settings)
        self.artifacts.wait(FINISHING_S)
        self._release()  # what is written later is held again
        self.farm.store.release_clusterings(self.run_id)
        self.reporter.flush()
        self.in_progress.clear()
        delete_results(self.farm.app, self.run_id)
        return build_report(settings, output, self.farm, report, self.recorder, comparisons, self._evaluations())
