"""Settings of `route` tried side by side on the calibration seed, so that what is registered is measurable.

    python benchmarks/gpu/route_variants.py run --model FOLDER --folder WORK --cards 0 1 --seconds 700
    python benchmarks/gpu/route_variants.py report --folder WORK         the tables and the choice, from the files alone
    python benchmarks/gpu/route_variants.py register --folder WORK --to configs/route_registered.yaml

`run` starts a process for each variant, in turn on the cards, and says every minute where they are.  A variant trains
`none` and the splits that the preconditions and the machinery's acceptance need, and is evaluated after the steps of
--looks.  Figures are in WORK/variants as they come (NAME.json, after every step), checkpoints in WORK/NAME; the same
command goes on with both.  `register` writes the config of the variant that the rule picks (route_choice.py), with the
registered seeds, which are others.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import yaml  # noqa: E402

from benchmarks.gpu import route_common as common  # noqa: E402
from benchmarks.gpu.route_calibration import step_line  # noqa: E402
from benchmarks.gpu.route_choice import chosen_look, report, said  # noqa: E402
from benchmarks.gpu.route_tried import ALL_VARIANTS, VARIANTS  # noqa: E402
from benchmarks.gpu.route_verdict import SEED, Rates, chosen_mode, evaluated, verdict  # noqa: E402
from orchestrator.routing.settings import read_route_settings, route_settings_from  # noqa: E402
from tasks.files import write_atomic  # noqa: E402
from tasks.gpu.routing.loop import Trajectory  # noqa: E402
from tasks.gpu.training.work import opened_world, trajectory_settings  # noqa: E402
from tasks.gpu.training.worlds import TrainedWorld  # noqa: E402
from tasks.route.readings import readings  # noqa: E402
from tasks.routing.modes import KNOWN_MODE, LOOPHOLES, MODES, NO_LOOPHOLE  # noqa: E402

SPLITS = ("real", "ceiling", "uniform", "random_0", "random_1", "random_2")
PLAIN = 6
"""Solving without a loophole has to be known to a few points: so many times the samples of a mode."""
CLOSING_S = 20.0
"""Before its time is over a variant ends by itself, and keeps what it has."""


@dataclass(frozen=True)
class Kept:
    """The files of a variant."""

    folder: Path
    name: str

    @property
    def figures(self) -> Path:
        return self.folder / "variants" / f"{self.name}.json"

    @property
    def checkpoint(self) -> Path:
        return self.folder / self.name / "checkpoint"

    def read(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = json.loads(self.figures.read_text()) if self.figures.exists() else None
        return found

    def write(self, figures: Mapping[str, Any]) -> None:
        write_atomic(self.figures, json.dumps(figures).encode())


def one(options: argparse.Namespace) -> None:
    """Train and evaluate a variant, from its last checkpoint on."""
    common.limit_memory(options)
    variant = next(each for each in ALL_VARIANTS if each.name == options.name)
    given = common.job_given(options, SEED, options.steps, **variant.changed)
    kept = Kept(options.folder, variant.name)
    trained = opened_world(given, lambda done, total: None)
    settings = trajectory_settings(given)
    state = kept.checkpoint.read_bytes() if kept.checkpoint.exists() else None
    trajectory = Trajectory(settings, trained.policy, trained.training, state)
    figures = kept.read() or {
        "name": variant.name, "why": variant.why, "changed": dict(variant.changed), "seed": SEED,
        "teacher_off_step": settings.teacher_off_step, "steps": [], "readings": {}, "looks": [],
    }  # fmt: skip
    begun = trajectory.state.step
    figures["steps"] = figures["steps"][:begun]
    figures["looks"] = [look for look in figures["looks"] if look["step"] <= begun]
    common.say(f"{variant.name}: open, at step {begun} of {options.steps}")
    looked, longest = {look["step"] for look in figures["looks"]}, 0.0
    while True:
        step = trajectory.state.step
        if step in options.looks and step not in looked:
            write_atomic(kept.checkpoint, trajectory.dump())
            untrained = next((one["rates"]["untrained"] for one in figures["looks"] if "untrained" in one["rates"]), {})
            figures["looks"].append(look(options, trained, trajectory, untrained))
            kept.write(figures)
        if step == options.steps or common.left(options) < CLOSING_S + 1.5 * longest:
            break
        began = common.now()
        record = trajectory.step()
        took = common.now() - began
        longest = max(longest, took)
        figures["steps"].append(line_of(record, took))
        if step % settings.refresh_every == 0:
            found = readings(record["splits"].get("real", {}))
            figures["readings"][str(step)] = [[name, text, fine] for name, text, fine in found]
        if trajectory.state.step % options.checkpoint_every == 0:
            write_atomic(kept.checkpoint, trajectory.dump())
        kept.write(figures)
    write_atomic(kept.checkpoint, trajectory.dump())
    common.say(f"{variant.name}: ended at step {trajectory.state.step}")


def line_of(record: dict[str, Any], took: float) -> dict[str, Any]:
    """What is kept of a step: hacks of each mode's sampled rows, and solved ones without a loophole, as [of, all]."""
    students = [row for row in record["log"] if not row["teacher"]]
    modes = dict.fromkeys(row["mode"] for row in students)
    plain = [row["oracle"] for row in students if row["mode"] == NO_LOOPHOLE]
    hacks = {mode: [row["exploited"] for row in students if row["mode"] == mode] for mode in modes}
    return {
        **step_line(record, took),
        "gradient_norm": record.get("gradient_norm"),
        "hacks": {mode: [sum(rows), len(rows)] for mode, rows in hacks.items() if mode != NO_LOOPHOLE},
        "plain": [sum(plain), len(plain)],
        "events": record["events"],
    }


