"""From embeddings to clusters: PCA, then k-means (scikit-learn), fitted on all tokens or on discovered tokens.

The result is the same on every run: nothing random is left, and the signs of the components are fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tasks.gpu.clustering.artifacts import ClusteringError, ClusteringInputs
from tasks.gpu.clustering.process import Progress

if TYPE_CHECKING:
    from sklearn.decomposition import PCA

STARTS = 4
"""How many starts (k-means++) are tried; the one with the least inertia is kept."""


def reduce_embeddings(embeddings: NDArray[np.float32], components: int, seed: int) -> tuple[PCA, NDArray[np.float32]]:
    """The fitted PCA and the embeddings [n, d] in its space, [n, components] float32.

    The solver is the eigendecomposition of the covariance: less than a second for a vocabulary, and nothing in it is
    random.  `seed` is only recorded in the PCA.  A component's sign is arbitrary; it is set so that the component's
    largest weight is positive.
    """
    from sklearn.decomposition import PCA
    from threadpoolctl import threadpool_limits

    most = min(embeddings.shape)
    if not 1 <= components <= most:
        raise ClusteringError(
            f"a PCA of {components} components needs at least as many tokens and dimensions; "
            f"here are {embeddings.shape[0]} tokens of {embeddings.shape[1]} dimensions"
        )
    # One thread: several threads would round a sum differently from run to run.
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


def cluster_points(points: NDArray[np.float32], count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The cluster of each point [n], 0 ... count - 1, and the centres [count, d], the largest cluster first.

    The numbers that k-means gives are arbitrary.  Here they are ordered by size, then by the first point, so that they
    stay the same when another start finds the same clusters.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    distinct = len(np.unique(points, axis=0))
    if not 1 <= count <= distinct:
        raise ClusteringError(f"{count} clusters need at least as many different tokens; here are {distinct}")
    # One thread, as for the PCA.
    with threadpool_limits(limits=1):
        fitted = KMeans(n_clusters=count, n_init=STARTS, random_state=seed, algorithm="lloyd").fit(points)
    labels = fitted.labels_.astype(np.int64)
    sizes = np.bincount(labels, minlength=count)
    first = [int(np.argmax(labels == cluster)) for cluster in range(count)]
    order = sorted(range(count), key=lambda cluster: (-sizes[cluster], first[cluster]))
    rank = np.empty(count, dtype=np.int64)
    rank[order] = np.arange(count)
    return rank[labels], fitted.cluster_centers_[order].astype(np.float32)


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

    pca; centres [count, components]; labels [n] the cluster of each token, from 0; distances [n] from its centre;
    described [n] whether a description may name it.
    """

    pca: PCA
    centres: NDArray[np.float32]
    labels: NDArray[np.int64]
    distances: NDArray[np.float32]
    described: NDArray[np.bool_]


def fit_all(
    embeddings: NDArray[np.float32], free: NDArray[np.int64], inputs: ClusteringInputs, on_progress: Progress
) -> Fitted:
    """Fitted on all tokens `free` [n]; embeddings [V, d]."""
    pca, points = reduce_embeddings(embeddings[free], inputs.components, inputs.seed)
    on_progress("cluster", 0, len(embeddings))
    labels, centres = cluster_points(points, inputs.count, inputs.seed)
    return Fitted(pca, centres, labels, _distances(points, centres, labels), np.ones(len(free), dtype=bool))


def fit_discovered(
    embeddings: NDArray[np.float32], free: NDArray[np.int64], inputs: ClusteringInputs, on_progress: Progress
) -> Fitted:
    """Fitted on the discovered tokens among `free` [n]; each other token gets the nearest centre."""
    discovered = np.isin(free, inputs.discovered)
    different = len(np.unique(embeddings[free[discovered]], axis=0))
    if different < max(2, inputs.count):
        raise ClusteringError(
            f"{inputs.count} clusters need at least {max(2, inputs.count)} different discovered tokens; "
            f"of the {len(inputs.discovered)} here {different} differ in words and are not in clusters 0 and 1"
        )
    # n points lie in n - 1 dimensions: components beyond these would be 0 for every centre and tell no token from
    # another.
    components = min(inputs.components, different - 1)
    pca, _ = reduce_embeddings(embeddings[free[discovered]], components, inputs.seed)
    points = project(pca, embeddings[free])
    on_progress("cluster", 0, len(embeddings))
    labels = np.empty(len(free), dtype=np.int64)
    labels[discovered], centres = cluster_points(points[discovered], inputs.count, inputs.seed)
    labels[~discovered] = nearest_centres(points[~discovered], centres)
    return Fitted(pca, centres, labels, _distances(points, centres, labels), discovered)


def _distances(
    points: NDArray[np.float32], centres: NDArray[np.float32], labels: NDArray[np.int64]
) -> NDArray[np.float32]:
    distances: NDArray[np.float32] = np.linalg.norm(points - centres[labels], axis=1)
    return distances
