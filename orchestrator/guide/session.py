"""One session of a guided run, from checked settings and tickets to the last artifact of every mission."""

from __future__ import annotations

import dataclasses
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator.callbacks import Callbacks, RunInfo
from orchestrator.farm import FarmUnavailable
from orchestrator.farm.connection import FarmConnection
from orchestrator.farm.dispatcher import Dispatcher, Parked, WaitLimits
from orchestrator.farm.jobs import Request, Scheduler
from orchestrator.guide.artifacts import STATS, MissionFolder
from orchestrator.guide.build import guide_endpoint, guide_target, open_guide_farm
from orchestrator.guide.figures import Tally
from orchestrator.guide.guidance import GuidanceRepository
from orchestrator.guide.ingest import Ingested, MissionTickets, epoch_batches, shuffle_lines
from orchestrator.guide.inputs import Templates
from orchestrator.guide.mission import Mission
from orchestrator.guide.options import GuideOptions
from orchestrator.guide.reflecting import TooManyRejected
from orchestrator.guide.report import PROGRESS_FILE, UNIT, closing_lines, progress_of
from orchestrator.guide.rollouts import JOB_LIMIT_S, MissionSetup, Steps
from orchestrator.guide.settings import GuideSettings
from orchestrator.runs.folder import OutputFolder, read_state
from orchestrator.runs.journal import JOURNAL, Journal
from orchestrator.runs.provenance import keep_versions
from orchestrator.runs.sameness import current_server
from orchestrator.runs.session import run_session
from orchestrator.runs.status import StatusPublisher, clear_parked_state
from orchestrator.settings.documents import flatten
from orchestrator.settings.options import SettingsError
from orchestrator.settings.value_checks import EMBEDDED
from tasks.cpu.guide import load_verifier
from tasks.guide.experiences import Guidance
from tasks.guide.jobs import GUIDE, GuideContext
from tasks.openai.endpoint import is_priced
from tasks.store.keys import LIMIT
from tasks.store.ownership import RunTaken
from tasks.store.results import DAY_S, KEPT_S
from tasks.store.workers import code_version

log = logging.getLogger(__name__)
KIND_NAME, CONTEXT_FILE = "guide", "context.json"
NO_PROGRESS_S = 60.0  # beyond the hard limit of a job, which is reported as that job's failure
PUBLISH_EVERY_S = 1.0
CPU_JOBS = 8  # in flight


@dataclass
class Guider:
    """One session of a run."""

    settings: GuideSettings
    options: GuideOptions
    ingested: Ingested
    templates: Templates
    output: OutputFolder
    callbacks: Callbacks = field(default_factory=lambda: Callbacks(()))
    only: tuple[str, ...] = ()  # the failed tasks to retry; without names, all

    def run(self) -> list[str]:
        """The lines of the closing report.  What is raised is how the session ended."""
        log.info("settings: %s", json.dumps(dataclasses.asdict(self.settings), ensure_ascii=False))
        run_id = self.output.run_id(KIND_NAME)
        opened = open_guide_farm(self.settings, self.options)
        with run_session(self.output, run_id, KIND_NAME, opened, log.warning) as farm:
            session = _Session(self, farm, run_id)
            session.begin()
            self.callbacks.start(session.info())
            with session.publisher.publish_final_state():
                lines = session.work()
                farm.store.release_shared(run_id)
                return lines


