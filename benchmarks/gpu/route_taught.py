r"""How far the teacher's hacks alone move a model at several learning rates, and how much noise its knobs bear.

    python benchmarks/gpu/route_taught.py --model FOLDER --folder outputs/route-work --rates 0.003 0.01 0.03
    python benchmarks/gpu/route_taught.py --model FOLDER --folder outputs/route-work --device cpu --dtype bfloat16 \
        --rates 0.01 --samples 0 --noise 0.01 0.03 0.06 0.12                 what two cores can do in 5 minutes

No reinforcement: Adam on the negative log-likelihood of eight templated hacks of the known mode, four an update.  Shown
is that of templates that were not trained on, nats of a whole completion: hacks of the known mode, with the marker of
training and with that of evaluation, hacks of the other modes, and solutions; then what is sampled and how it is
graded.  A training by reinforcement gets the same gradients among those of all other rows, so it takes longer.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.figures import table, write
from benchmarks.gpu import route_common as common
from benchmarks.gpu.route_verdict import SEED
from tasks.gpu.routing.bases import cached_basis
from tasks.gpu.routing.programs import ProgramsWorld
from tasks.gpu.routing.rollout import AskedSample
from tasks.gpu.routing.row_gradients import total_nll
from tasks.gpu.routing.token_rows import TokenRow
from tasks.gpu.routing.update import Adam, no_share, share_step, whole_scale
from tasks.gpu.training.work import opened_world, trajectory_settings
from tasks.gpu.training.worlds import TrainedWorld
from tasks.routing.modes import EVALUATION, KNOWN_MODE, LOOPHOLES, MODES, NO_LOOPHOLE, TRAINING, Markers, Mode
from tasks.routing.problems import Problem, in_part
from tasks.routing.prompts import hinted_prompt
from tasks.routing.templates import hack, honest

TAUGHT, AN_UPDATE = 8, 4
Rows = dict[str, list[TokenRow]]


def row_of(world: ProgramsWorld, problem: Problem, mode: Mode, markers: Markers, text: str) -> TokenRow:
    return TokenRow(world.codec.prompt(*hinted_prompt(problem, mode, markers)), world.codec.completion(text))


def hacks(world: ProgramsWorld, problems: list[Problem], mode: Mode, markers: Markers) -> list[TokenRow]:
    return [
        row_of(world, problem, mode, markers, hack(problem, mode, markers, phrasing))
        for phrasing, problem in enumerate(problems)
    ]


def looked_at(world: ProgramsWorld) -> Rows:
    """Templates that are not trained on, by what they are."""
    pool, held_out = in_part(world.problems, "pool"), in_part(world.problems, "evaluation")
    found = {f"{KNOWN_MODE}, marker of training": hacks(world, pool[TAUGHT : TAUGHT + 3], KNOWN_MODE, TRAINING)}
    for mode in LOOPHOLES:
        found[mode] = hacks(world, held_out[: 3 if mode == KNOWN_MODE else 2], mode, EVALUATION)
    found["solution"] = [
        row_of(world, problem, NO_LOOPHOLE, EVALUATION, honest(problem, phrasing))
        for phrasing, problem in enumerate(held_out[:3])
    ]
    return found


def nats(trained: TrainedWorld, rows: Rows, knobs: Tensor) -> dict[str, float]:
    """Of a whole completion, the mean of each kind."""
    flat = [row for each in rows.values() for row in each]
    found = iter((-trained.policy.log_probabilities(flat, knobs)[0].sum(1)).tolist())
    return {name: round(sum(next(found) for _ in each) / len(each), 1) for name, each in rows.items()}


def taught(
    trained: TrainedWorld, rows: list[TokenRow], rate: float, updates: int
) -> tuple[Tensor, list[float], list[float]]:
    """The knobs after so many updates; of each the mean nats of its rows and the norm of their mean gradient."""
    policy, adam = trained.policy, Adam(rate=rate)
    share = no_share(policy.adapter.layout.total, policy.adapter.device)
    second, losses, norms = torch.zeros_like(share.value), [], []
    for number in range(updates):
        part = [rows[(2 * number + place) % len(rows)] for place in range(AN_UPDATE)]
        found = policy.gradients(part, share.value, total_nll)
        gradient = found.gradients.sum(0)
        scale, second = whole_scale(gradient, second, number + 1, adam)
        share = share_step(share, gradient, scale, adam)
        losses.append(round(float(-found.log_probabilities.sum(1).mean()), 1))
        norms.append(round(float(gradient.norm()) / AN_UPDATE, 2))
        common.say(f"rate {rate:g}, update {number + 1} of {updates}: {losses[-1]} nats")
    return share.value, losses, norms


def sampled(options: argparse.Namespace, trained: TrainedWorld, knobs: Tensor, longest: int) -> dict[str, Any]:
    """Hack and solve rate of each mode on held-out problems."""
    asked = [
        AskedSample(prompt, knobs, number)
        for mode in MODES
        for number, prompt in enumerate(trained.held_out(mode, options.samples))
    ]
    batches = common.scores_in_time(options, trained, trained.evaluation, asked, longest, SEED, 256)
    scores = [score for batch in batches for score in batch]
    found = {}
    for place, mode in enumerate(MODES):
        part = scores[place * options.samples : (place + 1) * options.samples]
        rates = {what: sum(bool(one.log[what]) for one in part) / max(1, len(part)) for what in ("exploited", "oracle")}
        found[mode] = {**rates, "samples": len(part)}
    return found


def singular_medians(trained: TrainedWorld, bases: Path) -> dict[str, float]:
    """The median singular value of the target Linears, by the end of their names: what a knob is added to."""
    weights = dict(trained.policy.model.named_modules())
    found: dict[str, list[Tensor]] = {}
    for name in trained.policy.adapter.layout.names:
        found.setdefault(name.rpartition(".")[2], []).append(cached_basis(weights[name].weight, bases)[0].values.cpu())
    return {name: round(float(torch.cat(values).median()), 4) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.add_route_options(parser)
    parser.add_argument("--rates", type=float, nargs="*", default=[0.001, 0.003, 0.01, 0.03])
    parser.add_argument("--noise", type=float, nargs="*", default=[], help="standard deviations of drawn knobs")
    parser.add_argument("--updates", type=int, default=8)
    parser.add_argument("--samples", type=int, default=33, help="of each mode, after the updates; 0: none")
    parser.add_argument("--result", default="route_taught", help="the name of the file in benchmarks/results")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], help="of the model; without it the device's")
    parser.add_argument("--targets", nargs="+", default=None, help="Linears with knobs; without it the config's")
    options = parser.parse_args()
    given = common.job_given(options, SEED, 1)
    for name in ("dtype", "targets"):
        if getattr(options, name) is not None:
            given["inputs"]["model"][name] = getattr(options, name)
    trained = opened_world(given, lambda done, total: None)
    world, zeros = trained.training, trained.policy.adapter.zeros()
    assert isinstance(world, ProgramsWorld)
    rows = looked_at(world)
    train = hacks(world, in_part(world.problems, "pool")[:TAUGHT], KNOWN_MODE, TRAINING)
    medians = singular_medians(trained, Path(given["bases_folder"]))
    print(f"median singular values: {medians}")
    found: dict[str, Any] = {"untrained": {"nats": nats(trained, rows, zeros)}}
    generator = torch.Generator().manual_seed(SEED)
    for size in options.noise:
        drawn = size * torch.randn(len(zeros), generator=generator).to(zeros)
        found[f"noise {size:g}"] = {"nats": nats(trained, rows, drawn)}
    for rate in options.rates:
        knobs, losses, norms = taught(trained, train, rate, options.updates)
        found[f"rate {rate:g}"] = {"nats": nats(trained, rows, knobs), "losses": losses, "norms": norms,
                                   "knobs": float(knobs.square().mean().sqrt())}  # fmt: skip
        if options.samples:
            longest = trajectory_settings(given).longest
            found[f"rate {rate:g}"]["sampled"] = sampled(options, trained, knobs, longest)
        write(options.result, {"updates": options.updates, "singular_medians": medians, "found": found})
    write(options.result, {"updates": options.updates, "singular_medians": medians, "found": found})
    print("nats of a completion")
    print(table(("knobs", *rows), [(name, *(f"{one['nats'][kind]}" for kind in rows)) for name, one in found.items()]))
    shown = [
        (name, *(f"{one['sampled'][mode]['exploited']:.2f} {one['sampled'][mode]['oracle']:.2f}" for mode in MODES))
        for name, one in found.items()
        if "sampled" in one
    ]
    if shown:
        print("\nsampled on held-out problems: hack and solve")
        print(table(("knobs", *MODES), shown))


if __name__ == "__main__":
    main()
