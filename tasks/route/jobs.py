"""The jobs of a `route` run: for each its content key, which covers all that determines the result, and its spec.

    bases      {"weights": hash, "modules", "knobs", "largest_error", "computed"}; once a model
    pool       {"rows": teacher rows}, graded; of the world `programs` alone
    train      {"rows": one a step, "checkpoint": its key, "sha256": of it}; one trajectory and seed
    evaluate   {"evaluations": [{"solved": "0110...", "hacked": likewise}, ...]}, a character a sample; one checkpoint

How far a job that trains is, is in the store under `train_checkpoint`, so that any worker goes on with it.  Each
evaluation of a checkpoint has a key of its own too, so that none is repeated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.job import JobSpec
from tasks.records import Target
from tasks.route.names import Quarantine, Trajectory
from tasks.store.keys import content_hash

VERSION = 3
"""Of the mathematics: raised whenever equal inputs would give other results."""

RouteJob = tuple[str, JobSpec]


@dataclass(frozen=True)
class RouteInputs:
    """What all jobs of a run are given.

    `data` has the content key of each file's text in the store.  `world_source` is the hash of a world's source, "" for
    `programs`.  The sections are those of the settings.
    """

    target: Target
    world: str
    world_source: str
    data: Mapping[str, str]
    model: Mapping[str, Any]
    training: Mapping[str, Any]
    routing: Mapping[str, Any]
    evaluation: Mapping[str, Any]

    def arguments(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Arm:
    """One trajectory with one seed."""

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

    @property
    def name(self) -> str:
        return f"{self.arm.name}/{self.deployed}/{self.mode}" + ("/quarantine" if self.quarantine == "on" else "")


def data_key(text: str) -> str:
    """Of a file's text in the store."""
    return f"routedata:{content_hash(text)}"


def bases_job(inputs: RouteInputs, limit_s: float) -> RouteJob:
    key = f"routebases:{content_hash(VERSION, inputs.target.model, _of_model(inputs))}"
    return key, JobSpec("gpu.bases", "bases", {"inputs": inputs.arguments()}, limit_s)


def pool_job(inputs: RouteInputs, limit_s: float) -> RouteJob:
    key = f"routepool:{content_hash(VERSION, inputs.data)}"
    return key, JobSpec("cpu.pool", "pool", {"inputs": inputs.arguments()}, limit_s)


def train_job(inputs: RouteInputs, arm: Arm, weights: str, pool: str | None, limit_s: float) -> RouteJob:
    """`weights` is the hash of the model's weights, `pool` the key of the teacher's rows."""
    settings = {name: value for name, value in inputs.training.items() if name not in ("trajectories", "seeds")}
    every = settings.pop("checkpoint_every")  # decides nothing
    if arm.trajectory != "ablated":
        settings["rollout_ablate_frac"] = 0.0
    if arm.trajectory == "plain":
        settings |= {"plain_share": 1.0, "teacher_rows": 0}
    determined = (VERSION, weights, _of_model(inputs), inputs.data, pool, settings, inputs.routing)
    found = content_hash(*determined, arm.trajectory, arm.seed)
    arguments = {
        "inputs": {**inputs.arguments(), "training": {**settings, "checkpoint_every": every}},
        "trajectory": arm.trajectory,
        "seed": arm.seed,
        "pool": pool,
        "checkpoint": f"checkpoint:{found}",
    }
    return f"routetrain:{found}", JobSpec("gpu.train", arm.name, arguments, limit_s)


def train_checkpoint(job: RouteJob) -> str:
    """The key under which the checkpoints of a training job are."""
    return str(job[1].arguments["checkpoint"])


def evaluate_job(
    inputs: RouteInputs, deployed: Sequence[Deployment], trained: RouteJob, sha256: str, limit_s: float
) -> RouteJob:
    """All that is evaluated of one arm; `sha256` is that of its checkpoint."""
    evaluations = [_evaluation(inputs, each, trained, sha256) for each in deployed]
    arguments = {**trained[1].arguments, "evaluations": evaluations, "sha256": sha256}
    key = f"routeevaluations:{content_hash(VERSION, [each['key'] for each in evaluations])}"
    return key, JobSpec("gpu.evaluate", f"{deployed[0].arm.name}/evaluate", arguments, limit_s)


def _evaluation(inputs: RouteInputs, deployment: Deployment, trained: RouteJob, sha256: str) -> dict[str, str]:
    """What is evaluated, and the content key of its result."""
    what = {name: str(getattr(deployment, name)) for name in ("deployed", "mode", "quarantine")}
    settings = {name: inputs.evaluation[name] for name in ("samples", "seed")}
    found = content_hash(VERSION, trained[0], sha256, what, settings, inputs.training["max_new_tokens"])
    return {"key": f"routeevaluate:{found}", **what}


def _of_model(inputs: RouteInputs) -> dict[str, Any]:
    return {**inputs.model, "world": inputs.world, "source": inputs.world_source}
