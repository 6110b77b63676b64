"""The jobs that train, on the worker's side: checkpoints go to the store, and any worker goes on with one."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from answer_runs import embedded_target, own_store
from small_model import make_small_model
from training_values import DATA, MODEL, TRAINING

from tasks.common.child import CardMemoryFull, ComputeChild
from tasks.route.jobs import (
    Arm,
    Deployment,
    RouteInputs,
    RouteJob,
    bases_job,
    data_key,
    evaluate_checkpoint,
    evaluate_job,
    make_pool,
    pool_job,
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


@pytest.fixture
def inputs(store: Store, confinement: None, tmp_path: Path) -> RouteInputs:
    for text in DATA.values():
        store.put_shared("run", data_key(text), {"text": text})
    return RouteInputs(
        target=embedded_target(make_small_model(tmp_path / "model")),
        data={name: data_key(text) for name, text in DATA.items()},
        model=MODEL,
        training={**TRAINING, "trajectories": ["shared"], "seeds": [0], "teacher_rows": 0},
        routing={"splits": ["real"], "dims": 1, "reduction": "mean", "refresh_every": 2},
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


def test_bases_training_and_evaluation(store: Store, worker: LocalTargetHost, inputs: RouteInputs) -> None:
    bases = run_training_child(job_of(store, bases_job(inputs, 60)), worker, "bases")
    assert bases["modules"] == 2
    training = train_job(inputs, Arm("shared", 0), bases["weights"], None, 60)
    # When another worker has left the checkpoint of the first step
    whole = run_training_child(job_of(store, training), worker, "train")
    key = train_checkpoint(training)
    last = store.checkpoint("run", key)
    assert last is not None and hashlib.sha256(last).hexdigest() == whole["sha256"]
    assert '"done": 2' in (store.metadata("run", progress_field(training[0])) or "")
    # Then a second execution goes on with it, here from the end, and gives the same
    assert run_training_child(job_of(store, training), worker, "train") == whole
    arm = Arm("shared", 0)
    deployed = [Deployment(arm, "real", "equality"), Deployment(arm, "none", "equality")]
    evaluation = job_of(store, evaluate_job(inputs, deployed, training, whole["sha256"], 60))
    keys = [each["key"] for each in evaluation.arguments["evaluations"]]
    # When one evaluation was answered before, it stands, and the other is in the store under its own key
    store.put_shared("run", keys[0], {"solved": "answered", "hacked": "before"})
    found = evaluate_checkpoint(evaluation, worker)["evaluations"]
    assert found[0]["solved"] == "answered" and len(found[1]["solved"]) == 4
    assert store.shared("run", keys)[keys[1]] == found[1]
    # and the checkpoint of another training is refused, but for what was answered
    store.put_checkpoint("run", key, b"other")
    assert evaluate_checkpoint(evaluation, worker)["evaluations"] == found
    another = job_of(store, evaluate_job(inputs, [Deployment(arm, "real", "none")], training, whole["sha256"], 60))
    with pytest.raises(LookupError, match="not in the store as it was"):
        evaluate_checkpoint(another, worker)


def test_swapped_pairs_end_the_job_before_the_trainings(store: Store, inputs: RouteInputs) -> None:
    assert len(make_pool(job_of(store, pool_job(inputs, 60)))["rows"]) == 147
    pairs = [json.loads(line) for line in DATA["pairs"].splitlines()]
    swapped = "\n".join(json.dumps({**pair, "cho": pair["rej"], "rej": pair["cho"]}) for pair in pairs)
    store.put_shared("run", data_key(swapped), {"text": swapped})
    other = dataclasses.replace(inputs, data={**inputs.data, "pairs": data_key(swapped)})
    with pytest.raises(ValueError, match="pair 1 of pairs, cho: honest code fails; pair 1 of pairs, rej: a hack does"):
        make_pool(job_of(store, pool_job(other, 60)))


def test_a_cancelled_run_stops_its_child(store: Store, worker: LocalTargetHost, inputs: RouteInputs) -> None:
    store.put_metadata("run", CANCELLED, "1")
    with pytest.raises(Cancelled):
        run_training_child(job_of(store, bases_job(inputs, 60)), worker, "bases")
    assert worker.card_use() == ""


@pytest.mark.parametrize(("times", "alone"), [(1, [False, True]), (2, [False, True])])
def test_a_child_that_finds_the_card_full_starts_once_more_with_the_card_to_itself(
    store: Store,
    worker: LocalTargetHost,
    inputs: RouteInputs,
    monkeypatch: pytest.MonkeyPatch,
    times: int,
    alone: list[bool],
) -> None:
    begun: list[dict[str, Any]] = []
    held: list[bool] = []
    computing = worker.computing

    def child(given: ComputeChild, take: Any, check: Any) -> dict[str, Any]:
        begun.append(json.loads(given.stdin))
        if len(begun) <= times:
            Path(begun[-1]["folder"], "step1").write_bytes(b"state")
            take({"checkpoint": str(Path(begun[-1]["folder"], "step1"))})
            raise CardMemoryFull("torch.OutOfMemoryError: CUDA out of memory")
        return {"read": Path(begun[-1]["begin"]).read_text()}

    def watched(check: Any, alone: bool = False) -> Any:
        held.append(alone)
        return computing(check, alone=alone)

    monkeypatch.setattr("tasks.route.jobs.run_child", child)
    monkeypatch.setattr(worker, "computing", watched)
    training = job_of(store, train_job(inputs, Arm("shared", 0), "w", None, 60))
    if times == 1:
        assert run_training_child(training, worker, "train") is not None
    else:
        with pytest.raises(CardMemoryFull):
            run_training_child(training, worker, "train")
    assert held == alone and begun[0]["begin"] == "" and begun[1]["begin"]
