"""Principal components of the embeddings (scikit-learn's PCA), with signs that do not depend on the machine's luck.

k-means over the reduced embeddings (scikit-learn), the same on every run.

From embeddings to clusters: PCA and k-means fitted on the whole vocabulary, or on discovered tokens alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tasks.gpu.clustering.artifacts import ClusteringInputs
from tasks.gpu.clustering.errors import ClusteringError
from tasks.gpu.clustering.process import Progress

if TYPE_CHECKING:
    from sklearn.decomposition import PCA


def reduce_embeddings(embeddings: NDArray[np.float32], components: int, seed: int) -> tuple[PCA, NDArray[np.float32]]:
    """The fitted PCA and the embeddings [n, d] in its space, [n, components] float32.

    The full eigendecomposition of the covariance is used: for a vocabulary it costs less than a second and, unlike the
    randomized solver, has nothing random in it.  `seed` is passed on so that the file says with what it was made.
    A component's sign is arbitrary; it is set so that the largest weight of each component is positive.
    Raises: ClusteringError when there are fewer tokens or dimensions than components.
    """
    from sklearn.decomposition import PCA
    from threadpoolctl import threadpool_limits

    most = min(embeddings.shape)
    if not 1 <= components <= most:
        raise ClusteringError(
            f"a PCA of {components} components needs at least as many tokens and dimensions; "
            f"here are {embeddings.shape[0]} tokens of {embeddings.shape[1]} dimensions"
        )
    # One thread: a sum that several threads share out is rounded differently from run to run.
    with threadpool_limits(limits=1):
        pca = PCA(n_components=components, svd_solver="covariance_eigh", random_state=seed).fit(embeddings)
        weights = pca.components_
        largest = weights[np.arange(components), np.abs(weights).argmax(axis=1)]
        pca.components_ = weights * np.where(largest < 0, -1, 1).astype(weights.dtype)[:, None]
        return pca, project(pca, embeddings)


def project(pca: PCA, embeddings: NDArray[np.float32]) -> NDArray[np.float32]:
    """Embeddings [n, d] in the space of a fitted PCA, [n, components] float32."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        projected: NDArray[np.float32] = pca.transform(embeddings).astype(np.float32)
    return projected


STARTS = 4
"""How many starts (k-means++) are tried; the one with the least inertia is kept."""


def cluster_points(points: NDArray[np.float32], count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The cluster of each point [n], 0 ... count - 1, and the centres [count, d], the largest cluster first.

    k-means numbers its clusters by chance; ordering them by size (then by their first point) makes the number mean
    something and keeps it when another start finds the same clusters.
    Raises: ClusteringError when there are fewer distinct points than clusters.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    distinct = len(np.unique(points, axis=0))
    if not 1 <= count <= distinct:
        raise ClusteringError(f"{count} clusters need at least as many different tokens; here are {distinct}")
    # One thread, for the reason that the PCA has one.
    with threadpool_limits(limits=1):
        fitted = KMeans(n_clusters=count, n_init=STARTS, random_state=seed, algorithm="lloyd").fit(points)
    found = fitted.labels_.astype(np.int64)
    sizes = np.bincount(found, minlength=count)
    first = [int(np.argmax(found == cluster)) for cluster in range(count)]
    order = sorted(range(count), key=lambda cluster: (-sizes[cluster], first[cluster]))
    rank = np.empty(count, dtype=np.int64)
    rank[order] = np.arange(count)
    return rank[found], fitted.cluster_centers_[order].astype(np.float32)


def nearest_centres(points: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.int64]:
    """The centre nearest to each point [n]; of two that are equally near, the first."""
    from sklearn.metrics import pairwise_distances_argmin
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        nearest: NDArray[np.int64] = pairwise_distances_argmin(points, centres).astype(np.int64)
    return nearest


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
    embeddings: NDArray[np.float32], free: NDArray[np.int64], ingredients: ClusteringInputs, on_progress: Progress
) -> Fitted:
    """Fitted on all tokens `free` [n]; embeddings [V, d].  Raises: ClusteringError for too few of them."""
    pca, points = reduce_embeddings(embeddings[free], ingredients.components, ingredients.seed)
    on_progress("cluster", 0, len(embeddings))
    found, centres = cluster_points(points, ingredients.count, ingredients.seed)
    return Fitted(pca, centres, found, _distances(points, centres, found), np.ones(len(free), dtype=bool))


def fit_discovered(
    embeddings: NDArray[np.float32], free: NDArray[np.int64], ingredients: ClusteringInputs, on_progress: Progress
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
