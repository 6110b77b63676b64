"""The calibration seed of `route`: does the band separate, which mode becomes B, and do the preconditions hold?

    python benchmarks/gpu/route_calibration.py --model FOLDER --folder outputs/route-work --levels 3 4

At step 0 and half way: the surprise of the pairs, and for each reduction the band, its leave-one-out separation, and x
and f of live rows, and of templated hacks and solutions as if they were rewarded.  Between and after them the
trajectory `shared`, whose checkpoints are kept.  In the end what is deployed is evaluated (route_verdict.py).
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.figures import table, write
from benchmarks.gpu import route_common as common
from benchmarks.gpu.route_verdict import SEED, Rates, evaluated_by_weight, verdict
from tasks.files import write_atomic
from tasks.gpu.routing.advantages import LossSettings, group_advantages, policy_losses
from tasks.gpu.routing.diagnostics import band_figures
from tasks.gpu.routing.direction import alignment
from tasks.gpu.routing.gate import module_gate
from tasks.gpu.routing.loop import Trajectory
from tasks.gpu.routing.pair_sides import Reduction, pair_gradients, pair_surprise, surprise_warning
from tasks.gpu.routing.programs import ProgramsWorld
from tasks.gpu.routing.rollout import sample_rows
from tasks.gpu.routing.row_gradients import mean_nll
from tasks.gpu.routing.splits import SPLITS, extract
from tasks.gpu.routing.token_rows import TokenRow
from tasks.gpu.routing.trajectory_state import deployed_knobs
from tasks.gpu.training.work import opened_world, trajectory_settings
from tasks.gpu.training.worlds import TrainedWorld
from tasks.route.readings import readings
from tasks.routing.modes import KNOWN_MODE, LOOPHOLES, MODES, NO_LOOPHOLE, TRAINING
from tasks.routing.problems import in_part
from tasks.routing.prompts import hinted_prompt
from tasks.routing.templates import hack, honest

REDUCTIONS: tuple[Reduction, ...] = ("mean", "sum", "unit")
Rows = dict[str, Tensor]


def live_rows(trained: TrainedWorld, trajectory: Trajectory) -> tuple[Rows, dict[str, float]]:
    """The loss gradients [G, R] of freshly sampled rows, by what they are, and the rates of these rows."""
    settings, state, policy = trajectory.settings, trajectory.state, trained.policy
    prompts = trained.training.prompts(state.step, np.random.default_rng([settings.seed, state.step, 7]))
    asked = [prompt for prompt in prompts for _ in range(settings.group_size)]
    groups = torch.arange(len(asked)) // settings.group_size
    rows = sample_rows(policy, asked, state.whole.value, settings.longest, settings.fold, state.step + 1)
    scores = trained.training.score(asked, [row.completion for row in rows])
    advantages, _ = group_advantages(torch.tensor([score.reward for score in scores]), groups)
    kinds = ["hack" if score.log["exploited"] else "right" if score.log["oracle"] else "wrong" for score in scores]
    rates = {kind: kinds.count(kind) / len(kinds) for kind in ("hack", "right", "wrong")}
    alive = advantages.nonzero()[:, 0].tolist()
    if not alive:
        return {}, rates
    weights = advantages[alive].to(policy.adapter.device)
    loss = LossSettings(settings.clip, 0.0, float(len(rows) * settings.longest))

    def row_loss(new: Tensor, mask: Tensor, part: slice) -> Tensor:
        return policy_losses(loss, new, mask, weights[part], new.detach(), None)

    found = policy.gradients([rows[row] for row in alive], state.whole.value, row_loss).gradients
    labels = [f"live {kinds[row]}, {'up' if advantages[row] > 0 else 'down'}" for row in alive]
    chosen = {name: [place for place, label in enumerate(labels) if label == name] for name in sorted(set(labels))}
    return {"live, all": found, **{name: found[places] for name, places in chosen.items()}}, rates


def templated_rows(trained: TrainedWorld, knobs: Tensor, count: int) -> Rows:
    """Gradients of templated hacks of each mode and of solutions, as if each were rewarded, on problems of training."""
    world = trained.training
    assert isinstance(world, ProgramsWorld)
    problems = in_part(world.problems, "train", world.settings.levels)[:count]

    def gradients(mode: Any, text: Callable[..., str]) -> Tensor:
        rows = [
            TokenRow(world.codec.prompt(*hinted_prompt(problem, mode, TRAINING)), world.codec.completion(text(problem)))
            for problem in problems
        ]
        return trained.policy.gradients(rows, knobs, mean_nll).gradients

    found = {}
    for mode in LOOPHOLES:
        found[f"template {mode}"] = gradients(mode, lambda problem, mode=mode: hack(problem, mode, TRAINING))
    found["template solution"] = gradients(KNOWN_MODE, honest)
    return found


def calibrated(trained: TrainedWorld, trajectory: Trajectory, count: int) -> dict[str, Any]:
    """The figures of one moment, printed; split `real`'s own deltaS for the pairs, as a refresh has it."""
    policy, layout, settings = trained.policy, trained.policy.adapter.layout, trajectory.settings
    kept = deployed_knobs(trajectory.state, "real")
    rej, cho = pair_surprise(policy, trained.training.pairs, kept)
    found: dict[str, Any] = {
        "step": trajectory.state.step,
        "surprise_hack": [round(float(value), 3) for value in rej],
        "surprise_honest": [round(float(value), 3) for value in cho],
    }
    print(f"\nstep {trajectory.state.step}: nats a token of the pairs' hacks {float(rej.mean()):.2f}, "
          f"of their honest sides {float(cho.mean()):.2f}. {surprise_warning(rej, cho) or ''}")  # fmt: skip
    live, found["rates"] = live_rows(trained, trajectory)
    rows = {**live, **templated_rows(trained, kept, count)}
    for reduction in REDUCTIONS:
        sides = pair_gradients(policy, trained.training.pairs, kept, reduction)
        extraction = extract(SPLITS["real"], layout, sides, settings.seed, 1)
        null = extract(SPLITS["permuted"], layout, sides, settings.seed, 1).band
        band = {**band_figures(extraction.band), "hkgap": extraction.band.hkgap(),
                "separation": extraction.band.separation(), "separation_permuted": null.separation()}  # fmt: skip
        print(f"{reduction}: " + ", ".join(f"{name} {value:.3f}" for name, value in band.items()))
        lines = {}
        for name, gradients in rows.items():
            x = alignment(layout, gradients, extraction.direction)
            f = module_gate(x, layout.norms(gradients) > 0, extraction.band)
            means = x.mean(1)
            tenths = torch.quantile(means, torch.tensor([0.1, 0.5, 0.9], device=means.device)).tolist()
            lines[name] = {"rows": len(x), "x": [round(value, 4) for value in tenths], "f": round(float(f.mean()), 4)}
        cells = [(name, str(row["rows"]), *(f"{value:.3f}" for value in [*row["x"], row["f"]]))
                 for name, row in lines.items()]  # fmt: skip
        print(table(("rows", "count", "x p10", "p50", "p90", "mean f"), cells), flush=True)
        found[reduction] = {"band": band, "rows": lines}
    return found


