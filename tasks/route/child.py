"""`python -m tasks.route.child bases|train|evaluate`: one job, given as JSON on stdin (tasks/common/child.py).

That is the bases of a model, the steps of one trajectory, or the evaluations of what it deploys.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from tasks.common.child import SendReport, work_as_child
from tasks.common.files import write_atomic
from tasks.gpu.prompt import answer_ends, template_notes
from tasks.route.adapter import Adapter, bases_of, weights_hash
from tasks.route.grading import Grader
from tasks.route.policy import Policy, draw_by_row, load_causal_lm
from tasks.route.problems import EVALUATION, parse_data
from tasks.route.state import Adam, TrajectorySettings, deployed_knobs, load_state
from tasks.route.trajectory import Trajectory
from tasks.route.world import ChatCodec, ProgramsWorld, Score

ROWS_AT_ONCE = 8
EVALUATED_ROWS = 512
"""Sampled together."""
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
Given = Mapping[str, Any]
"""What `tasks/route/jobs.py` gives: a job's arguments, and what the worker adds."""


def open_world(given: Given, report: SendReport) -> tuple[Policy, ProgramsWorld, ProgramsWorld]:
    """The model under its adapter, and the worlds of training and of evaluation."""
    from transformers import AutoTokenizer

    inputs, folder = given["inputs"], Path(given["model_folder"])
    model, device = inputs["model"], inputs["target"]["device"]
    if device == "cpu":
        torch.set_num_threads(1)  # as many children as slots share the processor, and sums do not depend on threads
    if model["deterministic"]:  # read when CUDA's library of matrices is first used
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    tokenizer = AutoTokenizer.from_pretrained(given["model_folder"], trust_remote_code=False)
    network = load_causal_lm(folder, device, _DTYPES[model["dtype"]], answer_ends(tokenizer))
    bases = bases_of(
        network,
        model["targets"],
        Path(given["bases_folder"]),
        lambda done, total: report(stage="bases", done=done, total=total),
    )
    policy = Policy(network, Adapter(network, bases), ROWS_AT_ONCE, deterministic=model["deterministic"])
    problems, pairs, placebo = parse_data(given["data"])
    asking = (inputs["training"], ChatCodec(tokenizer), Grader(), problems)
    trained = ProgramsWorld(*asking, pairs, placebo, given["teacher"])
    return policy, trained, ProgramsWorld(*asking, markers=EVALUATION)


def find_bases(given: Given, report: SendReport) -> dict[str, Any]:
    policy, world, _ = open_world(given, report)
    layout = policy.adapter.layout
    return {
        "template": template_notes(world.codec.tokenizer),
        "weights": weights_hash(policy.model),
        "modules": len(layout.sizes),
        "knobs": layout.total,
    }


def run_trajectory(given: Given, report: SendReport) -> dict[str, Any]:
    """Every step that the checkpoint does not have yet; each `checkpoint_every` steps and the last one are kept."""
    policy, world, _ = open_world(given, report)
    training = given["inputs"]["training"]
    steps, every = training["steps"], training["checkpoint_every"]
    state = Path(given["begin"]).read_bytes() if given["begin"] else None
    trajectory = Trajectory(trajectory_settings(given), policy, world, state)
    report(stage="train", done=trajectory.state.step, total=steps)
    data = trajectory.dump()
    while (done := trajectory.state.step + 1) <= steps:
        trajectory.step()
        if done % every == 0 or done == steps:
            data = trajectory.dump()
            path = Path(given["folder"]) / f"step{done}"
            write_atomic(path, data)
            report(checkpoint=str(path))
        report(stage="train", done=done, total=steps, **_memory())
    return {"rows": list(trajectory.state.rows), "sha256": hashlib.sha256(data).hexdigest()}


def evaluate(given: Given, report: SendReport) -> dict[str, Any]:
    """The evaluations whose keys are not among `answered`; each batch is reported as soon as it is scored."""
    policy, _, world = open_world(given, report)
    inputs, asked, device = given["inputs"], given["evaluations"], policy.adapter.device
    samples, longest = inputs["evaluation"]["samples"], inputs["training"]["max_new_tokens"]
    seed = 2**32 * inputs["evaluation"]["seed"] + given["seed"]
    state, answered = load_state(Path(given["begin"]).read_bytes(), device), set(given["answered"])
    batches = evaluation_batches(asked, samples)
    missing = [batch for batch in batches if not {each["key"] for each in batch} <= answered]
    done = len(asked) - sum(map(len, missing))
    report(stage="evaluate", done=done, total=len(asked))
    for batch in missing:
        prompts = world.held_out(batch[0]["mode"], samples) * len(batch)
        deployed = [deployed_knobs(state, e["deployed"], quarantine=e["quarantine"] == "on") for e in batch]
        knobs = torch.stack(deployed).repeat_interleave(samples, dim=0)
        numbers = [*range(samples)] * len(batch)  # samples of one number have the same random numbers
        draw = draw_by_row(seed, numbers, longest, device)
        scores = world.score(prompts, policy.sample([prompt.tokens for prompt in prompts], knobs, longest, draw))
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


def _outcome(scores: Sequence[Score]) -> dict[str, str]:
    """A character a sample."""
    return {
        "solved": "".join(str(int(score.graded.oracle)) for score in scores),
        "hacked": "".join(str(int(score.graded.exploited)) for score in scores),
    }


def trajectory_settings(given: Given) -> TrajectorySettings:
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
        **{name: training[name] for name in ("teacher_off_step", "rollout_ablate_frac")},
        **{name: routing[name] for name in ("refresh_every", "reduction", "dims")},
    )


def _memory() -> dict[str, float]:
    if not torch.cuda.is_available():
        return {}
    return {"peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2)}


WORK = {"bases": find_bases, "train": run_trajectory, "evaluate": evaluate}

if __name__ == "__main__":
    given = json.load(sys.stdin)
    raise SystemExit(work_as_child(lambda report: WORK[sys.argv[1]](given, report)))
