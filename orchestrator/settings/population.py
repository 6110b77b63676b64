"""What a search starts from: the vector, or the population, that CONFIG_INITIAL_DELTAS_PATH names.

    {"0": 0.0, "1": -1.5, ...}                                                one vector
    [{"0": 0.0, ...}, {"deltas": {"0": 0.5, ...}, "scratchpad": "..."}]       a population, with what it has learnt

The first vector is the start of the search, with which reports compare.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from orchestrator.settings.clusters import ClusterLayout
from orchestrator.settings.references import FORK, ZERO
from tasks.common.files import read_limited
from tasks.common.text import quote
from tasks.common.validation import DELTAS_BYTES, LARGEST_DELTA, Delta, Scratchpad, check_value, parse_json

NAMED = {"deltas", "scratchpad"}


@dataclass(frozen=True)
class StartVector:
    """One delta a cluster, in logits, in the order of the clusters' ids; and the scratchpad of its lineage."""

    deltas: Mapping[str, float]
    scratchpad: str = ""


class StartVectorFile(TypedDict):
    deltas: dict[str, Delta]
    scratchpad: Scratchpad


class ForkedArm(TypedDict):
    """What the search of an arm begins with; `clustering` is that of the deltas."""

    clustering: str
    population: list[StartVectorFile]


class ForkFile(TypedDict):
    """fork.json: the run that another one was forked from, where it was then, at what ("generation 2"), and what the
    search begins with, by the name of the arm.
    """

    run: str
    folder: str
    at: str
    arms: dict[str, ForkedArm]


def read_population(path: Path, layout: ClusterLayout) -> tuple[StartVector, ...]:
    """The vectors in the JSON file at `path`, one or more.

    It is 0 for each cluster when `path` is `ZERO`, and `FORK`, with which fork.json says what each arm begins with.
    """
    if path in (ZERO, FORK):
        return (StartVector(dict.fromkeys(layout.ids, 0.0)),)
    where = quote(str(path))
    try:
        found = json.loads(read_limited(path, DELTAS_BYTES), object_pairs_hook=_distinct)
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{where} cannot be read as JSON: {error}") from error
    if not isinstance(found, list):
        return (_member(where, found, layout),)
    if not found:
        raise ValueError(f"{where} has no vectors")
    return tuple(_member(f"{where}: vector {number}", one, layout) for number, one in enumerate(found, start=1))


def read_fork(path: Path) -> ForkFile:
    found: ForkFile = parse_json(ForkFile, read_limited(path, DELTAS_BYTES))
    return found


def population_problem(vectors: Sequence[StartVector], optimiser: str, population: int, pinned: Sequence[int]) -> str:
    """Why a search cannot start from these vectors; "" where it can.  `pinned` are positions of clusters."""
    most, of = most_vectors(optimiser, population)
    if len(vectors) > most:
        return f"has {len(vectors)} vectors, and {of}"
    ids = list(vectors[0].deltas)
    for number, one in enumerate(vectors, start=1):
        for cluster in (ids[position] for position in pinned):
            if one.deltas[cluster] != vectors[0].deltas[cluster]:
                return f"has in vector {number} another delta of cluster {cluster} than in the first, and it is pinned"
    return ""


def most_vectors(optimiser: str, population: int) -> tuple[int, str]:
    """How many vectors a search can start from, and the reason in words."""
    if optimiser == "lineage":
        return 1, "OPTIMISER 'lineage' starts from one"
    return population, f"POPULATION_SIZE is {population}"


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _member(where: str, found: Any, layout: ClusterLayout) -> StartVector:
    """One vector, with or without a scratchpad."""
    if not isinstance(found, dict):
        raise ValueError(f"{where} is not a JSON object of cluster ids and numbers")
    vector = found if found.keys() <= NAMED and found.keys() & NAMED else {"deltas": found}
    deltas = vector.get("deltas")
    if not isinstance(deltas, dict) or deltas.keys() != set(layout.ids):
        strange = sorted(set(deltas if isinstance(deltas, dict) else ()) ^ set(layout.ids))[:5]
        raise ValueError(
            f"{where} lacks or has too much: {', '.join(map(quote, strange))} (the clusters are '0' to "
            f"'{layout.ids[-1]}', {layout.last}); the value {ZERO} in place of a file is 0 for each"
        )
    try:
        values = {cluster: check_value(Delta, deltas[cluster], f"cluster {cluster}") for cluster in layout.ids}
        return StartVector(values, check_value(Scratchpad, vector.get("scratchpad", ""), "scratchpad"))
    except ValueError as error:
        raise ValueError(f"{where}: {error} (a delta is from {-LARGEST_DELTA:g} to {LARGEST_DELTA:g})") from None
