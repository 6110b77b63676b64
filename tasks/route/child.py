"""`python -m tasks.route.child bases|train|evaluate`: one job, given as JSON on stdin (tasks/common/process.py).

That is the bases of a model, the steps of one trajectory, or the evaluations of what it deploys.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from tasks.common.files import write_atomic
from tasks.common.process import SendReport, work_as_child
from tasks.route.adapter import weights_hash
from tasks.route.splits import Adam
from tasks.route.state import TrajectorySettings, deployed_knobs, load_state
from tasks.route.trajectory import AskedSample, Trajectory, evaluate_samples
from tasks.route.world import TrainedWorld, WorldGiven, WorldScore, open_world

EVALUATED_ROWS = 512
"""Sampled together: on an H200 no more than twice as long as 64, and 17 GiB with a model of 1.5 billion weights."""
Given = Mapping[str, Any]
"""What `tasks/route/jobs.py` gives: a job's arguments, and what the worker adds."""


def find_bases(given: Given, report: SendReport) -> dict[str, Any]:
    world = _world(given, report)
    layout = world.policy.adapter.layout
    return {
        "weights": weights_hash(world.policy.model),
        "modules": len(layout.names),
        "knobs": layout.total,
        "largest_error": world.bases.largest_error,
        "computed": world.bases.computed,
    }


def run_trajectory(given: Given, report: SendReport) -> dict[str, Any]:
    """Every step that the checkpoint does not have yet; each `checkpoint_every` steps and the last one are kept."""
    world, settings, training = _world(given, report), trajectory_settings(given), given["inputs"]["training"]
    policy, steps, every = world.policy, training["steps"], training["checkpoint_every"]
    state = Path(given["begin"]).read_bytes() if given["begin"] else None
    trajectory = Trajectory(settings, policy, world.training, state)
    report(stage="train", done=trajectory.state.step, total=steps)
    data = trajectory.dump()
    while trajectory.state.step < steps:
        trajectory.step()
        done = trajectory.state.step
        if done % every == 0 or done == steps:
            data = trajectory.dump()
            path = Path(given["folder"]) / f"step{done}"
            write_atomic(path, data)
            report(checkpoint=str(path))
        report(stage="train", done=done, total=steps, **_memory())
    return {"rows": list(trajectory.state.rows), "sha256": hashlib.sha256(data).hexdigest()}


def evaluate(given: Given, report: SendReport) -> dict[str, Any]:
    """The evaluations whose keys are not among `answered`; each batch is reported as soon as it is scored."""
    world, settings, inputs = _world(given, report), trajectory_settings(given), given["inputs"]
    state = load_state(Path(given["begin"]).read_bytes(), world.policy.adapter.device)
    asked, samples = given["evaluations"], inputs["evaluation"]["samples"]
    missing = [batch for batch in evaluation_batches(asked, samples) if not _keys(batch) <= set(given["answered"])]
    done = len(asked) - sum(map(len, missing))
    report(stage="evaluate", done=done, total=len(asked))
    seed = 2**32 * inputs["evaluation"]["seed"] + given["seed"]

    def sampled() -> Iterator[list[AskedSample]]:
        for batch in missing:
            prompts = world.evaluation.held_out(batch[0]["mode"], samples)
            knobs = [deployed_knobs(state, e["deployed"], quarantine=e["quarantine"] == "on") for e in batch]
            yield [AskedSample(prompt, each, number) for each in knobs for number, prompt in enumerate(prompts)]

    scored = evaluate_samples(world.policy, world.evaluation, sampled(), settings.longest, seed)
    for batch, scores in zip(missing, scored, strict=True):
        parts = (scores[place * samples : (place + 1) * samples] for place in range(len(batch)))
        report(results={each["key"]: _outcome(part) for each, part in zip(batch, parts, strict=True)})
        done += len(batch)
        report(stage="evaluate", done=done, total=len(asked), **_memory())
    return {"computed": sum(map(len, missing))}


def evaluation_batches(asked: Sequence[Given], samples: int) -> list[list[Given]]:
    """What is sampled together: evaluations of one mode, so many that their rows are at most `EVALUATED_ROWS`, or one.

    The same for what is asked, whatever of it was answered before, so that all that is computed again comes out alike.
    """
    many = max(1, EVALUATED_ROWS // samples)
    by_mode = [list(same) for _, same in groupby(asked, key=lambda each: each["mode"])]
    return [same[start : start + many] for same in by_mode for start in range(0, len(same), many)]


def _keys(batch: Sequence[Given]) -> set[str]:
    return {each["key"] for each in batch}


def _outcome(scores: Sequence[WorldScore]) -> dict[str, str]:
    """A character for each sample."""
    columns = {"solved": "oracle", "hacked": "exploited"}
    return {name: "".join("1" if s.log[column] else "0" for s in scores) for name, column in columns.items()}


def trajectory_settings(given: Given) -> TrajectorySettings:
    """The settings of the trajectory that a job trains."""
    training, routing = given["inputs"]["training"], given["inputs"]["routing"]
    splits = {"shared": tuple(routing["splits"]), "plain": (), "erase": (), "ablated": ("real",)}[given["trajectory"]]
    return TrajectorySettings(
        seed=given["seed"],
        longest=training["max_new_tokens"],
        splits=splits,
        kind="erase" if given["trajectory"] == "erase" else "shared",
        adam=Adam(rate=training["learning_rate"], decay=training["decay"], largest_norm=training["clip_norm"]),
        group_size=training["group"],
        beta=training["kl"],
        teacher_off_step=training["teacher_off_step"],
        refresh_every=routing["refresh_every"],
        rollout_ablate_frac=training["rollout_ablate_frac"],
        reduction=routing["reduction"],
        dims=routing["dims"],
    )


def _memory() -> dict[str, float]:
    """The most that tensors have taken of a GPU so far, GiB."""
    if not torch.cuda.is_available():
        return {}
    return {"peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2)}


def _world(given: Given, report: SendReport) -> TrainedWorld:
    inputs = given["inputs"]
    if inputs["target"]["device"] == "cpu":
        torch.set_num_threads(1)  # as many children as slots share the processor, and sums do not depend on threads
    return open_world(
        inputs["world"],
        WorldGiven(
            model=inputs["model"],
            training=inputs["training"],
            data=given["data"],
            teacher=given["teacher"],
            model_folder=given["model_folder"],
            bases_folder=Path(given["bases_folder"]),
            device=inputs["target"]["device"],
            on_module=lambda done, total: report(stage="bases", done=done, total=total),
        ),
    )


WORK = {"bases": find_bases, "train": run_trajectory, "evaluate": evaluate}

if __name__ == "__main__":
    given = json.load(sys.stdin)
    raise SystemExit(work_as_child(lambda report: WORK[sys.argv[1]](given, report)))
