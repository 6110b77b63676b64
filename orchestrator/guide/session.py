"""One session of a guided run, from checked inputs to the last artifact of every mission.

All missions share one scheduler, which bounds the requests in flight.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.callbacks import Callbacks
from orchestrator.farm import Parked
from orchestrator.farm.connection import FarmConnection
from orchestrator.farm.work import Request, Scheduler
from orchestrator.guide.artifacts import MissionFolder
from orchestrator.guide.guidance import GuidanceRepository
from orchestrator.guide.inputs import GuideInputs, MissionTickets, epoch_batches
from orchestrator.guide.mission import Mission
from orchestrator.guide.reflecting import TooManyRejected
from orchestrator.guide.report import STATS, UNIT, closing_lines, progress_of
from orchestrator.guide.rollouts import MissionSetup, Steps
from orchestrator.guide.settings import GuideOptions, GuideSettings
from orchestrator.guide.tally import Tally
from orchestrator.runs.folder import OutputFolder, read_json
from orchestrator.runs.jobs import JOURNAL, Journal, ask_server
from orchestrator.runs.kinds import ProgressFile
from orchestrator.runs.session import Session, open_session
from orchestrator.settings import SettingsError
from orchestrator.settings.options import EMBEDDED
from orchestrator.settings.run import endpoint_at
from tasks import records
from tasks.guide.experiences import Guidance
from tasks.guide.jobs import GUIDE, JOB_LIMIT_S, GuideContext
from tasks.guide.work import load_verifier
from tasks.openai.endpoint import is_priced

log = logging.getLogger(__name__)
CONTEXT_FILE = "context.json"
CPU_JOBS = 8  # in flight


def run_missions(
    inputs: GuideInputs,
    output: OutputFolder,
    farm: AbstractContextManager[FarmConnection],
    callbacks: Callbacks,
    only: Sequence[str],
) -> list[str]:
    """All missions to their ends; returns the closing report.  What is raised is how the session ended."""
    settings, options = inputs.settings, inputs.options
    log.info("settings: %s", json.dumps(dataclasses.asdict(settings), ensure_ascii=False))
    context = guide_context(settings, options)
    priced = context.endpoint is None or is_priced(context.endpoint)
    rules = "endpoint.api_base" if settings.asks_rules else ""
    with open_session(
        output, GUIDE, farm, context.target.model, job_s=JOB_LIMIT_S, retry_wait_s=options.retry_wait_s,
        only=only, budget_usd=options.budget_usd, is_priced=priced, needs_rules=rules, unit=UNIT,
    ) as session:  # fmt: skip
        on_target = ("gpu.rollout", "gpu.prompt_lengths", "gpu.critique", "gpu.propose")
        in_flight = dict.fromkeys(on_target, options.rollout_jobs)
        in_flight |= dict.fromkeys(("openai.critique", "openai.propose"), options.endpoint_jobs)
        scheduler = Scheduler(session.dispatcher, {**in_flight, "cpu.verify": CPU_JOBS})
        batches = sum(len(epoch_batches(one.training, settings, 1).batches) for one in inputs.tickets.values())
        with session.working(callbacks, settings, options, settings.runner.epochs * batches):
            context = _with_server(context, session, scheduler)
            runs = [_prepare(inputs, name, context, session, priced) for name in inputs.tickets]

            def progress(*, is_finished: bool = False) -> ProgressFile:
                return progress_of([run.mission.stats() for run in runs], is_finished=is_finished)

            session.report(progress())
            drive_missions(scheduler, runs, lambda: session.report_sometimes(progress))
            session.report(progress(is_finished=True))
            return closing_lines([run.mission.stats() for run in runs], output.path)


def guide_context(settings: GuideSettings, options: GuideOptions) -> GuideContext:
    """The frozen model and its server, and the endpoint of critic and reflector; None where the target is both."""
    model, endpoint = settings.model, settings.endpoint
    embedded = model.model_name_or_path == EMBEDDED
    dtype, device = model.torch_dtype or "auto", model.device_map or "auto"
    chosen = {"--dtype": dtype, "--device": device}  # as SGLang calls them
    arguments = [f"{name} {value}" for name, value in chosen.items() if value != "auto"] + [options.sglang_args]
    target = records.Target(
        model=model.model_name_or_path,
        engine="embedded" if embedded else "sglang",
        url="" if embedded else options.sglang_url,
        command="" if embedded else options.sglang_command,
        args="" if embedded else " ".join(filter(None, arguments)),
        device="cpu" if embedded or device == "cpu" else "cuda",
        dtype=dtype if embedded else "auto",
        concurrency=options.rollout_jobs,
        sampling=records.Sampling(settings.sampler.grid[0].max_new_tokens, 0.0, 1.0, settings.runner.shuffle_seed),
    )
    asked = None
    if endpoint and settings.needs_endpoint:
        asked = endpoint_at(endpoint.api_base, endpoint.api_key_env, options)
    return GuideContext(target=target, endpoint=asked, endpoint_model=endpoint.model if endpoint else "")


def _with_server(context: GuideContext, session: Session, scheduler: Scheduler) -> GuideContext:
    """Learn which server answers, because all keys cover it, and put the context into the store."""
    output, now = session.output, ask_server(scheduler, context.target, JOB_LIMIT_S)["server"]
    context = dataclasses.replace(context, server=now)
    if (output.path / CONTEXT_FILE).exists():
        before = read_json(output.path / CONTEXT_FILE, GuideContext).server
        if before != now:
            from tasks.gpu.host import differences  # it imports the client of the target

            told = f"the server of the target is not the one that this run began with ({differences(before, now)})"
            raise SettingsError([f"model.model_name_or_path: {told}"])
    output.write_json(CONTEXT_FILE, json.loads(context.to_json()))
    session.farm.store.put_metadata(session.run_id, GUIDE, context.to_json())
    return context


def _prepare(inputs: GuideInputs, name: str, context: GuideContext, session: Session, is_priced: bool) -> MissionRun:
    """A mission that begins."""
    settings, tickets, folder = inputs.settings, inputs.tickets[name], session.output.path / name
    repository, first = write_ingest(folder, settings, tickets)
    journal = Journal(folder / JOURNAL)
    if journal.results:
        log.info("%s: the journal has the results of %d jobs", name, len(journal.results))
    identity = load_verifier(settings.verifier).identity if settings.verifier else ""
    setup = MissionSetup(tickets, settings, inputs.templates, context, frozenset(journal.parked_at), identity)
    mission = Mission(setup, MissionFolder(folder), repository, first, Tally(settings, tickets, is_priced))
    return MissionRun(mission, mission.steps(), journal)


def write_ingest(folder: Path, settings: GuideSettings, tickets: MissionTickets) -> tuple[GuidanceRepository, Guidance]:
    """What stands in a mission's folder before the first batch; returns the guidance with which the run begins."""
    repository, mission = GuidanceRepository(folder, folder.name, settings.guidance.retention), MissionFolder(folder)
    first = repository.start_from(Path(settings.guidance.path))
    for number in range(1, settings.runner.epochs + 1):
        shuffled = epoch_batches(tickets.training, settings, number)
        mission.write_lines(f"epoch_{number}/shuffled_data.jsonl", shuffled.lines())
    if not (folder / STATS).exists():
        mission.write_stats(Tally(settings, tickets).stats(first))
    return repository, first


