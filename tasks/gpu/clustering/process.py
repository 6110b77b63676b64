"""Clustering in a process of its own (tasks/common/child.py), so that the worker has its memory back afterwards.

This side imports nothing heavy.  The other side is `python -m tasks.gpu.clustering`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tasks.common.child import ChildFailed, ComputeChild, Report, run_child
from tasks.gpu.clustering.artifacts import ClusteringError
from tasks.records import Clusters, Sides

Progress = Callable[[str, int, int], None]
"""Called as `(stage, done, total)`, counts in tokens; stages: decode, embed, reduce, cluster, write."""


def no_progress(stage: str, done: int, total: int) -> None:
    """A `Progress` that does nothing."""


def run_clustering(
    tokenizer: str | Path,
    clusters: Clusters,
    embedder: str | Path,
    on_progress: Progress = no_progress,
    environment: Mapping[str, str] | None = None,
    sides: Sides | None = None,
) -> Path:
    """Cluster the vocabulary of a tokenizer (a folder or a Hugging Face id); return the folder of the clustering.

    `environment` is added to this process's own.  Clusters by waste need `sides` and no embedder, which may be "".

    The process dies with its parent and is stopped when this call is interrupted, also by `on_progress` raising.  Call
    it from a thread that lives until it returns.
    """
    given: dict[str, Any] = {
        "tokenizer": str(tokenizer),
        "embedder": str(embedder),
        "clusters": dataclasses.asdict(clusters),
    }
    given |= {"sides": None if sides is None else dataclasses.asdict(sides)}
    child = ComputeChild(
        "clustering", "tasks.gpu.clustering", stdin=json.dumps(given).encode(), environment=environment or {}
    )

    def forward(report: Report) -> None:
        on_progress(str(report["stage"]), int(report["done"]), int(report["total"]))

    try:
        return Path(run_child(child, forward)["folder"])
    except ChildFailed as error:
        raise ClusteringError(str(error)) from None
