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
from typing import Any

from orchestrator.callbacks import Callbacks, GenerationInfo, RunInfo
from orchestrator.evolve import arms, clusters, setup
from orchestrator.evolve.closing import Closing
from orchestrator.evolve.optimisers import list_to_deltas
from orchestrator.evolve.progress import Fitness, InProgress, ProgressReporter
from orchestrator.evolve.records import (
    GenerationRecord,
    Recorder,
    evaluations_of,
    read_history,
    read_in_progress,
)
from orchestrator.evolve.report import build_report, write_report
from orchestrator.evolve.resume import (
    CHANGES_FILE,
    ensure_same_server,
    keep_questions,
    keep_servers,
    record_change,
    saved_settings,
    servers_kept,
    unknown_servers,
)
from orchestrator.evolve.search import FinishedGeneration, RunState, Turn, known_of, load_state, make_search
from orchestrator.evolve.setup import check_prompts
from orchestrator.evolve.systems import SYSTEMS_FILE, Book, Measurer, measured_evaluations, read_book
from orchestrator.farm.connection import FarmConnection
from orchestrator.farm.work import FarmEvaluator, Records, Scheduler
from orchestrator.farm.workers import delete_results
from orchestrator.report.live import STAGES, View
from orchestrator.report.model import plot_points
from orchestrator.report.statistics import Point
from orchestrator.report.text import FinalReport
from orchestrator.runs.folder import OutputError, OutputFolder, writing
from orchestrator.runs.jobs import ArtifactRequests
from orchestrator.runs.session import Session, open_session, restored_if_refused
from orchestrator.settings.inputs import prompts_of
from orchestrator.settings.kconfig import write_config
from orchestrator.settings.options import Settings
from orchestrator.settings.run import endpoint_of, make_run, relative_objective, stage_limit_s
from tasks.cpu.plots import COMPARISON_PLOTS
from tasks.openai.endpoint import is_priced
from tasks.plan import STEMS, Evaluations, Plan, plan_name
from tasks.records import Failure

log = logging.getLogger(__name__)
KIND_NAME = "evolve"
FINISHING_S = 60.0

OpenFarm = Callable[[Settings, Callable[[str], None]], AbstractContextManager[FarmConnection]]


