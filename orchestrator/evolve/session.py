"""One session of an evolution: from checked settings to the last generation, or to where it stops.

What can be refused is refused before anything is started.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TextIO

from orchestrator.callbacks import Callback, Callbacks, GenerationInfo, RunInfo, load_callbacks
from orchestrator.console import raise_on_signals
from orchestrator.evolve import arms, questions, resume
from orchestrator.evolve.closing import Closing
from orchestrator.evolve.fork import Fork
from orchestrator.evolve.optimisers import list_to_deltas
from orchestrator.evolve.progress import InProgress, ProgressReporter
from orchestrator.evolve.questions import Examples
from orchestrator.evolve.records import GenerationRecord, History, Recorder, read_history
from orchestrator.evolve.report import build_report, write_report
from orchestrator.evolve.search import Known, RunState, Turn, known_of, load_state, make_search
from orchestrator.evolve.systems import PLAIN, Book, Measurer, measured_evaluations, read_book
from orchestrator.farm.connection import open_farm
from orchestrator.farm.work import FarmEvaluator, Records, Scheduler
from orchestrator.farm.workers import delete_results
from orchestrator.report.format import announce, highest_cost, provider_at
from orchestrator.report.live import STAGES, View, open_view
from orchestrator.report.model import plot_points
from orchestrator.report.statistics import Point
from orchestrator.runs.folder import OutputFolder, writing
from orchestrator.runs.jobs import ArtifactRequests
from orchestrator.runs.session import Driving, Ending, Session, log_to, open_session, restored_if_refused
from orchestrator.settings.inputs import prompts_of
from orchestrator.settings.kconfig import write_config
from orchestrator.settings.options import Settings
from orchestrator.settings.run import by_rules, endpoint_of, make_run, needs_endpoint, relative_objective, stage_limit_s
from tasks.cpu.plots import COMPARISON_PLOTS
from tasks.openai.endpoint import is_priced
from tasks.plan import STEMS, Evaluations, Plan, plan_name
from tasks.records import Failure

KIND_NAME = "evolve"
FINISHING_S = 60.0


def start_evolution(
    settings: Settings,
    *,
    fresh: bool,
    plain: bool,
    only: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    stream: TextIO | None = None,
    fork: Fork | None = None,
    retry_wait_s: float = 0.0,
) -> Ending:
    """Run, and write to `stream` (standard output) how it goes and what it came to.

    Of what has failed, `only` names what is to be retried.  `callbacks` are called beside those that the settings name.
    A run that begins with what is in `fork` has settings that fit it (`resolve_fork`).  With nothing left but failed
    tasks it waits `retry_wait_s` for a retry before it parks.
    """
    stream = stream or sys.stdout
    examples = questions.choose_examples(settings)
    questions.check_judge(settings, examples)
    prompts_of(settings)
    named = load_callbacks(settings.callbacks, "CONFIG_CALLBACKS")
    output = OutputFolder(settings.output_dir)
    if fresh and (aside := output.rotate()):
        print(f"the earlier run is now in {aside}", file=stream)
    output.check_kind(KIND_NAME)
    resume.check_resumable(output, settings)
    questions.check_same_questions(output, examples)
    output.open()
    log_to(output.log, "INFO")
    raise_on_signals()
    view = open_view(stream, plain=plain)
    told = Callbacks([*named, *callbacks], view.notify)
    raise_budget = f"--set BUDGET_USD={2 * settings.budget_usd:g}"
    with Driving(output, told, close=view.close, raise_budget=raise_budget) as driving:
        if fork is not None:
            fork.begin(output)
            view.notify(f"begins with {fork.folder} at {fork.at}")
        text = _run(settings, examples, output, view, told, only, retry_wait_s)
        output.write("report.txt", text + "\n")
        view.close()
        print(text, file=stream)
    return driving.ending


def _run(
    settings: Settings,
    examples: Examples,
    output: OutputFolder,
    view: View,
    callbacks: Callbacks,
    only: Sequence[str],
    retry_wait_s: float,
) -> str:
    """The closing report; what it raises is how the session ended."""
    for line in (_announcement(settings), *questions.doubtful_data(examples, settings.margin)):
        view.notify(line)
    book = read_book(output)
    state = load_state(output, make_search(settings, book)) if book.arms else RunState()
    history = read_history(output, state.generation) if state.generation else []
    output.run_id(KIND_NAME)  # first of all: files without it are no run
    with restored_if_refused(output.config, output.path / resume.CHANGES_FILE):
        if output.config.exists():
            resume.record_change(output, resume.saved_settings(output.path), settings, state.generation)
        with writing(output.config):
            write_config(settings, output.config)
        farm, priced = open_farm(settings, view.notify), is_priced(endpoint_of(settings))
        with open_session(
            output, KIND_NAME, farm, settings.target_model, job_s=stage_limit_s(), retry_wait_s=retry_wait_s,
            only=only, budget_usd=settings.budget_usd, is_priced=priced, notify=view.notify, tick=view.tick,
            unit="generations", total=settings.ngen,
        ) as session:  # fmt: skip
            evolution = _Evolution(settings, session, view, callbacks, history)
            callbacks.start(
                RunInfo(session.run_id, KIND_NAME, output.path, dict(vars(settings)), settings.ngen, len(history))
            )
            with session.publisher.publish_final_state():
                return evolution.run(evolution.prepare(book, examples), state)


def _announcement(settings: Settings) -> str:
    """Who reflects and judges, and what it may cost at most."""
    endpoint, rules, external = endpoint_of(settings), by_rules(settings), not settings.is_embedded
    reflected = f"none, {settings.optimiser} searches without one"
    if settings.needs_reflector:
        reflected = provider_at(settings.reflector_model, endpoint, rules=rules, external=external)
    cost = highest_cost(endpoint, rules=rules, external=external) if needs_endpoint(settings) else "free"
    return announce(reflected, questions.judge_of(settings), cost)


@dataclass(frozen=True)
class Prepared:
    """What the search begins with; `examples` are the questions that fit with the book's cap."""

    book: Book
    examples: Examples


