"""Trainings of `route` as the farm's own child processes: several seeds on one card, and one that is killed.

    python benchmarks/gpu/route_seeds.py together --seeds 1 2 3 --steps 60 --model FOLDER --folder outputs/route-work
    python benchmarks/gpu/route_seeds.py killed --seeds 1 --steps 25 --model FOLDER --folder outputs/route-work

`together` gives steps a minute and memory; what was cut is extrapolated.  `killed` trains the first seed again, kills
the child with SIGKILL between two checkpoints, lets a new one go on, and compares with the undisturbed seed: that of
`together`, or of the calibration with --seeds 100.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.figures import table, write
from benchmarks.gpu import route_common as common
from tasks.gpu.routing.checkpoint import load_state
from tasks.gpu.routing.trajectory_state import TrajectorySettings, TrajectoryState
from tasks.gpu.training.work import trajectory_settings

Figures = dict[str, Any]
# The farm's child (`python -m tasks.gpu.training`), which may take so many GiB of the card.
_CAPPED = """
import runpy, sys, torch
gib = float(sys.argv.pop(1))
if torch.cuda.is_available():
    torch.cuda.set_per_process_memory_fraction(min(1.0, gib * 2**30 / torch.cuda.mem_get_info()[1]))
runpy.run_module("tasks.gpu.training", run_name="__main__", alter_sys=True)
"""


class Training:
    """A child that trains; `reports` are its lines, each with the second at which it came."""

    def __init__(self, given: common.Given, kill_after: int | None = None) -> None:
        folder = Path(given["folder"])
        folder.mkdir(parents=True, exist_ok=True)
        self.name = folder.name
        self.reports: list[tuple[float, Figures]] = []
        self.kill_after = kill_after
        self.errors = folder / "errors.txt"
        environment = {**os.environ, "PYTHONPATH": f"{common.ROOT}:{os.environ.get('PYTHONPATH', '')}"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CAPPED, str(given["gib"]), "train"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors.open("w"),
            env=environment,
            text=True,
        )
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(given))
        self.process.stdin.close()
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            report = json.loads(line)
            self.reports.append((time.monotonic(), report))
            if report.get("stage") == "train":
                common.say(f"{self.name}: {report}")
                if self.kill_after is not None and report["done"] >= self.kill_after:
                    self.process.kill()

    def wait(self, seconds: float) -> None:
        """Until it has ended, or is killed because its time is over."""
        try:
            self.process.wait(max(1.0, seconds))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.thread.join()

    def figures(self, steps: int) -> Figures:
        done = [(at, report) for at, report in self.reports if report.get("stage") == "train"]
        found: Figures = {"name": self.name, "exit": self.process.returncode, "errors": self.errors.read_text()[-600:]}
        if len(done) < 2:
            return {**found, "steps": 0}
        taken = [round(later[0] - earlier[0], 2) for earlier, later in itertools.pairwise(done)]
        count = done[-1][1]["done"] - done[0][1]["done"]
        total = done[-1][0] - done[0][0]
        return {
            **found,
            "steps": count,
            "seconds": round(total, 1),
            "a_minute": round(60 * count / total, 2),
            "of_all_steps_minutes": round(total / count * steps / 60, 2),
            "peak_gib": done[-1][1].get("peak_gib"),
            "each": taken,
        }


def together(options: argparse.Namespace) -> None:
    trainings = []
    for seed in options.seeds:
        given = common.job_given(options, seed, options.steps)
        gib = options.gib / len(options.seeds)
        given |= {"folder": str(options.folder.resolve() / f"seed{seed}"), "gib": gib}
        trainings.append(Training(given))
    for training in trainings:
        training.wait(common.left(options))
    found = [training.figures(options.steps) for training in trainings]
    keys = ("name", "steps", "seconds", "a_minute", "of_all_steps_minutes", "peak_gib", "exit")
    print(table(keys, [[str(one.get(key)) for key in keys] for one in found]))
    for one in found:
        if one["errors"]:
            print(f"{one['name']}: {one['errors']}")
    write("gpu_route_seeds", {"seeds": found})


def killed(options: argparse.Namespace) -> None:
    seed, folder = options.seeds[0], options.folder.resolve()
    given = common.job_given(options, seed, options.steps)
    every = given["inputs"]["training"]["checkpoint_every"]
    given |= {"folder": str(folder / f"killed{seed}"), "gib": options.gib}
    first = Training(given, kill_after=every + max(1, every // 2))
    first.wait(common.left(options))
    begun = Path(given["folder"]) / f"step{every}"
    figures: Figures = {"killed": first.figures(options.steps), "exit": first.process.returncode, "from": every}
    if not begun.exists():
        figures["failed"] = "it ended before its first checkpoint"
        print(figures)
        write("gpu_route_killed", figures)
        return
    settings = trajectory_settings(given)
    undisturbed = folder / f"seed{seed}"
    figures["before_the_kill"] = differences(settings, undisturbed / f"step{every}", begun)
    resumed = Training({**given, "begin": str(begun)})
    resumed.wait(common.left(options))
    last = max((int(path.name[4:]) for path in Path(given["folder"]).glob("step*")), default=every)
    figures |= {"resumed": resumed.figures(options.steps), "to": last}
    figures["after_the_resume"] = {"compared": False, "missing": "no checkpoint after the resume"}
    if last > every:
        figures["after_the_resume"] = differences(settings, undisturbed / f"step{last}", begun.with_name(f"step{last}"))
    for name in ("before_the_kill", "after_the_resume"):
        print(f"{name}: {figures[name]}")
    write("gpu_route_killed", figures)


def differences(settings: TrajectorySettings, one: Path, other: Path) -> Figures:
    """How two checkpoints of the same step differ: bytes, knobs, and the first step whose record is another."""
    if not (one.exists() and other.exists()):
        return {"compared": False, "missing": [str(path) for path in (one, other) if not path.exists()]}
    a, b = one.read_bytes(), other.read_bytes()
    states: list[TrajectoryState] = [load_state(settings, data, torch.device("cpu")) for data in (a, b)]
    whole = [state.whole.value for state in states]
    first = next((x["step"] for x, y in zip(states[0].rows, states[1].rows, strict=True) if x != y), None)
    drawn = next((x["step"] for x, y in zip(states[0].rows, states[1].rows, strict=True) if said(x) != said(y)), None)
    return {
        "compared": True,
        "steps": states[0].step,
        "same_bytes": a == b,
        "largest_difference_of_a_knob": float((whole[0] - whole[1]).abs().max()),
        "largest_knob": float(whole[0].abs().max()),
        "first_step_with_another_record": first,
        "first_step_with_other_rows": drawn,
    }


def said(record: Any) -> list[tuple[Any, ...]]:
    """What tells the rows of a step from others: their rewards and lengths."""
    return [(row["group"], row["reward"], row["length"]) for row in record["log"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["together", "killed"])
    common.add_route_options(parser)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    (together if options.what == "together" else killed)(options)


if __name__ == "__main__":
    main()