@dataclasses.dataclass(frozen=True)
class Evolution:
    """What a session is to do.  `only`: the failed tasks to retry, without names all; `retry_wait_s`: how long a run
    with nothing left but failed tasks waits for a retry before it parks.
    """

    settings: Settings
    examples: setup.Examples
    output: OutputFolder
    view: View
    callbacks: Callbacks
    only: tuple[str, ...] = ()
    retry_wait_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What a search begins with: the questions that fit, the arms with all that was measured, and the saved state."""

    examples: setup.Examples
    book: Book
    state: RunState


def run_evolution(asked: Evolution, open_farm: OpenFarm) -> FinalReport:
    """The closing report; what it raises is how the session ended."""
    settings, output, notify = asked.settings, asked.output, asked.view.notify
    for line in (setup.evolve_announcement(settings), *setup.repeated_questions(asked.examples)):
        notify(line)
    clusters.collected_sides(settings)  # what cannot be read is refused before anything is started
    book = read_book(output)
    if output.state.exists() and not book.arms:
        raise OutputError(f"{output.state} is of a search whose {SYSTEMS_FILE} is missing: it has the arms")
    state = load_state(output, make_search(settings, book)) if book.arms else RunState()
    output.run_id(KIND_NAME)
    with restored_if_refused(output.config, output.path / CHANGES_FILE):
        if output.config.exists():
            record_change(output, saved_settings(output.path), settings, state.generation)
        with writing(output.config):
            write_config(settings, output.config)
        farm, priced = open_farm(settings, notify), is_priced(endpoint_of(settings))
        with open_session(
            output, KIND_NAME, farm, settings.target_model, job_s=stage_limit_s(), retry_wait_s=asked.retry_wait_s,
            only=asked.only, budget_usd=settings.budget_usd, is_priced=priced, notify=notify, unit="generations",
            total=settings.ngen,
        ) as opened:  # fmt: skip
            session = _Session(asked, opened, state.generation)
            session.begin(book)
            asked.callbacks.start(session.info())
            with session.publisher.publish_final_state():
                examples = session.check(book)
                with servers_kept(output, opened.farm.store, opened.run_id):
                    search = _Search(session, session.prepare(book, examples, state))
                    with search.in_progress.written_if_interrupted():
                        search.run()
                        return search.finish()


class _Session:
    """What all parts of a session share, once its farm is up; `done`: the generations that are recorded."""

    def __init__(self, asked: Evolution, opened: Session, done: int) -> None:
        self.asked, self.opened, self.done = asked, opened, done
        self.store, self.run_id = opened.farm.store, opened.run_id
        self.dispatcher, self.publisher = opened.dispatcher, opened.publisher
        self.scheduler = Scheduler(self.dispatcher)
        self.artifacts = ArtifactRequests(self.scheduler, asked.output, stage_limit_s())
        self.history = [line for line in read_history(asked.output) if line["generation"] < done]
        self.started = time.monotonic()

    def begin(self, book: Book) -> None:
        """Put the run into the store, and take up what earlier sessions have recorded."""
        self.store.put_run(make_run(self.asked.settings, self.run_id))
        if book.arms:
            self._set_cap(book.cap)
            self._set_objective(book)
        self.reporter = self.make_reporter()

    def make_reporter(self, **of_search: Any) -> ProgressReporter:
        asked, fitness = self.asked, Fitness(self.done)
        fitness.update(self.history)
        return ProgressReporter(
            self.dispatcher, asked.settings, asked.output, asked.view, self.artifacts, self.publisher,
            fitness, self.evaluations(self.history), started=self.started, **of_search,
        )  # fmt: skip

    def evaluations(self, history: Sequence[GenerationRecord]) -> Evaluations:
        """Those of the recorded generations, and of what was measured around the search."""
        return measured_evaluations(self.store, self.run_id) + evaluations_of(history)

    def info(self) -> RunInfo:
        """The run, as callbacks are told of it."""
        settings = self.asked.settings
        return RunInfo(self.run_id, KIND_NAME, self.asked.output.path, dict(vars(settings)), settings.ngen, self.done)

    def _set_cap(self, tokens: int) -> None:
        run = self.store.run(self.run_id)
        sampling = dataclasses.replace(run.target.sampling, max_new_tokens=tokens)
        self.store.put_run(dataclasses.replace(run, target=dataclasses.replace(run.target, sampling=sampling)))

    def _set_objective(self, book: Book) -> None:
        """The fitness is relative to the plain model on the training set."""
        objective = relative_objective(self.asked.settings, *book.plain.on("training").point)
        self.store.put_run(dataclasses.replace(self.store.run(self.run_id), objective=objective))

    def check(self, book: Book) -> setup.Examples:
        """Check the prompts and the target server, before anything is answered.  Returns the questions that fit."""
        asked, store, output = self.asked, self.store, self.asked.output
        examples = self._fitting([one.system_prompt for one in book.systems])
        ensure_same_server(self.scheduler, asked.settings, store.run(self.run_id).target, output)
        if unknown_servers(output, store, self.run_id):
            asked.view.notify(
                "a server that is not the run's has answered since its process was killed; that is computed again"
            )
            store.forget_stages(self.run_id, [plan_name(purpose, self.done) for purpose in STAGES])
            store.forget_servers(self.run_id)
        keep_questions(output, asked.examples)
        return examples

    def _fitting(self, prompts: Sequence[str] = ()) -> setup.Examples:
        """Of all questions those that fit with the run's cap, and the parts of them on which prompts are halved."""
        settings, view = self.asked.settings, self.asked.view
        asked = prompts or [*prompts_of(settings).values()]
        watch = self.reporter.report_setup
        fitting = check_prompts(self.scheduler, settings.too_long, self.asked.examples, asked, watch, view.notify)
        examples = {**fitting, **arms.parts_of(fitting["training"])}
        self.store.put_examples(self.run_id, examples)
        return examples

    def prepare(self, book: Book, examples: setup.Examples, state: RunState) -> Prepared:
        """The arms: the prompts are measured, clusters are made of their answers, and their vectors are measured."""
        settings, output, notify = self.asked.settings, self.asked.output, self.asked.view.notify
        made = clusters.Clusters(self.scheduler, settings, output, self.reporter.report_setup, notify)
        evaluator = FarmEvaluator(self.dispatcher, self.reporter)

        def measurer(cap: int) -> Measurer:
            """With a larger cap fewer prompts fit."""
            if cap == settings.target_max_new_tokens:
                return Measurer(evaluator, examples)
            reason = "too many of the plain model's answers reach the limit of tokens"
            notify(f"{reason}, which is doubled to {cap:,}")
            self._set_cap(cap)
            return Measurer(evaluator, self._fitting())

        if not book.arms:
            book, examples = arms.prepare(settings, prompts_of(settings), measurer, made.make)
            book.write(output)
        made.restore(book.arms)
        self._set_objective(book)
        notify(setup.reflector_prompt_estimate(self.store, self.run_id, len(examples["training"])))
        return Prepared(examples, book, state)