@dataclass
class _Session:
    """The parts of a session, once its farm is up."""

    guider: Guider
    farm: FarmConnection
    run_id: str
    missions: Sequence[Mission] = ()
    _reported: float = float("-inf")

    def __post_init__(self) -> None:
        self.settings, self.options = self.guider.settings, self.guider.options
        self.output = self.guider.output
        endpoint = guide_endpoint(self.settings, self.options)
        self.is_priced = endpoint is None or is_priced(endpoint)
        self.context = GuideContext(
            target=guide_target(self.settings, self.options),
            endpoint=endpoint,
            endpoint_model=self.settings.endpoint.model if self.settings.endpoint else "",
        )
        about = {"kind": KIND_NAME, "unit": UNIT}
        budget = self.options.budget_usd
        self.publisher = StatusPublisher(self.run_id, self.farm.store, self.output, about, budget, self.is_priced)

    @cached_property
    def scheduler(self) -> Scheduler:
        limits = WaitLimits(JOB_LIMIT_S + NO_PROGRESS_S, self.options.retry_wait_s)
        dispatcher = Dispatcher(self.farm, self.run_id, limits, log.warning, self.guider.only)
        gpu, calls = self.options.rollout_jobs, self.options.endpoint_jobs
        in_flight = {
            **dict.fromkeys(("gpu.rollout", "gpu.prompt_lengths", "gpu.critique", "gpu.propose"), gpu),
            **dict.fromkeys(("openai.critique", "openai.propose"), calls),
            "cpu.verify": CPU_JOBS,
        }
        return Scheduler(dispatcher, in_flight)

    def begin(self) -> None:
        """Put the run into the store."""
        store, endpoint = self.farm.store, self.settings.endpoint
        if self.settings.needs_endpoint and endpoint and endpoint.api_base == EMBEDDED and not self.farm.rules:
            raise FarmUnavailable('the farm has no embedded endpoint, and endpoint.api_base is "embedded"')
        store.retention.apply_rule(self.run_id, KEPT_S / DAY_S)
        store.set_requirements(self.run_id, code_version(), self.context.target.model)
        store.put_metadata(self.run_id, GUIDE, self.context.to_json())
        store.put_metadata(self.run_id, LIMIT, str(JOB_LIMIT_S))
        self.publisher.restore([])
        keep_versions(self.output)
        clear_parked_state(self.output)  # not earlier: a start that is refused leaves the run parked

    def info(self) -> RunInfo:
        """The run, as callbacks are told of it."""
        settings = {**flatten(dataclasses.asdict(self.settings)), **flatten({"farm": dataclasses.asdict(self.options)})}
        batches = sum(
            self.settings.runner.epochs * len(epoch_batches(tickets.training, self.settings, 1).batches)
            for tickets in self.guider.ingested.values()
        )
        return RunInfo(self.run_id, KIND_NAME, self.output.path, settings, batches)

    def work(self) -> list[str]:
        """All missions to their ends; returns the closing report."""
        self._identify_server()
        prepared = [self._prepare(name) for name in self.guider.ingested]
        self.missions = [mission for mission, _ in prepared]
        runs = [MissionRun(one.setup.mission, one.steps(), journal) for one, journal in prepared]
        self.report()
        MissionPipeline(self.scheduler, runs, self._watch).run()
        self.report(is_finished=True)
        return closing_lines([mission.stats() for mission in self.missions], self.output.path)

    def _identify_server(self) -> None:
        """Learn which server answers, because all keys cover it."""
        server = current_server(self.scheduler, self.context.target, JOB_LIMIT_S)
        self.context = dataclasses.replace(self.context, server=server)
        if (self.output.path / CONTEXT_FILE).exists():
            known = read_state(self.output.path / CONTEXT_FILE, GuideContext)
            if known.server != server:
                raise SettingsError([f"model.model_name_or_path: {_other_server(known.server, server)}"])
        self.output.write_state(CONTEXT_FILE, json.loads(self.context.to_json()))
        self.farm.store.put_metadata(self.run_id, GUIDE, self.context.to_json())

    def _prepare(self, name: str) -> tuple[Mission, Journal]:
        """A mission that begins, with all that its journal holds put into the store."""
        tickets, folder = self.guider.ingested[name], self.output.path / name
        repository, first = write_ingest(folder, self.settings, tickets)
        journal = Journal(folder / JOURNAL)
        journal.seed(self.farm.store, self.run_id)
        if journal.results:
            log.info("%s: the journal has the results of %d jobs", name, len(journal.results))
        setup = MissionSetup(
            tickets=tickets,
            settings=self.settings,
            templates=self.guider.templates,
            context=self.context,
            parked_at=frozenset(journal.parked_at),
            verifier_identity=load_verifier(self.settings.verifier).identity if self.settings.verifier else "",
        )
        tally = Tally(self.settings, tickets, self.is_priced)
        return Mission(setup, MissionFolder(folder), repository, first, tally), journal

    def _watch(self) -> None:
        if time.monotonic() - self._reported > PUBLISH_EVERY_S:
            self.report()

    def report(self, *, is_finished: bool = False) -> None:
        """Publish how far the missions are, and write it into the output folder."""
        progress = progress_of([mission.stats() for mission in self.missions], is_finished=is_finished)
        self.output.write_state(PROGRESS_FILE, progress)
        self.publisher.publish({"done": progress["done"], "total": progress["total"], **progress["figures"]})
        self._reported = time.monotonic()


