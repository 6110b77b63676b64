"""How well a run of `orchestrator route` keeps its gpu workers busy: that of configs/route.yaml on 1, 2 and 4 of them.

Real broker, real workers, and the real session of the run from its plan to its report; only the jobs of the gpu queue
wait instead of computing (benchmarks/route_tasks.py), sped up so that the bound takes --seconds whatever the number of
workers.  Held against that lower bound: all gpu work over the workers, or the longest chain of bases, as many trainings
as one worker at least has, and the last one's evaluation.  What the cpu queue computes is not sped up, and counts as so
much longer.
`python benchmarks/route_scale.py [--seconds 120]`
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from figures import table, write
from idle_farm import Crew, idle_farm
from route_tasks import BASES_S, evaluate_s, train_s

from orchestrator import exit_status
from orchestrator.routing.build import arms, deployments
from orchestrator.routing.run import start_route
from orchestrator.routing.settings import RouteOptions, RouteSettings, read_route_settings
from tasks.route.jobs import Deployment

WANTED = 1.15
WORKERS = (1, 2, 4)
ROOT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="on the clock, for the bound of a run")
    options = parser.parse_args()
    settings = read_route_settings(ROOT / "configs" / "route.yaml")
    os.chdir(ROOT)  # the settings name their files from here
    found = [measure(settings, workers, options.seconds) for workers in WORKERS]
    trainings, evaluations = len(arms(settings)), sum(map(len, deployed(settings)))
    print(f"{trainings} trainings, {evaluations} evaluations, {work_s(settings):.0f} s of gpu work")
    rows = [[f"{f[name]}" for name in ("workers", "bound_s", "took_s", "ratio")] for f in found]
    print(table(["gpu workers", "bound s", "took s", "to bound"], rows))
    worst = max(f["ratio"] for f in found)
    print(f"worst ratio to the bound: {worst:.3f} (wanted: at most {WANTED})")
    given = {"trainings": trainings, "evaluations": evaluations, "work_s": round(work_s(settings), 1)}
    write("route_scale", {**given, "seconds": options.seconds, "farm": found})
    sys.exit(0 if worst <= WANTED else 1)


def deployed(settings: RouteSettings) -> list[list[Deployment]]:
    """What is evaluated of each trajectory."""
    return [deployments(settings, arm) for arm in arms(settings)]


def evaluations_s(settings: RouteSettings) -> list[float]:
    """Seconds of the evaluation of each trajectory."""
    return [evaluate_s(len(each), settings.evaluation.samples) for each in deployed(settings)]


def work_s(settings: RouteSettings) -> float:
    """Seconds of all gpu jobs, one after the other."""
    evaluated = evaluations_s(settings)
    return BASES_S + len(evaluated) * train_s(settings.training.steps) + sum(evaluated)


def bound_s(settings: RouteSettings, workers: int) -> float:
    evaluated = evaluations_s(settings)
    rounds = -(-len(evaluated) // workers)
    longest = BASES_S + rounds * train_s(settings.training.steps) + min(evaluated)
    return max(work_s(settings) / workers, longest)


def measure(settings: RouteSettings, workers: int, seconds: float) -> dict[str, Any]:
    """The same run on so many gpu workers; seconds as in life."""
    bound = bound_s(settings, workers)
    scale = bound / seconds
    os.environ["WHETSTONE_SCALE"] = str(scale)
    crews = {f"gpu{number}": Crew("gpu") for number in range(workers)}
    with idle_farm({**crews, "cpu": Crew("cpu")}, "route_tasks") as farm, tempfile.TemporaryDirectory() as folder:
        output = dataclasses.replace(settings.output, root=folder)
        options = RouteOptions(farm="external", redis_url=farm.url, gpu_jobs=workers, log_level="warning")
        started = time.perf_counter()
        ending = start_route(dataclasses.replace(settings, output=output), options, stream=io.StringIO())
        took = (time.perf_counter() - started) * scale
        assert ending.status == exit_status.DONE, ending
    return {"workers": workers, "bound_s": round(bound, 1), "took_s": round(took, 1), "ratio": round(took / bound, 3)}


if __name__ == "__main__":
    main()