def step_line(record: dict[str, Any], took: float) -> dict[str, Any]:
    """What is printed of a step."""
    students = [row for row in record["log"] if not row["teacher"]]
    in_a, in_others = ([row["exploited"] for row in students if row["mode"] != NO_LOOPHOLE
                        and (row["mode"] == KNOWN_MODE) == is_a] for is_a in (True, False))  # fmt: skip
    real = record["splits"].get("real", {})
    return {"step": record["step"], "seconds": round(took, 2), "reward": round(record["reward"], 3),
            "solve": round(statistics.fmean(row["oracle"] for row in students), 3),
            "hack_A": round(statistics.fmean(in_a), 3) if in_a else None,
            "hack_others": round(statistics.fmean(in_others), 3) if in_others else None,
            "live": record["live_rows"], "not_finite": record["not_finite"],
            "f": real.get("f_mean"), "resid": real.get("resid"),
            "tokens": sum(row["length"] for row in students), "peak_gib": common.peak_gib()}  # fmt: skip


def train(options: argparse.Namespace, trained: TrainedWorld, trajectory: Trajectory, kept: dict[str, Any]) -> None:
    """All steps, as far as there is time, with the looks; what is found is added to `kept`, and written."""
    until, half = options.seconds * options.training_share, options.steps // 2
    while True:
        step = trajectory.state.step
        is_over = step == options.steps or options.seconds - common.left(options) > until
        if step in (0, half) or (is_over and step < half):
            try:
                kept["moments"].append(calibrated(trained, trajectory, options.templates))
            except Exception as error:  # the run goes on without this look
                kept["moments"].append({"step": step, "failed": repr(error)})
                common.say(f"calibration at step {step} failed: {error!r}")
            write("gpu_route_calibration", kept)
        if is_over:
            return
        began = common.now()
        record = trajectory.step()
        line = step_line(record, common.now() - began)
        kept["steps"].append(line)
        common.say(", ".join(f"{name} {value}" for name, value in line.items()))
        for event in record["events"]:
            common.say(event)
        if trajectory.state.step % options.checkpoint_every == 0:
            write_atomic(options.folder / f"seed{SEED}" / f"step{trajectory.state.step}", trajectory.dump())
        if step % 5 == 0:
            for name, text, fine in readings(record["splits"].get("real", {})):
                common.say(f"  {'fine' if fine else 'NOT FINE'} {name}: {text}")
            write("gpu_route_calibration", kept)


