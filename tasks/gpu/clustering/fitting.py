"""From embeddings to clusters: PCA and k-means fitted on the whole vocabulary, or on discovered tokens alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tasks.gpu.clustering.artifacts import Ingredients
from tasks.gpu.clustering.errors import ClusteringError
from tasks.gpu.clustering.kmeans import cluster_points, nearest_centres
from tasks.gpu.clustering.progress import Progress
from tasks.gpu.clustering.reduce import project, reduce_embeddings

if TYPE_CHECKING:
    from sklearn.decomposition import PCA


@dataclass(frozen=True, eq=False)
class Fitted:
    """k-means' clusters of the n tokens that are neither in cluster 0 nor in cluster 1.

    pca; centres [count, components]; found [n] the cluster of each token, from 0; distances [n] from its centre;
    shown [n] whether it may stand for its cluster in a description.
    """

    pca: PCA
    centres: NDArray[np.float32]
    found: NDArray[np.int64]
    distances: NDArray[np.float32]
    shown: NDArray[np.bool_]


def fit_all(
    embeddings: NDArray[np.float32], free: NDArray[np.int64], ingredients: Ingredients, on_progress: Progress
) -> Fitted:
    """Fitted on all tokens `free` [n]; embeddings [V, d].  Raises: ClusteringError for too few of them."""
    pca, points = reduce_embeddings(embeddings[free], ingredients.components, ingredients.seed)
    on_progress("cluster", 0, len(embeddings))
    found, centres = cluster_points(points, ingredients.count, ingredients.seed)
    return Fitted(pca, centres, found, _distances(points, centres, found), np.ones(len(free), dtype=bool))


def fit_discovered(
    embeddings: NDArray[np.float32], free: NDArray[np.int64], ingredients: Ingredients, on_progress: Progress
) -> Fitted:
    """Fitted on the discovered tokens among `free` [n]; each other token gets the nearest centre.

    Raises: ClusteringError for fewer different discovered tokens than clusters, or fewer than two.
    """
    chosen = np.isin(free, ingredients.discovered)
    different = len(np.unique(embeddings[free[chosen]], axis=0))
    if different < max(2, ingredients.count):
        raise ClusteringError(
            f"{ingredients.count} clusters need at least {max(2, ingredients.count)} different discovered tokens; "
            f"of the {len(ingredients.discovered)} here {different} differ in words and are not in clusters 0 and 1"
        )
    # n points lie in n - 1 dimensions: components beyond these would be 0 for every centre and tell no token from
    # another.
    components = min(ingredients.components, different - 1)
    pca, _ = reduce_embeddings(embeddings[free[chosen]], components, ingredients.seed)
    points = project(pca, embeddings[free])
    on_progress("cluster", 0, len(embeddings))
    found = np.empty(len(free), dtype=np.int64)
    found[chosen], centres = cluster_points(points[chosen], ingredients.count, ingredients.seed)
    found[~chosen] = nearest_centres(points[~chosen], centres)
    return Fitted(pca, centres, found, _distances(points, centres, found), chosen)


def _distances(
    points: NDArray[np.float32], centres: NDArray[np.float32], found: NDArray[np.int64]
) -> NDArray[np.float32]:
    distances: NDArray[np.float32] = np.linalg.norm(points - centres[found], axis=1)
    return distances
