"""Draw a run's plots on the cpu queue, so that no other process imports matplotlib."""

from __future__ import annotations

import json
from typing import Any, Literal

from celery import shared_task

from tasks import context
from tasks.message import RunId

PICTURES = ("fitness.png", "evolution_lengths.png", "evolution_tree.png")
WASTED = "wasted_tokens.png"  # of a collection
PictureName = Literal["fitness.png", "evolution_lengths.png", "evolution_tree.png", "wasted_tokens.png"]
DATA = "plot_data.json"


def draw(name: str, data: dict[str, Any]) -> bytes:
    """One plot as PNG; `data` holds history, tree and baseline_tokens, or v_steer.  Raises: ValueError."""
    from tasks.cpu import plots

    if name == "fitness.png":
        return plots.fitness_png(data["history"])
    if name == "evolution_lengths.png":
        return plots.lengths_png(data["history"], data["baseline_tokens"])
    if name == "evolution_tree.png":
        return plots.tree_png(data["tree"])
    if name == WASTED:
        return plots.wasted_png(data["v_steer"])
    raise ValueError(f"there is no plot {name!r}")


@shared_task(name="cpu.plot")
def plot_task(run: RunId, name: PictureName) -> None:
    """Draw one plot of the run from the data that the driver put into the store, and put it there."""
    store = context.store_of(run)
    data = store.file(run, DATA)
    if data is None:
        raise LookupError(f"run {run} has no plot data in the store")
    store.put_file(run, name, draw(name, json.loads(data)))
