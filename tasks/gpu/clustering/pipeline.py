"""From a tokenizer to the cluster of every token, by meaning.

decode -> eos (cluster 0), numbers (cluster 1) -> embed -> PCA -> k-means (cluster + 2) -> describe -> write

With discovered tokens, PCA and k-means are fitted on these alone, and every other token joins the nearest centre.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.gpu.clustering.artifacts import (
    CENTRES,
    DESCRIPTIONS,
    EMBEDDINGS,
    LABELS_KMEANS,
    LABELS_KMEANS_JOBLIB,
    PCA_COMPONENTS,
    PCA_JOBLIB,
    PCA_MEAN,
    Clustering,
    ClusteringError,
    ClusteringInputs,
    embedder_identity,
    save_clustering,
)
from tasks.gpu.clustering.describe import Description, describe_cluster, describe_fixed
from tasks.gpu.clustering.embed import embed_tokens
from tasks.gpu.clustering.kmeans import Fitted, fit_all, fit_discovered
from tasks.gpu.clustering.loading import find_embeddings, load_clustering
from tasks.gpu.clustering.process import Progress, no_progress
from tasks.gpu.clustering.vocabulary import classify_tokens
from tasks.records import Clusters

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FIXED = 2
"""Clusters 0 and 1 are made by rule; cluster k of k-means is cluster k + 2."""


def cluster_vocabulary(
    tokenizer: PreTrainedTokenizerBase, clusters: Clusters, embedder: str | Path, on_progress: Progress = no_progress
) -> Clustering:
    """The clustering of the tokenizer's vocabulary; computed and written the first time, read from disk later.

    `embedder` is the folder or the Hugging Face id of the sentence-transformers model, resolved by the caller;
    `clusters.embedder` is not used.
    """
    on_progress("decode", 0, len(tokenizer))
    inputs = collect_inputs(tokenizer, clusters, embedder)
    total = len(inputs.vocabulary)
    on_progress("decode", total, total)
    folder = Path(clusters.folder) / inputs.hash()
    if not folder.is_dir():
        files = _compute(inputs, clusters, embedder, on_progress)
        on_progress("write", 0, total)
        folder = save_clustering(Path(clusters.folder), inputs, files)
    clustering = load_clustering(folder)
    on_progress("write", total, total)
    return clustering


def collect_inputs(tokenizer: PreTrainedTokenizerBase, clusters: Clusters, embedder: str | Path) -> ClusteringInputs:
    """All that determines the clustering; its hash names the folder. Embeds nothing."""
    vocabulary, eos, numbers = classify_tokens(tokenizer)
    return ClusteringInputs(
        vocabulary=vocabulary,
        eos=eos,
        numbers=numbers,
        embedder=embedder_identity(embedder),
        components=clusters.components,
        count=clusters.count,
        seed=clusters.seed,
        discovered=_discovered(clusters.discovered, len(vocabulary)),
    )


def _discovered(ids: Sequence[int], size: int) -> tuple[int, ...]:
    """The ids in order, each once."""
    if unknown := sorted({i for i in ids if not 0 <= i < size}):
        raise ClusteringError(f"the discovered token {unknown[0]} is not in this vocabulary of {size} tokens")
    return tuple(sorted(set(ids)))


def _compute(
    inputs: ClusteringInputs, clusters: Clusters, embedder: str | Path, on_progress: Progress
) -> dict[str, Any]:
    """The content of each file (tasks/gpu/clustering/artifacts.py)."""
    texts = inputs.vocabulary
    total = len(texts)
    embeddings = find_embeddings(Path(clusters.folder), inputs)
    if embeddings is None:
        embeddings = embed_tokens(texts, embedder, clusters.device, clusters.batch_size, on_progress)
    fixed = inputs.eos | inputs.numbers
    free = np.array([i for i in range(total) if i not in fixed], dtype=np.int64)
    on_progress("reduce", 0, total)
    fit = fit_discovered if inputs.discovered else fit_all
    fitted = fit(embeddings, free, inputs, on_progress)
    on_progress("cluster", total, total)
    labels = _labels(total, inputs, free, fitted.labels, clusters.count)
    return {
        LABELS_KMEANS: labels,
        EMBEDDINGS: embeddings,
        PCA_COMPONENTS: fitted.pca.components_,
        PCA_MEAN: fitted.pca.mean_,
        CENTRES: fitted.centres,
        DESCRIPTIONS: _describe(texts, inputs, free, fitted, clusters.count),
        LABELS_KMEANS_JOBLIB: labels,
        PCA_JOBLIB: fitted.pca,
    }


def _labels(
    total: int, inputs: ClusteringInputs, free: NDArray[np.int64], kmeans_labels: NDArray[np.int64], count: int
) -> NDArray[Any]:
    """The final cluster of each token [total]."""
    labels = np.empty(total, dtype=np.uint8 if count + FIXED <= 256 else np.uint16)
    labels[free] = kmeans_labels + FIXED
    labels[sorted(inputs.numbers)] = 1
    labels[sorted(inputs.eos)] = 0
    return labels


def _describe(
    texts: Sequence[str],
    inputs: ClusteringInputs,
    free: NDArray[np.int64],
    fitted: Fitted,
    count: int,
) -> list[Description]:
    descriptions = [
        describe_fixed(0, "Tokens that end a turn or a text", texts, inputs.eos),
        describe_fixed(1, "Digits and arithmetic symbols", texts, inputs.numbers),
    ]
    for cluster in range(count):
        inside = fitted.labels == cluster
        own = inside & fitted.described
        description = describe_cluster(cluster + FIXED, texts, free[own], fitted.distances[own])
        if inputs.discovered:
            description["count"] = int(inside.sum())
            count_own = int(own.sum())
            text, word = description["description"], "token" if count_own == 1 else "tokens"
            description["description"] = f"{count_own} discovered {word} and what is nearest: {text}"
        descriptions.append(description)
    return descriptions
