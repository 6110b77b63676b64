"""The jobs that train, on the worker's side: checkpoints go to the store, and any worker goes on with one."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from answer_runs import embedded_target, installed_host
from training_values import TRAINING

from tasks.gpu.bases import compute_bases
from tasks.gpu.evaluate import evaluate_checkpoint
from tasks.gpu.train import train
from tasks.gpu.training.start import progress_field
from tasks.job import Job
from tasks.route.jobs import (
    Arm,
    Deployment,
    RouteInputs,
    RouteJob,
    bases_job,
    evaluate_job,
    train_checkpoint,
    train_job,
)
from tasks.store.keys import CANCELLED
from tasks.store.store import Store
from tasks.task import Cancelled
from workers.sglang.host import LocalTargetHost

pytestmark = pytest.mark.long  # each child loads torch

WORLD = str(Path(__file__).parents[4] / "benchmarks" / "route_toy.py") + ":toy_world"
INPUTS = RouteInputs(
    target=embedded_target("toy"),
    world=WORLD,
    world_source="",
    data={},
    model={"targets": ["first", "second"]},
    training={**TRAINING, "trajectories": ["shared"], "seeds": [0]},
    routing={"splits": ["real"], "dims": 1, "reduction": "mean", "refresh_every": 1},
    evaluation={"samples": 4, "seed": 0},
)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[LocalTargetHost]:
    host = LocalTargetHost(tmp_path, "gpu", dict(os.environ))
    with installed_host(host):
        yield host
    host.close()


def job_of(store: Store, made: RouteJob) -> Job:
    return Job(store, "run", made[0], made[1].arguments)


def test_bases_training_and_evaluation(store: Store, worker: LocalTargetHost) -> None:
    bases = compute_bases(job_of(store, bases_job(INPUTS, 60)))
    assert (bases["modules"], bases["computed"]) == (2, 2) and bases["largest_error"] < 1e-5
    training = train_job(INPUTS, Arm("shared", 0), bases["weights"], None, 60)
    # When another worker has left the checkpoint of the first step
    whole = train(job_of(store, training))
    key = train_checkpoint(training)
    last = store.checkpoint("run", key)
    assert last is not None and hashlib.sha256(last).hexdigest() == whole["sha256"]
    assert '"done": 2' in (store.metadata("run", progress_field(training[0])) or "")
    # Then a second execution goes on with it, here from the end, and gives the same
    assert train(job_of(store, training)) == whole
    arm = Arm("shared", 0)
    deployed = [Deployment(arm, "real", "B"), Deployment(arm, "none", "B")]
    evaluation = job_of(store, evaluate_job(INPUTS, deployed, training, whole["sha256"], 60))
    keys = [each["key"] for each in evaluation.arguments["evaluations"]]
    # When one evaluation was answered before, it stands, and the other is in the store under its own key
    store.put_shared("run", keys[0], {"solved": "answered", "hacked": "before"})
    found = evaluate_checkpoint(evaluation)["evaluations"]
    assert found[0]["solved"] == "answered" and len(found[1]["solved"]) == 4
    assert store.shared("run", keys)[keys[1]] == found[1]
    # and the checkpoint of another training is refused, but for what was answered
    store.put_checkpoint("run", key, b"other")
    assert evaluate_checkpoint(evaluation)["evaluations"] == found
    another = job_of(store, evaluate_job(INPUTS, [Deployment(arm, "real", "none")], training, whole["sha256"], 60))
    with pytest.raises(LookupError, match="not in the store as it was"):
        evaluate_checkpoint(another)


def test_a_cancelled_run_stops_its_child(store: Store, worker: LocalTargetHost) -> None:
    store.put_metadata("run", CANCELLED, "1")
    with pytest.raises(Cancelled):
        compute_bases(job_of(store, bases_job(INPUTS, 60)))
    assert worker.card_use() == ""
