"""A finished clustering on disk: one folder, named by the hash of its inputs, complete or absent.

By meaning, <folder>/<hash>/ holds
    labels_kmeans.npy          array [V], uint8 or uint16: the cluster of each token id (0, 1, or k-means + 2)
    embeddings.npy             array [V, dimension] float32: the embedding of each token, clusters 0 and 1 too
    pca_components.npy         array [components, dimension] float32: the fitted PCA's directions
    pca_mean.npy               array [dimension] float32: what it subtracts first
    kmeans_centres.npy         array [count, components] float32: row k is the centre of cluster k + 2
    cluster_descriptions.json  a list of {id, description, examples, count}, in the order of ids
    manifest.json              its inputs
    labels_kmeans.joblib       the labels, and
    pca.joblib                 the fitted PCA (scikit-learn), for other programs
By waste, it holds
    labels_waste.npy           array [V], uint8 or uint16: the cluster of each token id
    cluster_descriptions.json  as above
    cluster_figures.json       {eos, pinned, log_odds}
    manifest.json              as above
    labels_waste.joblib        the labels, for other programs

A .joblib file is a pickle, which runs code when it is loaded: it is written and never read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tasks.common.files import folder_atomic, model_sha256, remove_unfinished
from tasks.gpu.clustering.describe import Description
from tasks.records import ClusterFigures

if TYPE_CHECKING:
    from numpy.typing import NDArray

VERSION = 2
"""Of the algorithm: raised whenever equal inputs would give other labels, so that old clusterings are not reused."""

LABELS_KMEANS, LABELS_WASTE = "labels_kmeans.npy", "labels_waste.npy"
EMBEDDINGS = "embeddings.npy"
PCA_COMPONENTS, PCA_MEAN = "pca_components.npy", "pca_mean.npy"
CENTRES = "kmeans_centres.npy"
DESCRIPTIONS = "cluster_descriptions.json"
FIGURES = "cluster_figures.json"
LABELS_KMEANS_JOBLIB, LABELS_WASTE_JOBLIB, PCA_JOBLIB = "labels_kmeans.joblib", "labels_waste.joblib", "pca.joblib"
MANIFEST = "manifest.json"
_ABANDONED_S = 3600.0  # a clustering is written in seconds


class ClusteringError(Exception):
    """The vocabulary could not be clustered, or a finished clustering could not be read. The message is one line."""


def cannot_load(what: str, name: str | Path, error: Exception) -> ClusteringError:
    """The error for a model, a folder or a Hugging Face id, that cannot be loaded; one line with the reason."""
    path = Path(name)
    if (path.is_absolute() or str(name).startswith((".", "~"))) and not path.is_dir():
        return ClusteringError(f'the {what} "{name}" cannot be loaded: there is no such folder')
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return ClusteringError(f'the {what} "{name}" cannot be loaded: {first}')


@dataclass(frozen=True, eq=False)
class Clustering:
    """A clustering as it is used. `labels` [V] uint8 (uint16 above 256 clusters), read-only."""

    hash: str
    folder: Path
    labels: NDArray[Any]
    descriptions: list[Description]
    figures: ClusterFigures = ClusterFigures()  # noqa: RUF009  (it is frozen)


class Inputs(Protocol):
    """All that determines a clustering."""

    def hash(self) -> str:
        """32 hexadecimal digits."""

    def manifest(self) -> dict[str, Any]:
        """What manifest.json says of them, with the hash."""


@dataclass(frozen=True)
class ClusteringInputs:
    """All that determines a clustering by meaning. Device and batch size are left out: they change only its cost."""

    vocabulary: Sequence[str]
    eos: frozenset[int]
    numbers: frozenset[int]
    embedder: str  # from `embedder_identity`
    components: int
    count: int
    seed: int
    discovered: tuple[int, ...] = ()  # in order; PCA and k-means are fitted on these alone

    def hash(self) -> str:
        """32 hexadecimal digits."""
        text = json.dumps([list(self.vocabulary), self.summary()], ensure_ascii=True, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def embeddings_hash(self) -> str:
        """The hash of what determines the embeddings: clusterings with the same hash share them."""
        text = json.dumps([VERSION, list(self.vocabulary), self.embedder], ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def manifest(self) -> dict[str, Any]:
        return {"hash": self.hash(), "embedded": self.embeddings_hash(), **self.summary()}

    def summary(self) -> dict[str, Any]:
        """Everything but the vocabulary itself."""
        discovered = {"discovered": list(self.discovered)} if self.discovered else {}
        return {
            "version": VERSION,
            "tokens": len(self.vocabulary),
            "ends": sorted(self.eos),
            "numbers": sorted(self.numbers),
            "embedder": self.embedder,
            "components": self.components,
            "count": self.count,
            "seed": self.seed,
            **discovered,
        }


def embedder_identity(embedder: str | Path) -> str:
    """Identifies an embedder: the SHA-256 of a folder's files, at whatever path, or the Hugging Face id."""
    folder = Path(embedder)
    if not folder.is_dir():
        return str(embedder)
    return f"sha256:{model_sha256(folder)}"


def save_clustering(root: Path, inputs: Inputs, files: Mapping[str, Any]) -> Path:
    """Write the folder `<root>/<hash>` with these files and return it. An existing clustering is left as it is.

    The ending of a file's name says how its content is written: .joblib, .npy or .json.

    A killed process leaves nothing under that name, and of two processes the first one counts.
    """
    root.mkdir(parents=True, exist_ok=True)
    remove_unfinished(root, older_than_s=_ABANDONED_S)
    final = root / inputs.hash()
    with folder_atomic(final) as work:
        _write(work, inputs, files)
    return final


def _write(folder: Path, inputs: Inputs, files: Mapping[str, Any]) -> None:
    import joblib
    import numpy as np

    for name, content in files.items():
        match Path(name).suffix:
            case ".joblib":
                joblib.dump(content, folder / name)
            case ".npy":
                np.save(folder / name, content, allow_pickle=False)
            case _:
                _write_json(folder / name, content)
    _write_json(folder / MANIFEST, inputs.manifest())


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
