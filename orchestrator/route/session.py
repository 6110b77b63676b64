"""One session of a `route` run, from checked settings to its report.

bases -> pool -> a training for each trajectory and seed -> its evaluation, as soon as it has ended -> tables -> plots
"""

from __future__ import annotations

import dataclasses
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from orchestrator.callbacks import Callbacks, RunInfo
from orchestrator.farm.connection import FarmConnection
from orchestrator.farm.dispatcher import Dispatcher, WaitLimits
from orchestrator.farm.jobs import Request, Scheduler
from orchestrator.route.build import arms, deployments, open_route_farm, route_inputs
from orchestrator.route.progress import PROGRESS_FILE, UNIT, RouteProgress
from orchestrator.route.report import verdict_lines, write_report
from orchestrator.route.restore import restore_results, restore_training
from orchestrator.route.results import COMPARISON_FILE, EVALUATION_FILE, checkpoint_file, json_lines, rows_file
from orchestrator.route.settings import RouteOptions, RouteSettings
from orchestrator.runs.artifacts import ArtifactRequests
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.journal import JOURNAL, Journal
from orchestrator.runs.provenance import keep_versions
from orchestrator.runs.session import run_session
from orchestrator.runs.status import StatusPublisher, clear_parked_state
from orchestrator.settings.documents import flatten
from tasks.route.claims import NONE, PROGRAMS, REAL, EvaluatedDeployment, Thresholds, compare_claims
from tasks.route.jobs import (
    Arm,
    Deployment,
    RouteJob,
    bases_job,
    data_key,
    evaluate_job,
    pool_job,
    progress_field,
    train_checkpoint,
    train_job,
)
from tasks.store.keys import LIMIT
from tasks.store.results import DAY_S, KEPT_S
from tasks.store.workers import code_version

log = logging.getLogger(__name__)
KIND_NAME = "route"
NO_PROGRESS_S = 60.0  # beyond the hard limit of a job, which is reported as that job's failure
PUBLISH_EVERY_S, DRAWING_S = 1.0, 60.0
GPU_TASKS = ("gpu.evaluate", "gpu.bases", "gpu.train")  # what a training has led to goes before the next training
Result = Mapping[str, Any]


@dataclass(frozen=True)
class OfArm(Request):
    """A request that belongs to an arm; `deployed` is what is evaluated of it, nothing for its training."""

    arm: Arm
    deployed: tuple[Deployment, ...] = ()


@dataclass
class Router:
    """One session of a run.  What `run` raises is how the session ended."""

    settings: RouteSettings
    options: RouteOptions
    texts: Mapping[str, str]
    output: OutputFolder
    callbacks: Callbacks = field(default_factory=lambda: Callbacks(()))
    only: tuple[str, ...] = ()  # the failed tasks to retry; without names, all

    def run(self) -> list[str]:
        """The lines of the closing report."""
        log.info("settings: %s", json.dumps(dataclasses.asdict(self.settings), ensure_ascii=False))
        run_id = self.output.run_id(KIND_NAME)
        opened = open_route_farm(self.options)
        with run_session(self.output, run_id, KIND_NAME, opened, log.warning) as farm:
            session = _Session(self, farm, run_id)
            session.begin()
            self.callbacks.start(session.info())
            with session.publisher.publish_final_state():
                session.work()
                farm.store.release_shared(run_id)
                return verdict_lines(self.output.path)


