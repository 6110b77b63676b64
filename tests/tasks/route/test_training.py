"""The jobs that train: their keys, what their child does, and how any worker goes on with a checkpoint."""

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

from tasks.common.child import CardMemoryFull, ComputeChild
from tasks.route.child import evaluation_batches, trajectory_settings
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
from tasks.route.problems import KNOWN_MODE, LEVELS
from tasks.store.store import Store
from tasks.task import Job
from workers.sglang.host import LocalTargetHost

DATA = {
    name: (Path(__file__).parents[3] / "configs" / "routing" / f"{name}.jsonl").read_text()
    for name in ("problems", "pairs")
}
INPUTS = RouteInputs(
    target=embedded_target(Path("m")),
    data={name: data_key(text) for name, text in DATA.items()},
    model={"targets": ["q_proj"], "dtype": "float32", "deterministic": False},
    training={
        "trajectories": ["shared"], "seeds": [0], "steps": 2, "checkpoint_every": 1, "prompts": 2, "group": 4,
        "max_new_tokens": 4, "learning_rate": 0.05, "plain_share": 0.0, "kl": 0.0, "decay": 0.0, "clip_norm": 1.0,
        "teacher_rows": 0, "teacher_off_step": 1, "rollout_ablate_frac": 0.25, "modes": [KNOWN_MODE, "equality"],
        "levels": list(LEVELS),
    },
    routing={"splits": ["real", "ceiling"], "dims": 1, "reduction": "mean", "refresh_every": 2},
    evaluation={"samples": 4, "seed": 0},
)  # fmt: skip
SHARED = Arm("shared", 0)


def trained(arm: Arm = SHARED, weights: str = "w", pool: str | None = None, **changes: Any) -> RouteJob:
    return train_job(dataclasses.replace(INPUTS, **changes), arm, weights, pool, 60.0)


def settings(**changes: Any) -> dict[str, Any]:
    return {**INPUTS.training, **changes}


def test_a_training_has_another_key_where_its_result_would_be_another() -> None:
    jobs = [
        trained(),
        trained(Arm("shared", 1)),
        trained(Arm("erase", 0)),
        trained(weights="other"),
        trained(pool="routepool:1"),
        trained(data={"pairs": data_key("y")}),
        trained(training=settings(steps=5)),
        trained(training=settings(plain_share=0.5)),
        trained(routing={"dims": 2}),
        trained(model={"targets": ["k"]}),
    ]
    assert len({job[0] for job in jobs}) == len(jobs)
    assert trained(training=settings(seeds=[0, 1], checkpoint_every=1))[0] == trained()[0]
    # A plain trajectory has no loophole and no teacher
    plain = trained(Arm("plain", 0))
    given = plain[1].arguments["inputs"]["training"]
    assert (given["plain_share"], given["teacher_rows"]) == (1.0, 0)
    for changes in ({"plain_share": 0.5}, {"teacher_rows": 4}):
        assert trained(Arm("plain", 0), training=settings(**changes))[0] == plain[0]


def test_an_evaluation_is_of_one_checkpoint_deployment_and_mode() -> None:
    def job(*changed: dict[str, str], sha256: str = "s") -> RouteJob:
        deployed = [Deployment(SHARED, **{"deployed": "real", "mode": "B", **each}) for each in changed]
        return evaluate_job(INPUTS, deployed, trained(), sha256, 60.0)

    def keys(made: RouteJob) -> list[str]:
        return [each["key"] for each in made[1].arguments["evaluations"]]

    each: list[dict[str, str]] = [{}, {"deployed": "none"}, {"mode": "A"}, {"quarantine": "on"}]
    together = job(*each)
    assert len({*keys(together), *keys(job({}, sha256="t"))}) == 5
    # the same key wherever it is asked, and another job for other evaluations
    assert keys(together) == [key for one in each for key in keys(job(one))]
    assert len({together[0], *(job(one)[0] for one in each)}) == 5
    # and it begins with what the training has left
    assert together[1].arguments["checkpoint"] == train_checkpoint(trained())


