"""Deltas in a file: one finite number for each cluster, "0" to KMEANS_CLUSTERS + 1."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from orchestrator.settings.rules import short


def cluster_ids(kmeans_clusters: int) -> tuple[str, ...]:
    """The ids of all clusters, k-means or not, in the canonical order of genetic_evolution_plan.md section 1."""
    return tuple(str(cluster) for cluster in range(kmeans_clusters + 2))


def read_deltas(path: Path, kmeans_clusters: int) -> dict[str, float]:
    """The deltas in the JSON file at `path`, in canonical order.

    Raises: ValueError, saying in one line what is wrong, when the file cannot be read, is not a JSON object, has other
    keys than the clusters, or a value that is not a finite number.
    """
    try:
        pairs = json.loads(path.read_text("utf-8"), object_pairs_hook=_Pairs)
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{short(str(path))} cannot be read as JSON: {error}") from error
    if not isinstance(pairs, _Pairs):
        raise ValueError(f"{short(str(path))} is not a JSON object of cluster ids and numbers")
    _check_keys(path, [key for key, _ in pairs], cluster_ids(kmeans_clusters))
    values = dict(pairs)
    for key, value in pairs:
        if not _is_finite_number(value):
            raise ValueError(
                f"{short(str(path))} has {short(str(value))} for cluster {key}, which is not a finite number"
            )
    return {key: float(values[key]) for key in cluster_ids(kmeans_clusters)}


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object as they stand in the file, repeated keys included."""


def _check_keys(path: Path, keys: list[str], clusters: tuple[str, ...]) -> None:
    wrong = [
        ("lacks", [cluster for cluster in clusters if cluster not in keys]),
        ("has the unknown", sorted(set(keys) - set(clusters))),
        ("repeats", sorted({key for key in keys if keys.count(key) > 1})),
    ]
    found = [
        f"{verb} {', '.join(short(key) for key in some[:5])}{', ...' * (len(some) > 5)}" for verb, some in wrong if some
    ]
    if found:
        clusters_are = f"the clusters are '0' to '{clusters[-1]}', KMEANS_CLUSTERS + 1"
        raise ValueError(f"{short(str(path))} {' and '.join(found)} ({clusters_are})")


def _is_finite_number(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False
