"""Checks of the files that options name: questions, deltas, and what a collection has written.

Like the checks in `orchestrator.settings.checks`, each gets the values that are sound by themselves, and yields the
names of options and what is wrong with them.
"""

from __future__ import annotations

import errno
import itertools
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.settings.checks import Findings, Values, sound_layout
from orchestrator.settings.clusters import pinned_positions
from orchestrator.settings.population import population_problem, read_population
from orchestrator.settings.references import (
    ALL,
    overlap,
    parse_indices,
    read_discovered_tokens,
    read_sides,
    select_indices,
)
from tasks.dataset import DatasetError, read_lines
from tasks.escape import quote
from tasks.plan import EXAMPLE_SETS
from tasks.tables import format_of


def check_questions(values: Values) -> Findings:
    """The indices are those of rows, and no two sets have a row in common.

    Rows are counted here in files of one row a line only, and splits are not read: `choose_examples` checks the rest.
    """
    file_format, count = None, None
    if "data_path" in values and "data_format" in values:
        try:
            file_format, count = _look_at(values["data_path"], values["data_format"])
        except DatasetError as error:
            yield "DATA_PATH", str(error)
    sound: dict[str, tuple[str, Sequence[range]]] = {}
    for which in EXAMPLE_SETS:
        indices, split = values.get(f"{which}_indices"), values.get(f"{which}_split")
        if indices is None or split is None:
            continue
        split = "" if file_format == "financebench" else split
        try:
            if count is not None and not split:
                select_indices(indices, count)
            sound[which] = split, parse_indices(indices) or (ALL if split else ())
        except ValueError as error:
            yield f"{which.upper()}_INDICES", str(error)
    if count == 0:
        yield "DATA_PATH", f"{quote(str(values['data_path']))} has no questions"
    for (one, (split, some)), (other, (other_split, others)) in itertools.combinations(sound.items(), 2):
        if split == other_split and (common := overlap(some, others)):
            yield f"{other.upper()}_INDICES", f"has question {common[0]} in common with {one.upper()}_INDICES"


def _look_at(path: Path, named: str) -> tuple[str, int | None]:
    """The format of the questions, and how many there are where each has a line.  Raises: DatasetError."""
    file_format = format_of(path) if named == "auto" else named
    return file_format, _count_lines(path) if file_format in ("financebench", "jsonl") else None


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


def check_discovered(values: Values) -> Findings:
    """The discovered tokens can be read, and there are enough of them for the clusters."""
    path, clusters = values.get("clusters_from"), values.get("kmeans_clusters")
    if path is None:
        return
    if values.get("clusters_by") == "waste":
        yield "CLUSTERS_FROM", "is of CLUSTERS_BY 'meaning', which is 'waste'; name the file in CLUSTERS_WASTE_FROM"
        return
    try:
        discovered = read_discovered_tokens(path)
    except ValueError as error:
        yield "CLUSTERS_FROM", str(error)
        return
    if clusters is not None and clusters > len(discovered):
        yield (
            "KMEANS_CLUSTERS",
            f"{clusters} is more than the {len(discovered)} discovered tokens of CLUSTERS_FROM; "
            "ask for fewer clusters, or collect with a larger phase0.k",
        )


def check_waste(values: Values) -> Findings:
    """The pairs of answers can be read."""
    path, by = values.get("clusters_waste_from"), values.get("clusters_by")
    if path is None or by is None:
        return
    if by != "waste":
        yield "CLUSTERS_WASTE_FROM", f"is of CLUSTERS_BY 'waste', which is {by!r}"
        return
    try:
        read_sides(path)
    except ValueError as error:
        yield "CLUSTERS_WASTE_FROM", str(error)


def _count_lines(path: Path) -> int:
    """Raises: DatasetError."""
    return sum(1 for _ in read_lines(path))


FILE_CHECKS = (check_questions, check_initial_deltas, check_discovered, check_waste)


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