class _Search:
    """The generations of a prepared run, and the choice among all systems after the last one."""

    def __init__(self, session: _Session, prepared: Prepared) -> None:
        self.session, self.prepared, self.asked = session, prepared, session.asked
        self.output, self.store, self.run_id = session.asked.output, session.store, session.run_id
        self.search = make_search(self.asked.settings, prepared.book)
        self.recorder = Recorder(
            self.output, self.store, self.run_id, self.search, session.artifacts,
            is_priced=session.publisher.is_priced, history=session.history, generation=session.done,
        )  # fmt: skip
        self.reporter = session.make_reporter(
            arms={arm.name: arm.system_prompt for arm in self.search.arms},
        )
        self.in_progress = InProgress(self.output, self.store, self.run_id, self.search, prepared.state)
        self.measurer = Measurer(FarmEvaluator(session.dispatcher, self._watch), prepared.examples)

    def _watch(self, plan: Plan, records: Records, failures: Sequence[Failure]) -> None:
        if plan.is_of_generation:
            self.in_progress.plans[plan.name] = (plan, records)
        self.reporter(plan, records, failures)

    def run(self) -> None:
        """Run the generations that are left."""
        state, recorder, total = self.prepared.state, self.recorder, self.asked.settings.ngen
        if state.generation:
            self.asked.view.notify(f"going on with generation {state.generation} of {total}")
            if recorder.history and read_in_progress(self.output.path) is None:
                recorder.request_again(state)
        started = time.monotonic()
        generations = self.search.generations(
            state, self.measurer.evaluate, self.reporter.fitness.evaluated, self._turns, known_of(self.prepared.book)
        )
        for finished in generations:
            recorder.record(finished, time.monotonic() - started)
            # The outcomes are in the output folder; the answers and verdicts of their stages may expire.
            self.store.forget_plans(self.run_id, [plan_name(one, finished.generation.number) for one in STEMS])
            self._release()
            self.reporter.end_generation(recorder.history, self.session.evaluations(recorder.history))
            self.in_progress.next(finished)
            self.asked.callbacks.end_generation(self._told(finished))
            started = time.monotonic()

    def _turns(self) -> list[Turn]:
        """The recorded generations."""

        def points(line: GenerationRecord) -> list[Point]:
            return [Point(one["mean_tokens"], one["correctness"]) for one in (*line["population"], *line["offspring"])]

        return [Turn(line["arm"], points(line)) for line in self.recorder.history]

    def _told(self, finished: FinishedGeneration) -> GenerationInfo:
        """A recorded generation, as callbacks are told of it."""
        found = self.search.best(finished.state)
        assert found is not None, "a generation always evaluates an individual"
        deltas = list_to_deltas(found.best.deltas, self.search.any_params.cluster_ids)
        return GenerationInfo(finished.generation.number, self.recorder.history[-1], deltas, found.best.scratchpad)

    def _release(self) -> None:
        keep_servers(self.output, self.store.servers(self.run_id))
        self.store.release_shared(self.run_id)

    def finish(self) -> FinalReport:
        """Choose among all systems, test the choice, save all files, and build the report."""
        settings, history = self.asked.settings, self.recorder.history
        closing = Closing(self.measurer, settings, self.output)
        book = closing.conclude(self.prepared.book, self.recorder.individuals, len(history)).write(self.output)
        comparisons = closing.comparisons(book)
        report = write_report(self.output, self.store, self.run_id, settings, book, comparisons)
        self.session.artifacts.request_plots("comparison", COMPARISON_PLOTS, {"points": plot_points(report)})
        self.session.artifacts.wait(FINISHING_S)
        self._release()  # what is written later is held again
        self.store.release_clusterings(self.run_id)
        self.reporter.flush()
        self.in_progress.clear()
        delete_results(self.session.opened.farm.app, self.run_id)
        return build_report(
            settings, self.output, self.store, report, history, comparisons, self.session.evaluations(history)
        )