class _Evolution:
    """A run once its farm is up: `prepare` and `run`.  `history` is what earlier sessions have recorded."""

    def __init__(
        self, settings: Settings, session: Session, view: View, callbacks: Callbacks, history: History
    ) -> None:
        self.settings, self.session, self.view, self.callbacks = settings, session, view, callbacks
        self.output, self.dispatcher, self.history = session.output, session.dispatcher, history
        self.store, self.run_id = session.farm.store, session.run_id
        self.scheduler = Scheduler(self.dispatcher)
        self.artifacts = ArtifactRequests(self.scheduler, self.output, stage_limit_s())
        self.reporter = ProgressReporter(session, settings, view, self.artifacts)
        self.reporter.take_up(history, self._evaluations(history))

    def _put_run(self, book: Book) -> None:
        """What workers read: with the cap of the book, and the fitness relative to the plain model."""
        run = make_run(self.settings, self.run_id)
        if book.cap:
            sampling = replace(run.target.sampling, max_new_tokens=book.cap)
            run = replace(run, target=replace(run.target, sampling=sampling))
        if book.arms:
            objective = relative_objective(self.settings, *book.plain.on("training").point)
            run = replace(run, objective=objective)
        self.store.put_run(run)

    def _evaluations(self, history: History) -> Evaluations:
        """Those of the recorded generations, and of what was measured around the search."""
        recorded = (Evaluations(**line["evaluations"]) for line in history)
        return sum(recorded, measured_evaluations(self.store, self.run_id))

    def prepare(self, book: Book, examples: Examples) -> Prepared:
        """Check prompts and server, measure the prompts, make clusters of their answers, measure the arms' vectors."""
        settings, store, output = self.settings, self.store, self.output
        self._put_run(book)
        asked = self._fitting(examples, [one.system_prompt for one in book.systems])
        self.reporter.report_setup("waiting for the target server, which may have to load its model", None)
        resume.ensure_same_server(self.scheduler, settings, store.run(self.run_id).target, output)
        if resume.unknown_servers(output, store, self.run_id):
            self.view.notify(
                "a server that is not the run's has answered since its process was killed; that is computed again"
            )
            store.forget_stages(self.run_id, [plan_name(purpose, len(self.history)) for purpose in STAGES])
            store.forget_servers(self.run_id)
        questions.keep_questions(output, examples)
        clusters = arms.Clusters(self.scheduler, settings, output, self.reporter.report_setup)
        evaluator = FarmEvaluator(self.dispatcher, self.reporter)

        def measurer(cap: int) -> Measurer:
            """With a larger cap fewer prompts fit."""
            if cap == settings.target_max_new_tokens:
                return Measurer(evaluator, asked)
            reason = "too many of the plain model's answers reach the limit of tokens"
            self.view.notify(f"{reason}, which is doubled to {cap:,}")
            self._put_run(Book(cap=cap))
            return Measurer(evaluator, self._fitting(examples))

        if not book.arms:
            prompts = prompts_of(settings)
            plain, cap, by = arms.measure_plain(settings, prompts[PLAIN], measurer)
            if not any(plain[0].on("training").right):
                self.view.notify(
                    "the judge calls none of the plain model's answers right: is it the judge that you mean?"
                )
            book, asked = arms.make_arms(settings, prompts, plain, cap, by, clusters.make).write(output), by.examples
        clusters.restore(book.arms)
        self._put_run(book)
        return Prepared(book, asked)

    def _fitting(self, examples: Examples, prompts: Sequence[str] = ()) -> Examples:
        """Of all questions those that fit with the run's cap."""
        fitting = questions.fitting_questions(
            self.scheduler, self.settings.too_long, examples, prompts or [*prompts_of(self.settings).values()],
            self.reporter.report_setup, self.view.notify,
        )  # fmt: skip
        if self.settings.whole:
            fitting["everyday"] = questions.everyday_questions()
        self.store.put_examples(self.run_id, fitting)
        return fitting

    def run(self, prepared: Prepared, state: RunState) -> str:
        """The generations that are left from `state` on, and the closing report."""
        search = make_search(self.settings, prepared.book)
        is_priced = self.session.publisher.is_priced
        recorder = Recorder(
            self.output, self.store, self.run_id, search, self.artifacts, is_priced=is_priced, history=self.history
        )
        in_progress = InProgress(self.output, self.store, self.run_id, search, state)
        self.reporter.take_up(self.history, self._evaluations(self.history))

        names = {arm.system_prompt: arm.name for arm in search.arms}

        def watch(plan: Plan, records: Records, failures: Sequence[Failure]) -> None:
            if plan.is_of_generation:
                in_progress.plans[plan.name] = (plan, records)
            self.reporter(plan, records, failures, names.get(plan.candidates[0].system_prompt or "", ""))

        measurer = Measurer(FarmEvaluator(self.dispatcher, watch), prepared.examples)
        with in_progress.written_if_interrupted():
            if state.generation:
                self.view.notify(f"going on with generation {state.generation} of {self.settings.ngen}")
                recorder.write_again(state)
            self._search(known_of(prepared.book), measurer, recorder, in_progress)
            return self._close(prepared.book, measurer, recorder)

    def _search(self, known: Known, measurer: Measurer, recorder: Recorder, in_progress: InProgress) -> None:
        store, reporter, search, started = self.store, self.reporter, in_progress.search, time.monotonic()

        def points(line: GenerationRecord) -> list[Point]:
            return [Point(one["mean_tokens"], one["correctness"]) for one in (*line["population"], *line["offspring"])]

        def turns() -> list[Turn]:
            return [Turn(line["arm"], points(line)) for line in recorder.history]

        for finished in search.generations(in_progress.state, measurer.evaluate, reporter.end_population, turns, known):
            number = finished.generation.number
            best = recorder.record(finished, time.monotonic() - started).best
            # The outcomes are in the output folder; the answers and verdicts of their stages may expire.
            store.forget_plans(self.run_id, [plan_name(one, number) for one in STEMS])
            store.release_shared(self.run_id)
            reporter.end_generation(recorder.history, self._evaluations(recorder.history))
            in_progress.state = finished.state
            in_progress.plans.clear()
            deltas = list_to_deltas(best.deltas, search.any_params.cluster_ids)
            self.callbacks.end_generation(GenerationInfo(number, recorder.history[-1], deltas, best.scratchpad))
            started = time.monotonic()

    def _close(self, book: Book, measurer: Measurer, recorder: Recorder) -> str:
        """Choose among all systems, test the choice, save all files, and build the report."""
        store, run_id, history = self.store, self.run_id, recorder.history
        closing = Closing(measurer, self.settings, self.output)
        book = closing.conclude(book, recorder.individuals, len(history)).write(self.output)
        comparisons = closing.comparisons(book)
        report = write_report(self.output, store, run_id, self.settings, book, comparisons)
        self.artifacts.request_plots("comparison", COMPARISON_PLOTS, {"points": plot_points(report)})
        self.artifacts.wait(FINISHING_S)
        store.release_shared(run_id)  # what is written later is held again
        store.clusterings.release(run_id)
        self.reporter.flush()
        delete_results(self.session.farm.app, run_id)
        done = self._evaluations(history)
        return build_report(self.settings, self.output, store, report, history, comparisons, done)
