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
import torch
from answer_runs import embedded_target, own_store
from small_model import make_small_model
from training_values import DATA, MODEL, TRAINING, given_values

from tasks.common.child import CardMemoryFull, ComputeChild
from tasks.records import Sampling, Target
from tasks.route.child import evaluate, evaluation_batches, find_bases, run_trajectory, trajectory_settings
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

TARGET = Target(
    model="m", engine="sglang", lifecycle="resident", url="", command="", args="", device="cpu", dtype="auto",
    ready_timeout_s=10, request_timeout_s=10, concurrency=1, system_prompt="", prompt_template="{context}{query}",
    sampling=Sampling(4, 0.0, 1.0, 7),
)  # fmt: skip


KEYED = {
    "trajectories": ["shared", "ablated"], "seeds": [0], "steps": 4, "checkpoint_every": 2, "max_new_tokens": 4,
    "rollout_ablate_frac": 0.25, "plain_share": 0.25, "teacher_rows": 2,
}  # fmt: skip


INPUTS = RouteInputs(TARGET, {"pairs": data_key("x")}, {"targets": ["q"]}, KEYED, {"dims": 1}, {})


SHARED = Arm("shared", 0)


def trained(arm: Arm = SHARED, weights: str = "w", pool: str | None = None, **changes: Any) -> RouteJob:
    return train_job(dataclasses.replace(INPUTS, **changes), arm, weights, pool, 60.0)


def test_a_training_has_another_key_where_its_result_would_be_another() -> None:
    keys = {
        job[0]
        for job in (
            trained(),
            trained(Arm("shared", 1)),
            trained(Arm("erase", 0)),
            trained(weights="other"),
            trained(pool="routepool:1"),
            trained(data={"pairs": data_key("y")}),
            trained(training={**KEYED, "steps": 5}),
            trained(routing={"dims": 2}),
            trained(model={"targets": ["k"]}),
        )
    }
    assert len(keys) == 9


def test_a_plain_trajectory_has_no_loophole_and_no_teacher() -> None:
    plain = Arm("plain", 0)
    given = trained(plain)[1].arguments["inputs"]["training"]
    assert (given["plain_share"], given["teacher_rows"]) == (1.0, 0)
    for changes in ({"plain_share": 0.5}, {"teacher_rows": 4}):
        assert trained(plain, training={**KEYED, **changes})[0] == trained(plain)[0]
        assert trained(training={**KEYED, **changes})[0] != trained()[0]


def test_an_evaluation_is_of_one_checkpoint_deployment_and_mode() -> None:
    inputs = dataclasses.replace(INPUTS, evaluation={"samples": 3, "seed": 0, "modes": ["A", "B"]})

    def job(*changed: dict[str, str], sha256: str = "s") -> RouteJob:
        deployed = [Deployment(SHARED, **{"deployed": "real", "mode": "B", **each}) for each in changed]  # type: ignore[arg-type]
        return evaluate_job(inputs, deployed, trained(), sha256, 60.0)

    def keys(made: RouteJob) -> list[str]:
        return [each["key"] for each in made[1].arguments["evaluations"]]

    each: list[dict[str, str]] = [{}, {"deployed": "none"}, {"mode": "A"}, {"quarantine": "on"}]
    together = job(*each)
    assert len({*keys(together), *keys(job({}, sha256="t"))}) == 5
    # the same key wherever it is asked, and another job for other evaluations
    assert keys(together) == [key for one in each for key in keys(job(one))]
    assert len({together[0], *(job(one)[0] for one in each)}) == 5 and together[1].label == "shared_seed0/evaluate"
    assert train_checkpoint(trained()).partition(":")[2] == trained()[0].partition(":")[2]


@pytest.fixture(autouse=True)
def threads() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def ignore(**values: Any) -> None:
    """Nobody listens."""


@pytest.mark.long
def test_a_training_that_goes_on_ends_with_the_same_bytes_and_is_evaluated(confinement: None, tmp_path: Path) -> None:
    # Given the bases, which are computed once
    given = given_values(tmp_path)
    found = [find_bases(given, ignore) for _ in range(2)]
    assert found[0] == found[1] and found[0]["modules"] == len(list(tmp_path.glob("*.safetensors"))) == 2
    # When a training goes on with its first checkpoint
    told: list[dict[str, Any]] = []
    whole = run_trajectory(given, lambda **values: told.append(values))
    checkpoints = [values["checkpoint"] for values in told if "checkpoint" in values]
    assert [Path(path).name for path in checkpoints] == ["step1", "step2"]
    again = run_trajectory({**given, "begin": checkpoints[0]}, ignore)
    # Then all is as in the undisturbed one
    assert json.dumps(again) == json.dumps(whole)
    assert hashlib.sha256(Path(checkpoints[1]).read_bytes()).hexdigest() == whole["sha256"]
    assert [(row["step"], row["teacher_rows"] > 0, row["live_rows"] > 0) for row in whole["rows"]] == [
        (0, True, True),
        (1, False, False),
    ]
    # and an evaluation computes again only the batches of which something is missing
    asked = [
        {"key": f"{name}/{mode}/{on}", "deployed": name, "mode": mode, "quarantine": on}
        for mode in ("equality", "none")
        for name, on in (("real", "off"), ("untrained", "off"), ("real", "on"))
    ]
    begun = {**given, "begin": checkpoints[1], "evaluations": asked}
    for answered, rest in (([], 6), (["real/equality/off", "untrained/equality/off", "real/equality/on"], 3)):
        told.clear()
        evaluate({**begun, "answered": answered}, lambda **values: told.append(values))
        found = [values["results"] for values in told if "results" in values]
        results = {key: value for part in found for key, value in part.items()}
        assert list(results) == [each["key"] for each in asked[6 - rest :]]
        assert set(map(str, results.values())) == {str({"solved": "000", "hacked": "000"})}  # they write no program


def test_what_is_sampled_together_has_one_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.route.child.EVALUATED_ROWS", 16)
    asked = [{"key": f"{mode}{number}", "mode": mode} for mode in ("B", "none") for number in range(4)]
    assert [len(batch) for batch in evaluation_batches(asked, 8)] == [2, 2, 2, 2]
    assert [len(batch) for batch in evaluation_batches(asked[:5], 20)] == [1, 1, 1, 1, 1]


def test_the_settings_of_each_trajectory(tmp_path: Path) -> None:
    given = given_values(tmp_path)
    names = ("shared", "plain", "erase", "ablated")
    kinds = {name: trajectory_settings({**given, "trajectory": name}) for name in names}
    assert {name: (found.kind, found.splits) for name, found in kinds.items()} == {
        "shared": ("shared", ("real", "ceiling")),
        "plain": ("shared", ()),
        "erase": ("erase", ()),
        "ablated": ("shared", ("real",)),
    }
    assert kinds["shared"].adam.rate == 0.05


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


@pytest.mark.long
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
def test_a_cancelled_run_stops_its_child(store: Store, worker: LocalTargetHost, inputs: RouteInputs) -> None:
    store.put_metadata("run", CANCELLED, "1")
    with pytest.raises(Cancelled):
        run_training_child(job_of(store, bases_job(inputs, 60)), worker, "bases")
    assert worker.card_use() == ""


@pytest.mark.long
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