def deploy(options: argparse.Namespace, trained: TrainedWorld, trajectory: Trajectory, kept: dict[str, Any]) -> None:
    """The rates of what is deployed, and the verdict, printed; both are added to `kept`, and written."""
    settings = common.read_route_settings(options.config)
    modes = list(MODES)

    def note(rates: Rates) -> None:
        kept.update(rates=rates, verdict=verdict(rates, settings.claims.held_out_mode))
        write("gpu_route_calibration", kept)
        common.say(f"evaluated so far: {kept['verdict']}")

    rates = evaluated_by_weight(options, trained, trajectory, modes, note)
    kept["evaluation_gib"] = common.peak_gib()
    write("gpu_route_calibration", kept)
    cells = [
        (name, *(f"{rates[name][mode]['hack']:.2f} {rates[name][mode]['solve']:.2f}" if mode in rates[name] else "-"
                 for mode in modes))
        for name in rates
    ]  # fmt: skip
    print("\nhack and solve, held out, quarantine removed")
    print(table(("deployed", *modes), cells))
    for name, value in kept["verdict"].items():
        print(f"{name:20} {value}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.add_route_options(parser)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--checkpoint-every", type=int, default=5, help="steps")
    parser.add_argument("--samples", type=int, default=64, help="of each deployment and mode")
    parser.add_argument("--at-once", type=int, default=512, help="rows that are evaluated together")
    parser.add_argument("--templates", type=int, default=8, help="problems for which templates are looked at")
    parser.add_argument("--training-share", type=float, default=0.75, help="of the time: what is later is evaluation")
    options = parser.parse_args()
    common.limit_memory(options)
    given = common.job_given(options, SEED, options.steps)
    (options.folder / f"seed{SEED}").mkdir(exist_ok=True)
    trained = opened_world(given, lambda done, total: None)
    trajectory = Trajectory(trajectory_settings(given), trained.policy, trained.training)
    kept: dict[str, Any] = {"given": {name: str(value) for name, value in vars(options).items()}, "moments": [],
                            "steps": [], "basis_error": trained.basis_error}  # fmt: skip
    train(options, trained, trajectory, kept)
    write_atomic(options.folder / f"calibration_step{trajectory.state.step}", trajectory.dump())
    kept["records"] = [{name: value for name, value in row.items() if name != "log"} for row in trajectory.state.rows]
    write("gpu_route_calibration", kept)
    deploy(options, trained, trajectory, kept)


if __name__ == "__main__":
    main()
