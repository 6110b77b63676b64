"""k-means over the reduced embeddings (scikit-learn), the same on every run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tasks.gpu.clustering.errors import ClusteringError

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