@dataclass
class _Session:
    """The parts of a session, once its farm is up."""

    router: Router
    farm: FarmConnection
    run_id: str
    _trained: dict[Arm, tuple[RouteJob, Result]] = field(default_factory=dict)
    _evaluated: dict[Deployment, Result] = field(default_factory=dict)
    _trainings: dict[Arm, RouteJob] = field(default_factory=dict)
    _evaluations: dict[Arm, RouteJob] = field(default_factory=dict)
    _reported: float = float("-inf")

    def __post_init__(self) -> None:
        self.settings, self.options, self.output = self.router.settings, self.router.options, self.router.output
        self.inputs = route_inputs(self.settings, dict(self.router.texts))
        self.limit_s = self.options.job_hours * 3600
        about = {"kind": KIND_NAME, "unit": UNIT}
        self.publisher = StatusPublisher(self.run_id, self.farm.store, self.output, about, 0.0)
        self.journal = Journal(self.output.path / JOURNAL)

    @cached_property
    def scheduler(self) -> Scheduler:
        limits = WaitLimits(self.limit_s + NO_PROGRESS_S, self.options.retry_wait_s)
        dispatcher = Dispatcher(self.farm, self.run_id, limits, log.warning, self.router.only)
        # The arms need nothing of each other, and a night on a GPU is not to end with the first one that fails.
        return Scheduler(dispatcher, dict.fromkeys(GPU_TASKS, self.options.gpu_jobs), goes_on=True)

    def begin(self) -> None:
        """Put the run, its data and all earlier results into the store."""
        store = self.farm.store
        store.retention.apply_rule(self.run_id, KEPT_S / DAY_S)
        store.set_requirements(self.run_id, code_version(), self.inputs.target.model)
        store.put_metadata(self.run_id, LIMIT, str(self.limit_s))
        for text in self.router.texts.values():
            store.put_shared(self.run_id, data_key(text), {"text": text})
        restore_results(store, self.run_id, self.journal)
        self.publisher.restore([])
        keep_versions(self.output)
        clear_parked_state(self.output)  # not earlier: a start that is refused leaves the run parked

    def info(self) -> RunInfo:
        """The run, as callbacks are told of it."""
        farm = {"farm": dataclasses.asdict(self.options)}
        settings = {**flatten(dataclasses.asdict(self.settings)), **flatten(farm)}
        return RunInfo(self.run_id, KIND_NAME, self.output.path, settings, len(arms(self.settings)))

    def work(self) -> None:
        """Everything that needs the farm, and the report."""
        self.report()
        bases = self._one(bases_job(self.inputs, self.limit_s))
        log.info("bases: %d modules, largest error %.1e", bases["modules"], bases["largest_error"])
        pool = pool_job(self.inputs, self.limit_s) if self._has_pool() else None
        if pool is not None:
            self._one(pool)
        for arm in arms(self.settings):
            job = train_job(self.inputs, arm, bases["weights"], pool[0] if pool else None, self.limit_s)
            self._trainings[arm] = job
            path = self.output.path / checkpoint_file(arm)
            restore_training(self.farm.store, self.run_id, self.journal, job, path)
            self.scheduler.submit(OfArm(*job, arm))
        for request, result in self._results():
            assert isinstance(request, OfArm)
            if request.deployed:
                self._evaluated |= dict(zip(request.deployed, result["evaluations"], strict=True))
                self.output.write(EVALUATION_FILE, json_lines(map(dataclasses.asdict, self._records())))
            else:
                self._end_training(request.arm, result)
        self._finish()

    def _finish(self) -> None:
        records = self._records()
        found = compare_claims(records, Thresholds(**dataclasses.asdict(self.settings.claims)))
        self.output.write_state(COMPARISON_FILE, found)
        artifacts = ArtifactRequests(self.scheduler, self.output, self.limit_s)
        artifacts.request_route_plots(
            found["rates"],
            self.settings.claims.held_out_mode,
            {arm.name: list(self._trained[arm][1]["rows"]) for arm in arms(self.settings)},
        )
        artifacts.wait(DRAWING_S)
        write_report(self.output)
        self.report(is_finished=True)

    def _has_pool(self) -> bool:
        return self.settings.world == PROGRAMS and self.settings.training.teacher_rows > 0

    def _one(self, job: RouteJob) -> Result:
        """The result of a job, with nothing else in flight."""
        self.scheduler.submit(Request(*job))
        [(_, result)] = self._results()
        return cast(Result, result)

    def _results(self) -> Any:
        """Each result as it comes, noted in the journal."""
        try:
            for request, result in self.scheduler.results(self._watch):
                self.journal.add(request.key, result)
                self.journal.flush()
                yield request, result
        finally:
            self.report()

    def _end_training(self, arm: Arm, result: Result) -> None:
        """Keep rows and checkpoint, and have all that is deployed evaluated."""
        job = self._trainings[arm]
        data = self.farm.store.checkpoint(self.run_id, train_checkpoint(job))
        if data is None:  # another run has computed it, and its checkpoint has expired
            raise LookupError(f"the store has the result of {arm.name} and not its checkpoint")
        self.output.write(checkpoint_file(arm), data)
        self.output.write(rows_file(arm), json_lines(result["rows"]))
        self._trained[arm] = job, result
        deployed = deployments(self.settings, arm)
        evaluation = evaluate_job(self.inputs, deployed, job, result["sha256"], self.limit_s)
        self._evaluations[arm] = evaluation
        self.scheduler.submit(OfArm(*evaluation, arm, tuple(deployed)))

    def _records(self) -> list[EvaluatedDeployment]:
        """All evaluations so far, in the order of the settings."""
        found = []
        for arm in arms(self.settings):
            for each in deployments(self.settings, arm):
                if (result := self._evaluated.get(each)) is not None:
                    what = (arm.trajectory, arm.seed, each.deployed, each.mode, each.quarantine)
                    found.append(EvaluatedDeployment(*what, result["solved"], result["hacked"]))
        return found

    def _watch(self) -> None:
        if time.monotonic() - self._reported > PUBLISH_EVERY_S:
            self.report()

    def report(self, *, is_finished: bool = False) -> None:
        """Publish how far the run is, and write it into the output folder."""
        steps = self.settings.training.steps
        found = arms(self.settings)
        progress = RouteProgress(
            done=sum(steps if arm in self._trained else self._done("train", self._trainings.get(arm)) for arm in found),
            total=steps * len(found),
            is_finished=is_finished,
            figures={
                "evaluations": float(sum(self._answered(arm) for arm in found)),
                "evaluations_total": float(sum(len(deployments(self.settings, arm)) for arm in found)),
                "real_hack": self._hack(REAL),
                "none_hack": self._hack(NONE),
            },
        )
        self.output.write_state(PROGRESS_FILE, progress)
        self.publisher.publish({"done": progress["done"], "total": progress["total"], **progress["figures"]})
        self._reported = time.monotonic()

    def _answered(self, arm: Arm) -> int:
        """How much of an arm is evaluated."""
        deployed = deployments(self.settings, arm)
        if deployed[0] in self._evaluated:
            return len(deployed)
        return self._done("evaluate", self._evaluations.get(arm))

    def _done(self, stage: str, job: RouteJob | None) -> int:
        """The steps or evaluations of a job under way."""
        said = json.loads(self.farm.store.metadata(self.run_id, progress_field(job[0])) or "{}") if job else {}
        return int(said["done"]) if said.get("stage") == stage else 0

    def _hack(self, deployed: str) -> float | None:
        """The hack rate of the held-out mode, over the seeds that are evaluated."""
        texts = [
            result["hacked"]
            for deployment, result in self._evaluated.items()
            if (deployment.deployed, deployment.mode) == (deployed, self.settings.claims.held_out_mode)
            and deployment.arm.trajectory == "shared"
        ]
        samples: Sequence[str] = "".join(texts)
        return samples.count("1") / len(samples) if samples else None