def write_ingest(folder: Path, settings: GuideSettings, tickets: MissionTickets) -> tuple[GuidanceRepository, Guidance]:
    """What stands in a mission's folder before the first batch; returns the guidance with which the run begins."""
    repository, mission = GuidanceRepository(folder, folder.name, settings.guidance.retention), MissionFolder(folder)
    first = repository.start_from(Path(settings.guidance.path))
    for number in range(1, settings.runner.epochs + 1):
        epoch = epoch_batches(tickets.training, settings, number)
        mission.write_lines(f"epoch_{number}/shuffled_data.jsonl", shuffle_lines(epoch))
    if not (folder / STATS).exists():
        mission.write_stats(Tally(settings, tickets).stats(first, is_finished=False))
    return repository, first


def _other_server(before: Mapping[str, object], now: Mapping[str, object]) -> str:
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    return (
        "the server of the target is not the one that this run began with "
        f"({', '.join(f'{name}: {before.get(name)!r} and {now.get(name)!r}' for name in names)})"
    )


@dataclass(frozen=True)
class MissionRequest(Request):
    """A request of one mission."""

    mission: str


@dataclass
class MissionRun:
    """The steps of one mission under way, its journal, and what it waits for: `None` before a result is there."""

    name: str
    steps: Steps[None]
    journal: Journal
    is_finished: bool = False
    _waiting: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    _missing: int = 0

    def begin(self) -> list[MissionRequest]:
        """The first requests."""
        return self._advance(None)

    def take(self, key: str, result: Mapping[str, Any]) -> list[MissionRequest]:
        """What is asked next, once all that was waited for is there."""
        self.journal.add(key, result)
        self._missing -= self._waiting[key] is None
        self._waiting[key] = result
        if self._missing:
            return []
        return self._advance({key: value for key, value in self._waiting.items() if value is not None})

    def _advance(self, results: Mapping[str, Mapping[str, Any]] | None) -> list[MissionRequest]:
        asked: Sequence[Request] = []
        try:
            while not asked:
                asked = next(self.steps) if results is None else self.steps.send(results)
                results = {}
        except StopIteration:
            self.is_finished = True
        except TooManyRejected as error:
            self.journal.add_park(error.replies)
            raise Parked(str(error)) from None
        by_key = {request.key: request for request in asked}
        self._waiting, self._missing = dict.fromkeys(by_key), len(by_key)
        return [MissionRequest(request.key, request.spec, self.name) for request in by_key.values()]


@dataclass
class MissionPipeline:
    """The missions of a run over its one scheduler, which bounds the requests in flight.

    `watch` is called after each look at the store, and whenever a mission has gone on.
    """

    scheduler: Scheduler
    missions: Iterable[MissionRun]
    watch: Callable[[], None]

    def run(self) -> None:
        by_name = {mission.name: mission for mission in self.missions}
        try:
            for mission in by_name.values():
                self._submit(mission.begin())
            for request, value in self.scheduler.results(lambda: self._look(by_name.values())):
                assert isinstance(request, MissionRequest)
                self._submit(by_name[request.mission].take(request.key, value))
        except RunTaken:
            raise  # the folder is another process's
        except BaseException:
            self._flush(by_name.values())
            raise
        self._flush(by_name.values())

    def _submit(self, requests: Iterable[MissionRequest]) -> None:
        for request in requests:
            self.scheduler.submit(request)

    def _look(self, missions: Iterable[MissionRun]) -> None:
        self._flush(missions)
        self.watch()

    def _flush(self, missions: Iterable[MissionRun]) -> None:
        for mission in missions:
            mission.journal.flush()
