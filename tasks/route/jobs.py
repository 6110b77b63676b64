"""The jobs of a `route` run: for each its content key, which covers all that determines the result, and its spec.

    bases      {"weights": hash, "modules", "knobs", "template": notes on the chat template}; once a model
    pool       {"rows": teacher rows}, graded; the pairs are graded too
    train      {"rows": one a step, "sha256": of its checkpoint}; one trajectory and seed
    evaluate   {"evaluations": [{"solved": "0110...", "hacked": likewise}, ...]}, a character a sample; one checkpoint

The state of a training is in the store under `train_checkpoint`, so that any worker goes on with it.  Each evaluation
of a checkpoint has a key of its own too, so that none is repeated.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from celery import Task, shared_task

from tasks.common.child import CardMemoryFull, ComputeChild, Report, run_child
from tasks.gpu.host import TargetHost, host_of
from tasks.records import JobSpec, Target
from tasks.route.claims import Quarantine, Trajectory
from tasks.route.grading import Grader, build_pool
from tasks.route.problems import parse_data
from tasks.store.keys import PROGRESS, content_hash
from tasks.task import Job, JobTask, raise_if_cancelled, run_job

log = logging.getLogger(__name__)
VERSION = 6  # written answers end as the chat template ends a turn
"""Of the mathematics: raised whenever equal inputs would give other results."""

RouteJob = tuple[str, JobSpec]


@dataclass(frozen=True)
class RouteInputs:
    """What all jobs of a run are given: sections of the settings; `data` has the content key of each file's text."""

    target: Target
    data: Mapping[str, str]
    model: Mapping[str, Any]
    training: Mapping[str, Any]
    routing: Mapping[str, Any]
    evaluation: Mapping[str, Any]


@dataclass(frozen=True)
class Arm:
    trajectory: Trajectory
    seed: int

    @property
    def name(self) -> str:
        return f"{self.trajectory}_seed{self.seed}"


@dataclass(frozen=True)
class Deployment:
    """What is evaluated of an arm.  `deployed`: a split, `none`, `erase`, `untrained`, or `scaled_0.25` and so on."""

    arm: Arm
    deployed: str
    mode: str
    quarantine: Quarantine = "off"


def data_key(text: str) -> str:
    return f"routedata:{content_hash(text)}"


def bases_job(inputs: RouteInputs, limit_s: float) -> RouteJob:
    key = f"routebases:{content_hash(VERSION, inputs.target.model, inputs.model)}"
    return key, JobSpec("gpu.bases", "bases", {"inputs": dataclasses.asdict(inputs)}, limit_s)


def pool_job(inputs: RouteInputs, limit_s: float) -> RouteJob:
    key = f"routepool:{content_hash(VERSION, inputs.data)}"
    return key, JobSpec("cpu.pool", "pool", {"inputs": dataclasses.asdict(inputs)}, limit_s)


def train_job(inputs: RouteInputs, arm: Arm, weights: str, pool: str | None, limit_s: float) -> RouteJob:
    """`weights` is the hash of the model's weights, `pool` the key of the teacher's rows."""
    settings = {name: value for name, value in inputs.training.items() if name not in ("trajectories", "seeds")}
    every = settings.pop("checkpoint_every")  # decides nothing
    if arm.trajectory != "ablated":
        settings["rollout_ablate_frac"] = 0.0
    if arm.trajectory == "plain":
        settings |= {"plain_share": 1.0, "teacher_rows": 0}
    determined = (VERSION, weights, inputs.model, inputs.data, pool, settings, inputs.routing)
    found = content_hash(*determined, arm.trajectory, arm.seed)
    arguments = {
        "inputs": {**dataclasses.asdict(inputs), "training": {**settings, "checkpoint_every": every}},
        "trajectory": arm.trajectory,
        "seed": arm.seed,
        "pool": pool,
        "checkpoint": f"checkpoint:{found}",
    }
    return f"routetrain:{found}", JobSpec("gpu.train", arm.name, arguments, limit_s)


def train_checkpoint(job: RouteJob) -> str:
    return str(job[1].arguments["checkpoint"])


def evaluate_job(
    inputs: RouteInputs, deployed: Sequence[Deployment], trained: RouteJob, sha256: str, limit_s: float
) -> RouteJob:
    """All that is evaluated of one arm; `sha256` is that of its checkpoint."""
    settings = {name: inputs.evaluation[name] for name in ("samples", "seed")}
    evaluations = []
    for each in deployed:
        what = {name: str(getattr(each, name)) for name in ("deployed", "mode", "quarantine")}
        found = content_hash(VERSION, trained[0], sha256, what, settings, inputs.training["max_new_tokens"])
        evaluations.append({"key": f"routeevaluate:{found}", **what})
    arguments = {**trained[1].arguments, "evaluations": evaluations, "sha256": sha256}
    key = f"routeevaluations:{content_hash(VERSION, [each['key'] for each in evaluations])}"
    return key, JobSpec("gpu.evaluate", f"{deployed[0].arm.name}/evaluate", arguments, limit_s)


