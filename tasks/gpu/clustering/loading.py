"""A clustering is read from its folder: its files are checked before they are used, and nothing in them is run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.arrays import HEADER_BYTES, LABEL_TYPES, load_array, require_file
from tasks.escape import quote
from tasks.gpu.clustering.artifacts import (
    DESCRIPTIONS,
    EMBEDDINGS,
    FIGURES,
    FILES,
    LABELS_KMEANS,
    LABELS_WASTE,
    MANIFEST,
    Clustering,
    ClusteringError,
    ClusteringInputs,
    Manifest,
    file_sha256,
)
from tasks.gpu.clustering.describe import Description
from tasks.limits import CLUSTERING_FILE_BYTES, CLUSTERING_JSON_BYTES, VOCABULARY_TOKENS
from tasks.models import ClusterFigures
from tasks.validation import InvalidData, checked_json, parse_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def find_embeddings(root: Path, inputs: ClusteringInputs) -> NDArray[np.float32] | None:
    """The embeddings of another clustering of the same vocabulary by the same embedder, or None."""
    requested = inputs.embeddings_hash()
    for path in sorted(root.glob(f"*/{MANIFEST}")):
        try:
            manifest = read_manifest(path.parent)
            # A damaged clustering is passed over here; loading that clustering reports it.
            if (
                manifest.get("embedded") == requested
                and file_sha256(path.with_name(EMBEDDINGS)) == manifest["files"][EMBEDDINGS]
            ):
                return _embeddings(path.parent, len(inputs.vocabulary))
        except (OSError, ValueError, KeyError):
            continue
    return None


def read_manifest(folder: Path) -> Manifest:
    """Raises: ValueError, naming the file, when it is too large or is no manifest; OSError."""
    try:
        manifest = parse_json(Manifest, _read_json(folder / MANIFEST))
    except InvalidData as error:
        raise ValueError(f"{MANIFEST}: {error}") from None
    if unknown := sorted(set(manifest["files"]) - FILES):
        raise ValueError(f"{MANIFEST}: it names {quote(unknown[0])}, which is no file of a clustering")
    return manifest


def load_clustering(folder: Path) -> Clustering:
    """Read and verify a clustering's folder.

    Raises: ClusteringError, naming the file, when one is missing, has another hash than the manifest says, or holds
    something else than this version writes.
    """
    try:
        manifest = read_manifest(folder)
        for name, expected in manifest["files"].items():
            if file_sha256(folder / name) != expected:
                raise ClusteringError(
                    f"the clustering in {folder} is damaged ({name}); delete the folder to make it anew"
                )
        descriptions = _descriptions(folder)
        labels = _labels(folder, LABELS_WASTE if LABELS_WASTE in manifest["files"] else LABELS_KMEANS, descriptions)
        figures = _figures(folder, descriptions) if FIGURES in manifest["files"] else ClusterFigures()
    except (OSError, ValueError, KeyError) as error:
        raise ClusteringError(
            f"{folder} holds no complete clustering ({error}); delete the folder to make it anew"
        ) from error
    labels.setflags(write=False)
    return Clustering(manifest["hash"], folder, labels, descriptions, figures)


def _labels(folder: Path, name: str, descriptions: Sequence[Description]) -> NDArray[Any]:
    labels = load_array(folder / name, LABEL_TYPES, (None,), 2 * VOCABULARY_TOKENS + HEADER_BYTES)
    if not labels.size or int(labels.max()) >= len(descriptions):
        raise ValueError(f"{name}: not every token is in one of the {len(descriptions)} clusters")
    return labels


def _embeddings(folder: Path, tokens: int) -> NDArray[np.float32]:
    return load_array(folder / EMBEDDINGS, ("float32",), (tokens, None), CLUSTERING_FILE_BYTES)


def _descriptions(folder: Path) -> list[Description]:
    try:
        descriptions: list[Description] = checked_json(list[Description], _read_json(folder / DESCRIPTIONS))
    except InvalidData as error:
        raise ValueError(f"{DESCRIPTIONS}: {error}") from None
    if [described["id"] for described in descriptions] != list(range(len(descriptions))):
        raise ValueError(f"{DESCRIPTIONS}: the ids are not 0, 1, 2 and so on")
    return descriptions


def _figures(folder: Path, descriptions: Sequence[Description]) -> ClusterFigures:
    try:
        figures = ClusterFigures.from_json(_read_json(folder / FIGURES))
    except InvalidData as error:
        raise ValueError(f"{FIGURES}: {error}") from None
    clusters = len(descriptions)
    inside = all(0 <= cluster < clusters for cluster in (figures.eos, figures.pinned or 0))
    if not inside or len(figures.log_odds) not in (0, clusters) or not all(map(math.isfinite, figures.log_odds)):
        raise ValueError(f"{FIGURES}: it is not about these {clusters} clusters")
    return figures


def _read_json(path: Path) -> bytes:
    """The content of a file that is not too large.  Raises: ValueError, OSError."""
    require_file(path, CLUSTERING_JSON_BYTES)
    return path.read_bytes()