def look(
    options: argparse.Namespace, trained: TrainedWorld, trajectory: Trajectory, untrained: dict[str, Any]
) -> dict[str, Any]:
    """The rates that preconditions and acceptance need; `untrained` are those of an earlier look."""
    settings, step = common.read_route_settings(options.config), trajectory.state.step
    rates: Rates = {}

    def evaluate(wanted: Sequence[tuple[str, str]], samples: int) -> None:
        asked = argparse.Namespace(**{**vars(options), "samples": samples})
        for name, found in evaluated(asked, trained, trajectory, wanted).items():
            rates.setdefault(name, {}).update(found)

    evaluate([("none", mode) for mode in LOOPHOLES], options.samples)
    held_out = chosen_mode(rates)
    if held_out is not None:
        evaluate([(name, held_out) for name in trajectory.state.splits], options.samples)
    evaluate([("none", NO_LOOPHOLE)], PLAIN * options.samples)
    if untrained:
        rates["untrained"] = untrained
    else:
        evaluate([("untrained", NO_LOOPHOLE)], PLAIN * options.samples)
    found = verdict(rates, settings.claims.held_out_mode)
    common.say(f"{options.name} after {step}: {found}")
    return {"step": step, "rates": rates, "verdict": found}


def run(options: argparse.Namespace) -> None:
    """All variants, each in a process of its own; the report every minute, and at the end."""
    variants = [each for each in ALL_VARIANTS if each.name in options.variants] if options.variants else VARIANTS
    (options.folder / "variants").mkdir(parents=True, exist_ok=True)
    share = options.gib / -(-len(variants) // len(options.cards))
    started: dict[str, subprocess.Popen[bytes]] = {}
    common.job_given(options, SEED, options.steps)  # the pool, once and not in all of them at once
    for number, variant in enumerate(variants):
        log = (options.folder / "variants" / f"{variant.name}.out").open("ab")
        leashed = [sys.executable, str(ROOT / "tasks" / "die_with_parent.py"), str(os.getpid()), "9"]
        command = [sys.executable, str(Path(__file__).resolve()), "one", *passed_on(options, share)]
        card = str(options.cards[number % len(options.cards)])
        threads = str(max(1, (os.cpu_count() or 1) // len(variants)))
        started[variant.name] = subprocess.Popen(
            [*leashed, *command, "--name", variant.name],
            stdout=log, stderr=log, env={**os.environ, "CUDA_VISIBLE_DEVICES": card, "OMP_NUM_THREADS": threads},
        )  # fmt: skip
    shown = time.monotonic()
    while any(process.poll() is None for process in started.values()) and common.left(options) > 5:
        time.sleep(1)  # any of several children may end first
        if time.monotonic() - shown > 60:
            shown = time.monotonic()
            print(report(read_all(options.folder)), flush=True)
    for name, process in started.items():
        if process.poll() is None:
            common.say(f"{name}: its time is over")
            process.kill()
        process.wait()
        if process.returncode:
            log_tail = (options.folder / "variants" / f"{name}.out").read_text(errors="replace")[-1500:]
            print(f"{name} ended with {process.returncode}: {log_tail}")
    print(report(read_all(options.folder)))


def passed_on(options: argparse.Namespace, gib: float) -> list[str]:
    """The options of `run` as those of `one`."""
    left = common.left(options) - 10
    given = ["--gib", f"{gib:.1f}", "--seconds", f"{left:.0f}", "--looks", *map(str, options.looks)]
    for name in ("model", "config", "device", "folder", "steps", "samples", "at_once", "checkpoint_every"):
        given += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    for name in ("levels", "tokens", "prompts", "splits"):
        if (value := getattr(options, name)) is not None:
            given += [f"--{name}", *(map(str, value) if isinstance(value, list | tuple) else [str(value)])]
    return given


def read_all(folder: Path) -> list[dict[str, Any]]:
    """The figures of all variants that have some."""
    return [figures for variant in ALL_VARIANTS if (figures := Kept(folder, variant.name).read()) is not None]


def register(options: argparse.Namespace) -> int:
    """Write the config of the chosen variant; nothing where the rule picks none."""
    choice = chosen_look(read_all(options.folder))
    print(said(choice))
    if choice is None or (choice.score < 1 and not options.anyway):
        return 1
    settings = dataclasses.asdict(read_route_settings(options.config))
    variant = next(each for each in ALL_VARIANTS if each.name == choice.name)
    for name, value in variant.changed.items():
        section = next(part for part in ("model", "training", "routing") if name in settings[part])
        settings[section][name] = list(value) if isinstance(value, tuple) else value
    settings["training"]["steps"] = choice.step
    settings["claims"]["held_out_mode"] = choice.held_out
    needed = [KNOWN_MODE, choice.held_out, NO_LOOPHOLE]
    settings["evaluation"]["modes"] = needed if options.needed_modes else list(MODES)
    settings["output"]["run_id"] = None
    text = yaml.safe_dump(json.loads(json.dumps(settings)), sort_keys=False, width=120)
    route_settings_from(yaml.safe_load(text))
    assert SEED not in settings["training"]["seeds"], "the registered seeds are others than the calibration's"
    options.to.write_text(f"# By benchmarks/gpu/route_variants.py, {said(choice)}.\n{text}")
    print(options.to)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    forms = parser.add_subparsers(dest="form", required=True)
    for form in ("run", "one"):
        training = forms.add_parser(form, help="all variants" if form == "run" else "one variant, in this process")
        common.add_route_options(training)
        training.set_defaults(splits=SPLITS, gib=136.0)  # four on a card of 139 GiB: 34 GiB each
        training.add_argument("--steps", type=int, default=60)
        training.add_argument("--looks", type=int, nargs="+", default=[40, 60], help="after so many steps")
        training.add_argument("--samples", type=int, default=48, help="of each mode")
        training.add_argument("--at-once", type=int, default=288, help="rows that are evaluated together")
        training.add_argument("--checkpoint-every", type=int, default=5, help="steps")
        if form == "one":
            training.add_argument("--name", required=True)
        else:
            training.add_argument("--cards", type=int, nargs="+", default=[0])
            names = [each.name for each in ALL_VARIANTS]
            training.add_argument("--variants", nargs="+", default=[], choices=names, help="only these")
    for form in ("report", "register"):
        reading = forms.add_parser(form, help="of what is in the folder")
        reading.add_argument("--folder", type=Path, required=True)
        reading.add_argument("--config", type=Path, default=ROOT / "configs" / "route.yaml")
        reading.add_argument("--to", type=Path, default=ROOT / "configs" / "route_registered.yaml")
        reading.add_argument("--needed-modes", action="store_true", help="evaluate only the known mode, B, and none")
        reading.add_argument("--anyway", action="store_true", help="register the best one though the rule picks none")
    options = parser.parse_args()
    if options.form == "register":
        return register(options)
    if options.form == "report":
        print(report(read_all(options.folder)))
    else:
        (one if options.form == "one" else run)(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
