"""The figures of a finished `route` run: each evaluation, the rows of training by tens of steps, diagnostics, times.

    python benchmarks/gpu/route_summary.py outputs/route/RUN --tree COMMIT --device "NVIDIA H200" --log gpu.log

Reads the files in the run's folder alone; the whole goes to benchmarks/results/gpu_route_registered.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures import table, write
from orchestrator.route.registration import arms
from orchestrator.route.report import EVALUATION_FILE, read_json_lines, registration_lines, rows_file
from orchestrator.route.run import ROUTE
from tasks.route.claims import REAL
from tasks.route.jobs import Arm
from tasks.route.problems import NO_LOOPHOLE

Figures = dict[str, Any]
TEN = 10
"""Steps in a line of the table of training."""
SUCCEEDED = re.compile(r"Task gpu\.\w+\[\S+ succeeded in ([0-9.]+)s: .* child=(\S+)")


def rates_by_seed(folder: Path) -> Figures:
    """Arm -> deployed -> mode -> [solve, hack]."""
    found: Figures = defaultdict(lambda: defaultdict(dict))
    for each in read_json_lines(folder / EVALUATION_FILE):
        name = each["deployed"] + (" with its quarantine" if each["quarantine"] == "on" else "")
        rates = [round(each[column].count("1") / len(each[column]), 4) for column in ("solved", "hacked")]
        found[f"{each['trajectory']}_seed{each['seed']}"][name][each["mode"]] = rates
    return found


def training(rows: Sequence[Figures]) -> list[Figures]:
    """The figures of the sampled rows, for every ten steps."""
    return [of_steps(rows[start : start + TEN]) for start in range(0, len(rows), TEN)]


def of_steps(steps: Sequence[Figures]) -> Figures:
    """Hacks by mode and solutions without a loophole, each with the number of rows they are of."""
    sampled = [row for step in steps for row in step["log"] if not row["teacher"]]
    modes = sorted({row["mode"] for row in sampled} - {NO_LOOPHOLE})
    return {
        "from": steps[0]["step"],
        "to": steps[-1]["step"],
        "solved_without_loophole": counted(row["oracle"] for row in sampled if row["mode"] == NO_LOOPHOLE),
        "hacks": {mode: counted(row["exploited"] for row in sampled if row["mode"] == mode) for mode in modes},
        "length": round(statistics.fmean(row["length"] for row in sampled), 1),
        "not_finite": sum(step["not_finite"] for step in steps),
    }


def counted(values: Iterable[bool]) -> list[int]:
    """[how many are true, of how many]."""
    found = list(values)
    return [sum(found), len(found)]


def diagnostics(rows: Sequence[Figures]) -> Figures:
    """Of the split `real`: what each figure was at the refreshes and steps, and its events."""
    seen: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, value in row["splits"].get(REAL, {}).items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                seen[name].append(round(value, 4))
    events = [f"step {row['step']}: {event}" for row in rows for event in row["events"] if event.startswith(REAL)]
    return {"figures": seen, "events": events}


def seconds(log: Path) -> Figures:
    """Job -> seconds on the card, of the jobs that succeeded, from the log of the gpu worker."""
    return {job: round(float(took), 1) for took, job in SUCCEEDED.findall(log.read_text())}


def rates_of_seeds(found: Figures, arm_names: Sequence[str], deployed: str, mode: str) -> str:
    """solve/hack of each seed."""
    each = [found[arm][deployed][mode] for arm in arm_names]
    return " ".join(f"{solve:.2f}/{hack:.2f}" for solve, hack in each)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tree", required=True, help="the commit that ran")
    parser.add_argument("--device", required=True)
    parser.add_argument("--log", type=Path, help="of the gpu worker")
    parser.add_argument("--result", default="gpu_route_registered")
    options = parser.parse_args()
    folder: Path = options.folder
    settings, _ = ROUTE.load(folder)
    found = rates_by_seed(folder)
    all_arms: list[Arm] = arms(settings)
    rows = {arm.name: read_json_lines(folder / rows_file(arm)) for arm in all_arms}
    shared = [arm.name for arm in all_arms if arm.trajectory == "shared"]
    names = list(found[shared[0]])
    head = ("solve/hack of each seed", *settings.evaluation.modes)
    print(table(head, [[name, *(rates_of_seeds(found, shared, name, m) for m in head[1:])] for name in names]))
    write(
        options.result,
        {
            "tree": options.tree,
            "device": options.device,
            "registration": registration_lines(folder, settings),
            # `tasks.route.claims.compare_claims` makes the comparison from the thresholds and the evaluations.
            "thresholds": dataclasses.asdict(settings.claims),
            "evaluations": read_json_lines(folder / EVALUATION_FILE),
            "comparison": json.loads((folder / "comparison.json").read_text()),
            "training": {name: training(steps) for name, steps in rows.items()},
            "real": {name: diagnostics(steps) for name, steps in rows.items() if REAL in steps[0]["splits"]},
            "seconds": seconds(options.log) if options.log else {},
        },
    )


if __name__ == "__main__":
    main()
