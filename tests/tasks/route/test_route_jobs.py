"""The keys of the jobs: equal for what gives equal results, and other ones for everything else."""

from __future__ import annotations

import dataclasses
from typing import Any

from tasks.records import Sampling, Target
from tasks.route.jobs import (
    Arm,
    Deployment,
    RouteInputs,
    RouteJob,
    data_key,
    evaluate_job,
    train_checkpoint,
    train_job,
)

TARGET = Target(
    model="m", engine="sglang", lifecycle="resident", url="", command="", args="", device="cpu", dtype="auto",
    ready_timeout_s=10, request_timeout_s=10, concurrency=1, system_prompt="", prompt_template="{context}{query}",
    sampling=Sampling(4, 0.0, 1.0, 7),
)  # fmt: skip
TRAINING = {
    "trajectories": ["shared", "ablated"], "seeds": [0], "steps": 4, "checkpoint_every": 2, "max_new_tokens": 4,
    "rollout_ablate_frac": 0.25, "plain_share": 0.25, "teacher_rows": 2,
}  # fmt: skip
INPUTS = RouteInputs(TARGET, {"pairs": data_key("x")}, {"targets": ["q"]}, TRAINING, {"dims": 1}, {})
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
            trained(training={**TRAINING, "steps": 5}),
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
        assert trained(plain, training={**TRAINING, **changes})[0] == trained(plain)[0]
        assert trained(training={**TRAINING, **changes})[0] != trained()[0]


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