def run_training_child(job: Job, host: TargetHost, work: Literal["bases", "train", "evaluate"]) -> dict[str, Any]:
    """What the child returns.  It computes on the card of this worker, which serves nobody meanwhile.

    It begins with the job's checkpoint, where the store has one; checkpoints, and results that it reports by content
    key, go into the store at once.  One that finds the card's memory full starts again, with the card to itself.
    """
    store, run, arguments = job.store, job.run, job.arguments
    checkpoint, target = arguments.get("checkpoint", ""), Target.of(arguments["inputs"]["target"])
    given = {
        **arguments,
        "data": data_of(job),
        "teacher": job.results([arguments["pool"]])[0]["rows"] if arguments.get("pool") else [],
        "model_folder": host.model_folder(target),
        "bases_folder": str(host.bases_folder()),
    }

    def check() -> None:
        raise_if_cancelled(store, run)

    def take(report: Report) -> None:
        if "checkpoint" in report:
            store.put_checkpoint(run, checkpoint, Path(report["checkpoint"]).read_bytes())
        elif "results" in report:
            for key, result in report["results"].items():
                store.put_shared(run, key, result)
        else:
            progress = json.dumps({**report, "job": job.key})
            store.put_metadata(run, PROGRESS, progress)
            store.put_metadata(run, progress_field(job.key), progress)

    def attempt() -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="whetstone-train-") as folder:
            begin = Path(folder) / "begin"
            found = store.checkpoint(run, checkpoint) if checkpoint else None
            if found is not None:
                begin.write_bytes(found)
            here = {"begin": str(begin) if found is not None else "", "folder": folder, "answered": answered(job)}
            environment = {**host.environment(target.device), "TMPDIR": folder}  # also what a kill would leave there
            stdin = json.dumps({**given, **here}).encode()
            return run_child(ComputeChild("training", "tasks.route.child", (work,), stdin, environment), take, check)

    try:
        with host.computing(check):
            return attempt()
    except CardMemoryFull as error:
        log.warning(
            "%s; it starts again when it has the card to itself (fewer GPU_SLOTS or --gpu-jobs avoid that)", error
        )
    with host.computing(check, alone=True):
        return attempt()


def data_of(job: Job) -> dict[str, str]:
    """The texts of the data files, by the names of their settings."""
    keys = job.arguments["inputs"]["data"]
    return {name: found["text"] for name, found in zip(keys, job.results(list(keys.values())), strict=True)}


def progress_field(key: str) -> str:
    """The field of a run's metadata that says how far the job with this key is, as JSON: stage, done, total."""
    return f"{PROGRESS}:{key}"


def answered(job: Job) -> list[str]:
    return list(job.store.shared(job.run, [asked["key"] for asked in job.arguments.get("evaluations", ())]))


def evaluate_checkpoint(job: Job, host: TargetHost) -> dict[str, Any]:
    """{"evaluations": the results in the order of the job}; those that the store has are not computed again."""
    keys = [asked["key"] for asked in job.arguments["evaluations"]]
    if len(answered(job)) < len(keys):
        found = job.store.checkpoint(job.run, job.arguments["checkpoint"])
        if found is None or hashlib.sha256(found).hexdigest() != job.arguments["sha256"]:
            raise LookupError(f"{job.arguments['checkpoint']} is not in the store as it was when its training ended")
        run_training_child(job, host, "evaluate")
    return {"evaluations": job.results(keys)}


def make_pool(job: Job) -> dict[str, Any]:
    """{"rows": those of `build_pool`}; the pairs are graded too, and refused where a side is not what it must be."""
    return {"rows": build_pool(*parse_data(data_of(job)), Grader())}


@shared_task(name="gpu.bases", base=JobTask, card="computes", bind=True)
def bases_task(task: Task[Any, Any], run: str, key: str, attempt: int) -> None:
    run_job((run, key, attempt), lambda job: run_training_child(job, host_of(task), "bases"))


@shared_task(name="gpu.train", base=JobTask, card="computes", bind=True)
def train_task(task: Task[Any, Any], run: str, key: str, attempt: int) -> None:
    run_job((run, key, attempt), lambda job: run_training_child(job, host_of(task), "train"))


@shared_task(name="gpu.evaluate", base=JobTask, card="computes", bind=True)
def evaluate_task(task: Task[Any, Any], run: str, key: str, attempt: int) -> None:
    run_job((run, key, attempt), lambda job: evaluate_checkpoint(job, host_of(task)))


@shared_task(name="cpu.pool", base=JobTask)
def pool_task(run: str, key: str, attempt: int) -> None:
    run_job((run, key, attempt), make_pool)
