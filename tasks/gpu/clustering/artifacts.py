"""A finished clustering on disk: one folder, named by the content it was made from, whole or not there at all.

<folder>/<hash>/
    labels_kmeans.joblib       array [V], uint8 or uint16: the cluster of each token id (0, 1, or k-means + 2)
    embeddings.npy             array [V, dimension] float32: the embedding of each token, clusters 0 and 1 too
    pca.joblib                 the fitted PCA (scikit-learn)
    kmeans_centres.npy         array [count, components] float32: row k is the centre of cluster k + 2
    cluster_descriptions.json  a list of {id, description, examples, count}, in the order of ids
    manifest.json              what it was made from, and the SHA-256 of each file
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.files import folder_atomic, remove_unfinished
from tasks.gpu.clustering.describe import Description
from tasks.gpu.clustering.errors import ClusteringError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERSION = 1
"""Of the algorithm: raised whenever the same input would give other labels, so that old clusterings are not reused."""

LABELS = "labels_kmeans.joblib"
EMBEDDINGS = "embeddings.npy"
PCA_FILE = "pca.joblib"
CENTRES = "kmeans_centres.npy"
DESCRIPTIONS = "cluster_descriptions.json"
MANIFEST = "manifest.json"

_ABANDONED_S = 3600.0  # a clustering is written in seconds


@dataclass(frozen=True, eq=False)
class Clustering:
    """A clustering as its users need it. `labels` [V] uint8 (uint16 above 256 clusters), read-only."""

    hash: str
    folder: Path
    labels: NDArray[Any]
    descriptions: list[Description]


@dataclass(frozen=True, eq=False)
class ClusteringOutput:
    """All that is written of a clustering that was just made. Shapes as in the module's docstring."""

    labels: NDArray[Any]
    embeddings: NDArray[np.float32]
    pca: Any
    centres: NDArray[np.float32]
    descriptions: list[Description]


@dataclass(frozen=True)
class ClusteringInputs:
    """All that decides what a clustering holds. Device and batch size are not of it: they change only its cost."""

    vocabulary: Sequence[str]
    ends: frozenset[int]
    numbers: frozenset[int]
    embedder: str  # its identity, from `embedder_identity`
    components: int
    count: int
    seed: int
    discovered: tuple[int, ...] = ()  # in order; PCA and k-means are fitted on these alone

    def hash(self) -> str:
        """32 hexadecimal digits."""
        text = json.dumps([list(self.vocabulary), self.summary()], ensure_ascii=True, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def embedded(self) -> str:
        """What decides the embeddings alone, as a hash: clusterings that share it have the same."""
        text = json.dumps([VERSION, list(self.vocabulary), self.embedder], ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def summary(self) -> dict[str, Any]:
        """Everything but the vocabulary itself, small enough to be read."""
        found = {"discovered": list(self.discovered)} if self.discovered else {}
        return {
            "version": VERSION,
            "tokens": len(self.vocabulary),
            "ends": sorted(self.ends),
            "numbers": sorted(self.numbers),
            "embedder": self.embedder,
            "components": self.components,
            "count": self.count,
            "seed": self.seed,
            **found,
        }


def embedder_identity(embedder: str | Path) -> str:
    """What tells one embedder from another: the SHA-256 of a folder's files, wherever it lies, or a hub's name."""
    folder = Path(embedder)
    if not folder.is_dir():
        return str(embedder)
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        # Readmes and hidden files say nothing of what the model computes.
        if path.is_file() and path.suffix != ".md" and not path.name.startswith("."):
            digest.update(f"{path.relative_to(folder).as_posix()}\0{_sha256(path)}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def save_clustering(root: Path, ingredients: ClusteringInputs, made: ClusteringOutput) -> Path:
    """Write the folder `<root>/<hash>` and return it. A clustering that is already there stays as it is.

    A killed run leaves nothing under that name, and of two runs at once the first one counts.
    """
    root.mkdir(parents=True, exist_ok=True)
    remove_unfinished(root, older_than_s=_ABANDONED_S)
    final = root / ingredients.hash()
    with folder_atomic(final) as work:
        _write(work, ingredients, made)
    return final


def find_embeddings(root: Path, ingredients: ClusteringInputs) -> NDArray[np.float32] | None:
    """The embeddings of another clustering of the same vocabulary by the same embedder, or None."""
    import numpy as np

    wanted = ingredients.embedded()
    for path in sorted(root.glob(f"*/{MANIFEST}")):
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
            # Those that are damaged are no use; who asks for that clustering itself is told of it.
            if (
                manifest.get("embedded") == wanted
                and _sha256(path.with_name(EMBEDDINGS)) == manifest["files"][EMBEDDINGS]
            ):
                found: NDArray[np.float32] = np.load(path.with_name(EMBEDDINGS))
                return found
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return None


def load_clustering(folder: Path) -> Clustering:
    """Read and verify a clustering's folder.

    Raises: ClusteringError when a file is missing or is not the file that was written.
    """
    import joblib

    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        for name, expected in manifest["files"].items():
            if _sha256(folder / name) != expected:
                raise ClusteringError(
                    f"the clustering in {folder} is damaged ({name}); delete the folder to make it anew"
                )
        labels = joblib.load(folder / LABELS)
        descriptions: list[Description] = json.loads((folder / DESCRIPTIONS).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ClusteringError(
            f"{folder} holds no whole clustering ({error}); delete the folder to make it anew"
        ) from error
    labels.setflags(write=False)
    return Clustering(str(manifest["hash"]), folder, labels, descriptions)


def _write(folder: Path, ingredients: ClusteringInputs, made: ClusteringOutput) -> None:
    import joblib
    import numpy as np

    joblib.dump(made.labels, folder / LABELS)
    np.save(folder / EMBEDDINGS, made.embeddings)
    joblib.dump(made.pca, folder / PCA_FILE)
    np.save(folder / CENTRES, made.centres)
    _write_json(folder / DESCRIPTIONS, made.descriptions)
    files = {name: _sha256(folder / name) for name in (LABELS, EMBEDDINGS, PCA_FILE, CENTRES, DESCRIPTIONS)}
    made_from = {"hash": ingredients.hash(), "embedded": ingredients.embedded()}
    _write_json(folder / MANIFEST, {**made_from, **ingredients.summary(), "files": files})


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
