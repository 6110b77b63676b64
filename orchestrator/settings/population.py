"""What a search starts from: the vector, or the population, that CONFIG_INITIAL_DELTAS_PATH names.

    {"0": 0.0, "1": -1.5, ...}                                                one vector
    [{"0": 0.0, ...}, {"deltas": {"0": 0.5, ...}, "scratchpad": "..."}]       a population, with what it has learnt

The first vector is the start of the search, with which reports compare.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from orchestrator.settings.clusters import ClusterLayout
from orchestrator.settings.references import BEST_VECTOR, FORK, FORK_FILE, ZERO
from tasks.escape import quote
from tasks.files import FileTooLarge, read_limited
from tasks.limits import DELTAS_BYTES, LARGEST_DELTA
from tasks.validation import Delta, InvalidData, Scratchpad, check_value

_DELTAS = TypeAdapter(dict[str, Delta])
NAMED = {"deltas", "scratchpad"}


@dataclass(frozen=True)
class StartVector:
    """One delta a cluster, in logits, in the order of the clusters' ids; and the scratchpad of its lineage."""

    deltas: Mapping[str, float]
    scratchpad: str = ""


class StartVectorFile(TypedDict):
    deltas: dict[str, Delta]
    scratchpad: Scratchpad


class ForkFile(TypedDict):
    """fork.json: the run that another one was forked from, at what ("generation 2"), and the population it begins with.

    `folder` is where the run was then; `prompt` is the name of its system prompt, "" where that is not known.
    """

    run: str
    folder: str
    at: str
    prompt: str
    population: list[StartVectorFile]


def read_population(path: Path, layout: ClusterLayout, output: Path) -> tuple[StartVector, ...]:
    """The vectors in the JSON file at `path`, one or more.

    It is 0 for each cluster when `path` is `ZERO`, or `BEST_VECTOR`, which is known once the clusters are.  With `FORK`
    they are those that the run in the folder `output` was forked with.
    Raises: ValueError with a message of one line when the file cannot be read, is neither a JSON object nor a list of
    them, has other keys than the clusters, or has a value that is not a number from -LARGEST_DELTA to LARGEST_DELTA.
    """
    if path in (ZERO, BEST_VECTOR):
        return (StartVector(dict.fromkeys(layout.ids, 0.0)),)
    if path == FORK:
        return _forked(output / FORK_FILE, layout)
    try:
        found = json.loads(read_limited(path, DELTAS_BYTES), object_pairs_hook=_Pairs)
    except FileTooLarge as error:
        raise ValueError(f"{quote(str(path))} cannot be read: {error}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{quote(str(path))} cannot be read as JSON: {error}") from error
    where = quote(str(path))
    if isinstance(found, _Pairs):
        return (StartVector(_checked(where, found, layout)),)
    if not isinstance(found, list):
        raise ValueError(f"{where} is not a JSON object of cluster ids and numbers, and not a list of them")
    if not found:
        raise ValueError(f"{where} has no vectors")
    return tuple(_member(f"{where}: vector {number}", one, layout) for number, one in enumerate(found, start=1))


def read_fork(path: Path) -> ForkFile:
    """Raises: FileNotFoundError; InvalidData for a file that cannot be used, OSError, FileTooLarge."""
    from tasks.envelope import parse_sealed  # here, because it needs Redis' client

    return parse_sealed(ForkFile, read_limited(path, DELTAS_BYTES))


def population_problem(vectors: Sequence[StartVector], optimiser: str, population: int, pinned: Sequence[int]) -> str:
    """Why a search cannot start from these vectors; "" where it can.  `pinned` are positions of clusters."""
    most, of = most_vectors(optimiser, population)
    if len(vectors) > most:
        return f"has {len(vectors)} vectors, and {of}"
    ids = list(vectors[0].deltas)
    for number, one in enumerate(vectors, start=1):
        for cluster in (ids[position] for position in pinned):
            if one.deltas[cluster] != vectors[0].deltas[cluster]:
                return (
                    f"has {one.deltas[cluster]:g} for cluster {cluster} in vector {number} and "
                    f"{vectors[0].deltas[cluster]:g} in the first, and the cluster is pinned"
                )
    return ""


def most_vectors(optimiser: str, population: int) -> tuple[int, str]:
    """How many vectors a search can start from, and the reason in words."""
    if optimiser == "lineage":
        return 1, "OPTIMISER 'lineage' starts from one"
    return population, f"POPULATION_SIZE is {population}"


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object, repeated keys included."""


def _member(where: str, found: Any, layout: ClusterLayout) -> StartVector:
    if not isinstance(found, _Pairs):
        raise ValueError(f"{where} is not a JSON object of cluster ids and numbers")
    named = dict(found)
    if not named.keys() & NAMED:
        return StartVector(_checked(where, found, layout))
    if strange := sorted(named.keys() - NAMED):
        raise ValueError(f"{where} has the unknown {quote(strange[0])} beside 'deltas' and 'scratchpad'")
    if len(named) < len(found) or not isinstance(named.get("deltas"), _Pairs):
        raise ValueError(f"{where} has not one object of cluster ids and numbers under 'deltas'")
    try:
        scratchpad: str = check_value(Scratchpad, named.get("scratchpad", ""), "scratchpad")
    except InvalidData as error:
        raise ValueError(f"{where}: {error}") from None
    return StartVector(_checked(where, named["deltas"], layout), scratchpad)


def _forked(path: Path, layout: ClusterLayout) -> tuple[StartVector, ...]:
    try:
        found = read_fork(path)["population"]
    except FileNotFoundError:
        raise ValueError(f"'fork' is the value of a run that `evolve --fork` began, and {path} is missing") from None
    except (OSError, InvalidData, FileTooLarge) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if not found:
        raise ValueError(f"{path} has no vectors")
    return tuple(
        StartVector(_checked(f"{path}: vector {number}", [*one["deltas"].items()], layout), one["scratchpad"])
        for number, one in enumerate(found, start=1)
    )


def _checked(where: str, pairs: Sequence[tuple[str, Any]], layout: ClusterLayout) -> dict[str, float]:
    """One vector.  Raises: ValueError, which begins with `where`."""
    _check_keys(where, [key for key, _ in pairs], layout)
    try:
        values = _DELTAS.validate_python(dict(pairs), strict=True)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        value, cluster = quote(str(detail["input"])), detail["loc"][0]
        bounds = f"a number from {-LARGEST_DELTA:g} to {LARGEST_DELTA:g}"
        raise ValueError(f"{where} has {value} for cluster {cluster}, which is not {bounds}") from None
    return {key: values[key] for key in layout.ids}


def _check_keys(where: str, keys: list[str], layout: ClusterLayout) -> None:
    found = [f"{verb} {named}" for verb, named in _wrong_keys(keys, layout.ids)]
    if found:
        clusters_are = f"the clusters are '0' to '{layout.ids[-1]}', {layout.last}"
        otherwise = f"the value {ZERO} in place of a file is 0 for each"
        raise ValueError(f"{where} {' and '.join(found)} ({clusters_are}); {otherwise}")


def _wrong_keys(keys: Sequence[str], clusters: Sequence[str]) -> Iterator[tuple[str, str]]:
    times = Counter(keys)
    for verb, some in (
        ("lacks", [cluster for cluster in clusters if cluster not in times]),
        ("has the unknown", sorted(times.keys() - set(clusters))),
        ("repeats", sorted(key for key, count in times.items() if count > 1)),
    ):
        if some:
            yield verb, f"{', '.join(quote(key) for key in some[:5])}{', ...' * (len(some) > 5)}"
