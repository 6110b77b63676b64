"""Principal components of the embeddings (scikit-learn's PCA), with signs that do not depend on the machine's luck."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tasks.gpu.clustering.errors import ClusteringError

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
