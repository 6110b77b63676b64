"""A clustering is read from its folder; nothing in its files is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.gpu.clustering.artifacts import (
    DESCRIPTIONS,
    EMBEDDINGS,
    FIGURES,
    LABELS_KMEANS,
    LABELS_WASTE,
    MANIFEST,
    Clustering,
    ClusteringError,
    ClusteringInputs,
)
from tasks.records import ClusterFigures

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_UNREADABLE = (OSError, EOFError, ValueError, KeyError)


def find_embeddings(root: Path, inputs: ClusteringInputs) -> NDArray[np.float32] | None:
    """The embeddings of another clustering of the same vocabulary by the same embedder, or None."""
    requested = inputs.embeddings_hash()
    for path in sorted(root.glob(f"*/{MANIFEST}")):
        try:
            if json.loads(path.read_bytes()).get("embedded") == requested:
                return _array(path.with_name(EMBEDDINGS))
        except _UNREADABLE:  # of that clustering, which reports it when it is loaded
            continue
    return None


def load_clustering(folder: Path) -> Clustering:
    """Read a clustering's folder."""
    name = LABELS_WASTE if (folder / LABELS_WASTE).exists() else LABELS_KMEANS
    figures = ClusterFigures()
    try:
        labels = _array(folder / name)
        descriptions = json.loads((folder / (name := DESCRIPTIONS)).read_bytes())
        if (folder / (name := FIGURES)).exists():
            figures = ClusterFigures.from_json((folder / name).read_bytes())
    except _UNREADABLE as error:
        raise ClusteringError(
            f"{folder} holds no complete clustering ({name}: {error}); delete the folder to make it anew"
        ) from error
    labels.setflags(write=False)
    return Clustering(folder.name, folder, labels, descriptions, figures)


def _array(path: Path) -> NDArray[Any]:
    import numpy as np

    found: NDArray[Any] = np.load(path, allow_pickle=False)
    return found
