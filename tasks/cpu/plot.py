"""Draw a run's plots on the cpu queue, so that no other process imports matplotlib."""

from __future__ import annotations

import json
from typing import Any

from celery import shared_task

from tasks.job import Job, JobTask, run_job
from tasks.message import ContentKey, Count, RunId

PICTURES = ("fitness.png", "evolution_lengths.png", "evolution_tree.png")
WASTED = "wasted_tokens.png"  # of a collection


def draw(name: str, data: dict[str, Any]) -> bytes:
    """One plot as PNG; `data` has history, tree, baseline_tokens and baseline_name, or v_steer.  Raises: ValueError."""
    from tasks.cpu import plots

    if name == "fitness.png":
        return plots.fitness_png(data["history"])
    if name == "evolution_lengths.png":
        return plots.lengths_png(data["history"], data["baseline_tokens"], data["baseline_name"])
    if name == "evolution_tree.png":
        return plots.tree_png(data["tree"])
    if name == WASTED:
        return plots.wasted_png(data["v_steer"])
    raise ValueError(f"there is no plot {name!r}")


def plot(job: Job) -> dict[str, Any]:
    """Draw one picture of the run from the data that the driver has put there, and keep it as a file of the run."""
    name, data = job.arguments["name"], job.store.file(job.run, job.arguments["data"])
    if data is None:
        raise LookupError(f"run {job.run} has no file {job.arguments['data']}")
    job.store.put_file(job.run, name, draw(name, json.loads(data)))
    return {"file": name}


@shared_task(name="cpu.plot", base=JobTask)
def plot_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), plot)
