"""The plots of a run as PNG bytes, drawn on the cpu queue, so that no other process imports matplotlib (about 60 MB).

A new plot is a function from its data to a PNG, and one line below; new data is also sent by a `request_plots` call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast

from celery import shared_task

from tasks.task import Job, JobTask, run_job


class Plot(NamedTuple):
    """A plot: its file in the output folder, its title in report.md, and the module and function that draw it.

    The page shows no PNG, and nothing the title of a collection's.  `data` names the function's arguments, in order:
    history and tree of an evolution, points of the measured systems (`report.json`), v_steer of a collection, rates,
    held_out and rows of a `route` run.
    """

    file: str
    title: str
    module: str
    function: str
    data: tuple[str, ...]


EVOLUTION_PLOTS = (
    Plot("fitness.png", "fitness", "curves", "fitness_png", ("history",)),
    Plot("evolution_lengths.png", "lengths", "curves", "lengths_png", ("history",)),
    Plot("evolution_tree.png", "tree", "tree", "tree_png", ("tree",)),
)
COMPARISON_PLOTS = (Plot("pareto.png", "all systems", "pareto", "pareto_png", ("points",)),)
COLLECTION_PLOTS = (Plot("wasted_tokens.png", "most wasted tokens", "wasted", "wasted_png", ("v_steer",)),)
ROUTE_PLOTS = (
    Plot("hack_solve.png", "hack and solve of what is deployed", "route", "hack_solve_png", ("rates", "held_out")),
    Plot("bands.png", "x against the band over time", "route", "bands_png", ("rows",)),
)
PLOTS = {plot.file: plot for plot in (*EVOLUTION_PLOTS, *COMPARISON_PLOTS, *COLLECTION_PLOTS, *ROUTE_PLOTS)}


def draw(file: str, data: Mapping[str, Any]) -> bytes:
    """The plot of this file name; `data` holds what the plot names."""
    plot = PLOTS[file]
    function = getattr(import_module(f"{__name__}.{plot.module}"), plot.function)
    return cast(bytes, function(*(data[name] for name in plot.data)))


def draw_job(job: Job) -> dict[str, Any]:
    """Draw one plot of the run from the data that the driver has put there, and keep it as a file of the run."""
    name, data = job.arguments["name"], job.store.file(job.run, job.arguments["data"])
    if data is None:
        raise LookupError(f"run {job.run} has no file {job.arguments['data']}")
    job.store.put_file(job.run, job.key, draw(name, json.loads(data)))
    return {"file": name}


@shared_task(name="cpu.plot", base=JobTask)
def plot_task(run: str, key: str, attempt: int) -> None:
    run_job((run, key, attempt), draw_job)
