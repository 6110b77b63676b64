"""The jobs that train, on the worker's side: checkpoints go to the store, and any worker goes on with one."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from answer_runs import embedded_target, own_store
from training_values import TRAINING

from tasks.common.process import CardMemoryFull
from tasks.route.jobs import (
    Arm,
    Deployment,
    RouteInputs,
    RouteJob,
    bases_job,
    evaluate_checkpoint,
    evaluate_job,
    progress_field,
    run_training_child,
    train_checkpoint,
    train_job,
)
from tasks.store.keys import CANCELLED
from tasks.store.store import Store
from tasks.task import Cancelled, Job
from workers.sglang.host import LocalTargetHost

pytestmark = pytest.mark.long  # each child loads torch

WORLD = str(Path(__file__).parents[3] / "examples/toy_world.py") + ":toy_world"
# The toy world, which notes what is begun.  Its card is full, at step 1 or at mode "none", as often as a file says.
FULL_WORLD = """
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tasks.common.named import load_named

HERE = Path(__file__).parent


def note(what):
    with (HERE / "begun").open("a") as begun:
        begun.write(f"{what} ")
    times = int((HERE / "full").read_text())
    if what in (1, "none") and times:
        (HERE / "full").write_text(str(times - 1))
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


@dataclass(frozen=True)
class Noted:
    world: Any

    def __getattr__(self, name):
        return getattr(self.world, name)

    def prompts(self, step, generator):
        note(step)
        return self.world.prompts(step, generator)

    def held_out(self, mode, count):
        note(mode)
        return self.world.held_out(mode, count)


def world(given):
    made = load_named("WORLD", "")(given)
    return replace(made, training=Noted(made.training), evaluation=Noted(made.evaluation))
"""
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
    with own_store():
        yield host
    host.close()


def job_of(store: Store, made: RouteJob) -> Job:
    return Job(store, "run", made[0], made[1].arguments)


def test_bases_training_and_evaluation(store: Store, worker: LocalTargetHost) -> None:
    bases = run_training_child(job_of(store, bases_job(INPUTS, 60)), worker, "bases")
    assert (bases["modules"], bases["computed"]) == (2, 2) and bases["largest_error"] < 1e-5
    training = train_job(INPUTS, Arm("shared", 0), bases["weights"], None, 60)
    # When another worker has left the checkpoint of the first step
    whole = run_training_child(job_of(store, training), worker, "train")
    key = train_checkpoint(training)
    last = store.checkpoint("run", key)
    assert last is not None and hashlib.sha256(last).hexdigest() == whole["sha256"]
    assert '"done": 2' in (store.metadata("run", progress_field(training[0])) or "")
    # Then a second execution goes on with it, here from the end, and gives the same
    assert run_training_child(job_of(store, training), worker, "train") == whole
    arm = Arm("shared", 0)
    deployed = [Deployment(arm, "real", "B"), Deployment(arm, "none", "B")]
    evaluation = job_of(store, evaluate_job(INPUTS, deployed, training, whole["sha256"], 60))
    keys = [each["key"] for each in evaluation.arguments["evaluations"]]
    # When one evaluation was answered before, it stands, and the other is in the store under its own key
    store.put_shared("run", keys[0], {"solved": "answered", "hacked": "before"})
    found = evaluate_checkpoint(evaluation, worker)["evaluations"]
    assert found[0]["solved"] == "answered" and len(found[1]["solved"]) == 4
    assert store.shared("run", keys)[keys[1]] == found[1]
    # and the checkpoint of another training is refused, but for what was answered
    store.put_checkpoint("run", key, b"other")
    assert evaluate_checkpoint(evaluation, worker)["evaluations"] == found
    another = job_of(store, evaluate_job(INPUTS, [Deployment(arm, "real", "none")], training, whole["sha256"], 60))
    with pytest.raises(LookupError, match="not in the store as it was"):
        evaluate_checkpoint(another, worker)


def test_a_cancelled_run_stops_its_child(store: Store, worker: LocalTargetHost) -> None:
    store.put_metadata("run", CANCELLED, "1")
    with pytest.raises(Cancelled):
        run_training_child(job_of(store, bases_job(INPUTS, 60)), worker, "bases")
    assert worker.card_use() == ""


def test_a_child_that_finds_the_card_full_starts_again_from_its_checkpoint(
    store: Store, worker: LocalTargetHost, tmp_path: Path
) -> None:
    (tmp_path / "full.py").write_text(FULL_WORLD.replace("WORLD", WORLD))
    inputs = dataclasses.replace(INPUTS, world=f"{tmp_path}/full.py:world")
    arm, begun, full = Arm("shared", 0), tmp_path / "begun", tmp_path / "full"
    weights = run_training_child(job_of(store, bases_job(inputs, 60)), worker, "bases")["weights"]
    training, alone = (train_job(inputs, each, weights, None, 60) for each in (arm, Arm("shared", 1)))
    # When the card is full twice, the second time with this training alone on it, then it fails
    full.write_text("2")
    with pytest.raises(CardMemoryFull, match=r"^torch\.OutOfMemoryError: CUDA out of memory"):
        run_training_child(job_of(store, alone), worker, "train")
    begun.unlink()
    # When it is full once, then the training goes on from its checkpoint
    full.write_text("1")
    whole = run_training_child(job_of(store, training), worker, "train")
    assert begun.read_text().split() == ["0", "1", "1"]
    assert [row["step"] for row in whole["rows"]] == [0, 1]
    begun.unlink()
    # When an evaluation finds it full in its third batch, then what was answered by then is not asked again
    deployed = [Deployment(arm, "real", mode) for mode in ("A", "B", "none")]
    full.write_text("1")
    evaluation = evaluate_job(inputs, deployed, training, whole["sha256"], 60)
    assert len(evaluate_checkpoint(job_of(store, evaluation), worker)["evaluations"]) == 3
    assert begun.read_text().split() == ["A", "B", "none", "B", "none"]