def test_what_is_sampled_together_has_one_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.route.child.EVALUATED_ROWS", 16)
    asked = [{"key": f"{mode}{number}", "mode": mode} for mode in ("B", "none") for number in range(4)]
    assert [len(batch) for batch in evaluation_batches(asked, 8)] == [2, 2, 2, 2]
    assert [len(batch) for batch in evaluation_batches(asked[:5], 20)] == [1, 1, 1, 1, 1]


def test_the_settings_of_each_trajectory() -> None:
    names = ("shared", "plain", "erase", "ablated")
    given = {"inputs": dataclasses.asdict(INPUTS), "seed": 3}
    found = [trajectory_settings({**given, "trajectory": name}) for name in names]
    assert [each.kind for each in found] == ["shared", "shared", "erase", "shared"]
    assert [each.splits for each in found] == [("real", "ceiling"), (), (), ("real",)]
    assert {each.adam.rate for each in found} == {0.05}


@pytest.fixture
def inputs(store: Store, confinement: None, tmp_path: Path) -> RouteInputs:
    for text in DATA.values():
        store.put_shared("run", data_key(text), {"text": text})
    return dataclasses.replace(INPUTS, target=embedded_target(make_small_model(tmp_path / "model")))


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[LocalTargetHost]:
    host = LocalTargetHost(tmp_path, "gpu", dict(os.environ))
    with own_store():
        yield host
    host.close()


def job_of(store: Store, made: RouteJob) -> Job:
    return Job(store, "run", made[0], made[1].arguments)


@pytest.mark.long
def test_bases_training_and_evaluation(store: Store, worker: LocalTargetHost, inputs: RouteInputs) -> None:
    bases = run_training_child(job_of(store, bases_job(inputs, 60)), worker, "bases")
    assert (bases["modules"], bases["template"]) == (2, [])
    training = train_job(inputs, SHARED, bases["weights"], None, 60)
    whole = run_training_child(job_of(store, training), worker, "train")
    key = train_checkpoint(training)
    last = store.checkpoint("run", key)
    assert last is not None and hashlib.sha256(last).hexdigest() == whole["sha256"]
    assert '"done": 2' in (store.metadata("run", progress_field(training[0])) or "")
    # A second execution goes on with the checkpoint, here from the end, and gives the same
    assert run_training_child(job_of(store, training), worker, "train") == whole
    deployed = [Deployment(SHARED, "real", "equality"), Deployment(SHARED, "none", "equality")]
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
    another = job_of(store, evaluate_job(inputs, [Deployment(SHARED, "real", "none")], training, whole["sha256"], 60))
    with pytest.raises(LookupError, match="not in the store as it was"):
        evaluate_checkpoint(another, worker)


@pytest.mark.long
def test_swapped_pairs_end_the_job_before_the_trainings(store: Store, inputs: RouteInputs) -> None:
    assert len(make_pool(job_of(store, pool_job(inputs, 60)))["rows"]) == 147
    pairs = [json.loads(line) for line in DATA["pairs"].splitlines()]
    swapped = "\n".join(json.dumps({**pair, "cho": pair["rej"], "rej": pair["cho"]}) for pair in pairs)
    store.put_shared("run", data_key(swapped), {"text": swapped})
    other = dataclasses.replace(inputs, data={**inputs.data, "pairs": data_key(swapped)})
    with pytest.raises(ValueError, match="pair 1 of pairs, cho: honest code fails; pair 1 of pairs, rej: a hack does"):
        make_pool(job_of(store, pool_job(other, 60)))


@pytest.mark.long
@pytest.mark.parametrize("times", [1, 2])
def test_a_child_that_finds_the_card_full_starts_once_more_with_the_card_to_itself(
    store: Store, worker: LocalTargetHost, inputs: RouteInputs, monkeypatch: pytest.MonkeyPatch, times: int
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
    training = job_of(store, train_job(inputs, SHARED, "w", None, 60))
    if times == 1:
        assert run_training_child(training, worker, "train") == {"read": "state"}
    else:
        with pytest.raises(CardMemoryFull):
            run_training_child(training, worker, "train")
    assert held == [False, True] and begun[0]["begin"] == "" and begun[1]["begin"]
