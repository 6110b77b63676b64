"""One session of a `route` run, from checked settings to its report.

bases -> pool -> a training for each trajectory and seed -> its evaluation, as soon as it has ended -> tables -> plots
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.callbacks import Callbacks
from orchestrator.console import Terminated
from orchestrator.farm import Parked
from orchestrator.farm.connection import FarmConnection
from orchestrator.farm.work import Request, Scheduler
from orchestrator.route.registration import arms, deployments
from orchestrator.route.report import (
    COMPARISON_FILE,
    EVALUATION_FILE,
    REPORT_FILE,
    checkpoint_file,
    json_lines,
    report_text,
    rows_file,
    verdict_lines,
)
from orchestrator.route.settings import RouteOptions, RouteSettings
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.jobs import JOURNAL, ArtifactRequests, Journal, say_template
from orchestrator.runs.kinds import ProgressFile
from orchestrator.runs.session import Session, open_session
from orchestrator.settings.options import EMBEDDED
from tasks import records
from tasks.cpu.plots import ROUTE_PLOTS
from tasks.route.claims import NONE, REAL, SHARED, EvaluatedDeployment, compare_claims
from tasks.route.jobs import (
    Arm,
    Deployment,
    RouteInputs,
    RouteJob,
    bases_job,
    data_key,
    evaluate_job,
    pool_job,
    progress_field,
    train_checkpoint,
    train_job,
)

log = logging.getLogger(__name__)
KIND_NAME = "route"
DRAWING_S = 60.0
GPU_TASKS = ("gpu.evaluate", "gpu.bases", "gpu.train")  # what a training has led to goes before the next training
Result = Mapping[str, Any]


@dataclass(frozen=True)
class OfArm(Request):
    """A request that belongs to an arm; `deployed` is what is evaluated of it, nothing for its training."""

    arm: Arm
    deployed: tuple[Deployment, ...] = ()


def run_route(
    settings: RouteSettings,
    options: RouteOptions,
    texts: Mapping[str, str],
    output: OutputFolder,
    farm: AbstractContextManager[FarmConnection],
    callbacks: Callbacks,
    only: Sequence[str],
) -> list[str]:
    """The lines of the closing report.  What is raised is how the session ended."""
    log.info("settings: %s", json.dumps(dataclasses.asdict(settings), ensure_ascii=False))
    inputs = route_inputs(settings, dict(texts))
    with open_session(
        output, KIND_NAME, farm, inputs.target.model, job_s=options.job_hours * 3600,
        retry_wait_s=options.retry_wait_s, only=only, unit="steps",
    ) as session:  # fmt: skip
        for text in texts.values():
            session.farm.store.put_shared(session.run_id, data_key(text), {"text": text})
        # The arms need nothing of each other, and a night on a GPU is not to end with the first one that fails.
        scheduler = Scheduler(session.dispatcher, dict.fromkeys(GPU_TASKS, options.gpu_jobs), goes_on=True)
        router = Router(session, settings, inputs, scheduler, Journal(output.path / JOURNAL))
        with session.working(callbacks, settings, options, router.progress()["total"]):
            try:
                router.work()
            except (Parked, KeyboardInterrupt, Terminated):  # else the folder may be another process's
                session.report(router.progress())
                raise
        return verdict_lines(output.path)


@dataclass
class Router:
    """The jobs of a session, and what has come of them."""

    session: Session
    settings: RouteSettings
    inputs: RouteInputs
    scheduler: Scheduler
    journal: Journal
    _rows: dict[Arm, list[dict[str, Any]]] = field(default_factory=dict)
    _evaluated: dict[Deployment, Result] = field(default_factory=dict)
    _trainings: dict[Arm, RouteJob] = field(default_factory=dict)
    _evaluations: dict[Arm, RouteJob] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store, self.run_id = self.session.farm.store, self.session.run_id
        self.output, self.limit_s = self.session.output, self.session.job_s

    def work(self) -> None:
        self.session.report(self.progress())
        bases = self.scheduler.result(*bases_job(self.inputs, self.limit_s), self._watch, self.journal)
        say_template(self.scheduler, bases)
        log.info("bases: %d modules, %d knobs", bases["modules"], bases["knobs"])
        pool = pool_job(self.inputs, self.limit_s)
        self.scheduler.result(*pool, self._watch, self.journal)
        for arm in arms(self.settings):
            job = self._trainings[arm] = train_job(self.inputs, arm, bases["weights"], pool[0], self.limit_s)
            self._restore_training(job, self.output.path / checkpoint_file(arm))
            self.scheduler.submit(OfArm(*job, arm), self.journal)
        for request, result in self.scheduler.results(self._watch):
            assert isinstance(request, OfArm)
            if request.deployed:
                self._evaluated |= dict(zip(request.deployed, result["evaluations"], strict=True))
                self.output.write(EVALUATION_FILE, json_lines(map(dataclasses.asdict, self._records())))
            else:
                self._end_training(request.arm, result)
        self._finish()

    def _restore_training(self, job: RouteJob, checkpoint: Path) -> None:
        """The result of a finished training is of use only with its last checkpoint, which is a file of its own.

        Without that file a store that has lost the result trains again.
        """
        if job[0] in self.journal.results and checkpoint.exists():
            self.store.put_checkpoint(self.run_id, train_checkpoint(job), checkpoint.read_bytes())
        else:
            self.journal.results.pop(job[0], None)

    def _finish(self) -> None:
        records = self._records()
        found = compare_claims(records, self.settings.claims)
        self.output.write_json(COMPARISON_FILE, found)
        artifacts = ArtifactRequests(self.scheduler, self.output, self.limit_s)
        seen = {
            arm.name: [{key: row[key] for key in ("step", "splits") if key in row} for row in self._rows[arm]]
            for arm in arms(self.settings)
        }
        held_out = self.settings.claims.held_out_mode
        shown = [row for row in found["rates"] if row["mode"] == held_out]
        artifacts.request_plots("route", ROUTE_PLOTS, {"rates": shown, "held_out": held_out, "rows": seen})
        artifacts.wait(DRAWING_S)
        self.output.write(REPORT_FILE, report_text(self.output.path))
        self.session.report(self.progress(is_finished=True))

    def _watch(self) -> None:
        self.session.report_sometimes(self.progress)

    def _end_training(self, arm: Arm, result: Result) -> None:
        """Keep rows and checkpoint, and have all that is deployed evaluated."""
        job = self._trainings[arm]
        data = self.store.checkpoint(self.run_id, train_checkpoint(job))
        if data is None:  # another run has computed it, and its checkpoint has expired
            raise LookupError(f"the store has the result of {arm.name} and not its checkpoint")
        self.output.write(checkpoint_file(arm), data)
        self.output.write(rows_file(arm), json_lines(result["rows"]))
        self._rows[arm] = list(result["rows"])
        for row in result["rows"]:
            for event in row["events"]:
                log.info("%s, step %d: %s", arm.name, row["step"], event)
        deployed = deployments(self.settings, arm)
        evaluation = evaluate_job(self.inputs, deployed, job, result["sha256"], self.limit_s)
        self._evaluations[arm] = evaluation
        self.scheduler.submit(OfArm(*evaluation, arm, tuple(deployed)), self.journal)

    def _records(self) -> list[EvaluatedDeployment]:
        """All evaluations so far, in the order of the settings."""
        found = []
        for arm in arms(self.settings):
            for each in deployments(self.settings, arm):
                if (result := self._evaluated.get(each)) is not None:
                    what = (arm.trajectory, arm.seed, each.deployed, each.mode, each.quarantine)
                    found.append(EvaluatedDeployment(*what, result["solved"], result["hacked"]))
        return found

    def progress(self, *, is_finished: bool = False) -> ProgressFile:
        steps = self.settings.training.steps
        found = arms(self.settings)
        return ProgressFile(
            done=sum(steps if arm in self._rows else self._done("train", self._trainings.get(arm)) for arm in found),
            total=steps * len(found),
            is_finished=is_finished,
            figures={
                "evaluations": float(sum(self._answered(arm) for arm in found)),
                "evaluations_total": float(sum(len(deployments(self.settings, arm)) for arm in found)),
                **{"real_hack": self._hack(REAL), "none_hack": self._hack(NONE)},
            },
        )

    def _answered(self, arm: Arm) -> int:
        """How much of an arm is evaluated."""
        deployed = deployments(self.settings, arm)
        if deployed[0] in self._evaluated:
            return len(deployed)
        return self._done("evaluate", self._evaluations.get(arm))

    def _done(self, stage: str, job: RouteJob | None) -> int:
        """The steps or evaluations of a job under way."""
        said = json.loads(self.store.metadata(self.run_id, progress_field(job[0])) or "{}") if job else {}
        return int(said["done"]) if said.get("stage") == stage else 0

    def _hack(self, deployed: str) -> float | None:
        """The hack rate of the held-out mode, over the seeds that are evaluated."""
        wanted = (SHARED, deployed, self.settings.claims.held_out_mode)
        found = [each.hacked for each in self._records() if (each.trajectory, each.deployed, each.mode) == wanted]
        samples = "".join(found)
        return samples.count("1") / len(samples) if samples else None


def route_inputs(settings: RouteSettings, texts: dict[str, str]) -> RouteInputs:
    return RouteInputs(
        target=_target(settings),
        data={name: data_key(text) for name, text in texts.items()},
        model=dataclasses.asdict(settings.model),
        training=dataclasses.asdict(settings.training),
        routing=dataclasses.asdict(settings.routing),
        evaluation=dataclasses.asdict(settings.evaluation),
    )


def _target(settings: RouteSettings) -> records.Target:
    model = settings.model
    return records.Target(
        model=model.model_name_or_path,
        engine="embedded" if model.model_name_or_path == EMBEDDED else "sglang",
        device=model.device,
        sampling=records.Sampling(settings.training.max_new_tokens, 1.0, 1.0, 0),
    )
