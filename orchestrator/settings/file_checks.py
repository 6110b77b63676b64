"""Checks of the files that options name: questions, deltas, and what a collection has written.

Like the checks in `orchestrator.settings.checks`, each gets the values that are sound by themselves, and yields the
names of options and what is wrong with them.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from orchestrator.settings.checks import Findings, Values, sound_layout
from orchestrator.settings.clusters import pinned_positions
from orchestrator.settings.population import population_problem, read_population
from orchestrator.settings.references import (
    read_discovered_tokens,
    read_sides,
)


def check_initial_deltas(values: Values) -> Findings:
    """The initial deltas are one finite number for each cluster, in as many vectors as the search can start from."""
    layout = sound_layout(values)
    if "initial_deltas_path" not in values or "output_dir" not in values or layout is None:
        return
    try:
        vectors = read_population(values["initial_deltas_path"], layout, values["output_dir"])
    except ValueError as error:
        yield "INITIAL_DELTAS_PATH", str(error)
        return
    optimiser, population = values.get("optimiser"), values.get("population_size")
    if optimiser is None or population is None:
        return
    if problem := population_problem(vectors, optimiser, population, pinned_positions(layout, optimiser)):
        yield "INITIAL_DELTAS_PATH", problem


def check_collected(values: Values) -> Findings:
    """The output of a collection has the tokens, enough for the clusters, or the pairs of answers that are wanted."""
    path, by = values.get("clusters_from"), values.get("clusters_by")
    if path is None or by is None:
        return
    try:
        if by == "waste":
            read_sides(path)
            return
        discovered = read_discovered_tokens(path)
    except ValueError as error:
        yield "CLUSTERS_FROM", str(error)
        return
    if values.get("clusters", 0) > len(discovered):
        yield "CLUSTERS", f"{values['clusters']} is more than the {len(discovered)} discovered tokens of CLUSTERS_FROM"


FILE_CHECKS = (check_initial_deltas, check_collected)


def unwritable_folder(name: str, folder: Path) -> Iterator[str]:
    """Why nothing can be written into the folder that the option `name` names, asked before anything is spent."""
    try:
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        yield f"{name}: {folder}: {error.strerror}"