@dataclass
class MissionRun:
    """The steps of one mission under way, its journal, and what it waits for."""

    mission: Mission
    steps: Steps[None]
    journal: Journal
    _results: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _missing: set[str] = field(default_factory=set)

    def take(self, key: str, result: Mapping[str, Any]) -> Sequence[Request]:
        """What is asked next, once all that was waited for is there."""
        self._results[key] = result
        self._missing.discard(key)
        return () if self._missing else self.advance(self._results)

    def advance(self, results: Mapping[str, Mapping[str, Any]] | None = None) -> Sequence[Request]:
        """The next requests; without results the first ones, and none at the end of the mission."""
        asked: Sequence[Request] = ()
        try:
            while not asked:  # a step that needs nothing goes on at once
                asked = next(self.steps) if results is None else self.steps.send(results)
                results = {}
        except StopIteration:
            return ()
        except TooManyRejected as error:
            self.journal.add_park(error.replies)
            raise Parked(str(error)) from None
        by_key = {request.key: request for request in asked}
        self._results, self._missing = {}, set(by_key)
        return list(by_key.values())


def drive_missions(scheduler: Scheduler, missions: Sequence[MissionRun], watch: Callable[[], None]) -> None:
    """Each mission goes on when its own results are there; `watch` is called after each look at the store."""
    owner: dict[str, MissionRun] = {}  # by key: what a mission asks names it

    def submit(one: MissionRun, requests: Iterable[Request]) -> None:
        for request in requests:
            owner[request.key] = one
            scheduler.submit(request, one.journal)

    for one in missions:
        submit(one, one.advance())
    for request, value in scheduler.results(watch):
        submit(owner[request.key], owner[request.key].take(request.key, value))
