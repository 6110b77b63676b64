"""From a tokenizer to the cluster of every token (evolution_plan.md section 2.5).

decode -> ends (cluster 0), numbers (cluster 1) -> embed -> PCA -> k-means (cluster + 2) -> describe -> write

With discovered tokens, PCA and k-means see only these, and every other token joins the cluster whose centre is nearest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.gpu.clustering.artifacts import (
    Clustering,
    ClusteringInputs,
    ClusteringOutput,
    embedder_identity,
    find_embeddings,
    load_clustering,
    save_clustering,
)
from tasks.gpu.clustering.describe import Description, describe_fixed, describe_found
from tasks.gpu.clustering.embed import embed_tokens
from tasks.gpu.clustering.errors import ClusteringError
from tasks.gpu.clustering.kmeans import Fitted, fit_all, fit_discovered
from tasks.gpu.clustering.process import Progress, silent
from tasks.gpu.clustering.vocabulary import decode_vocabulary, end_tokens, number_tokens
from tasks.models import Clusters

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FIXED = 2
"""Clusters 0 and 1 have rules of their own; k-means' cluster k is cluster k + 2."""


def cluster_vocabulary(
    tokenizer: PreTrainedTokenizerBase, clusters: Clusters, embedder: str | Path, on_progress: Progress = silent
) -> Clustering:
    """The clustering of the tokenizer's vocabulary, made and written the first time and read every other time.

    `embedder` is the folder or the Hugging Face id of the sentence-transformers model, resolved by the caller;
    `clusters.embedder` is not looked at.  Raises: ClusteringError.
    """
    on_progress("decode", 0, len(tokenizer))
    ingredients = gather(tokenizer, clusters, embedder)
    total = len(ingredients.vocabulary)
    on_progress("decode", total, total)
    folder = Path(clusters.folder) / ingredients.hash()
    if not folder.is_dir():
        made = _make(ingredients, clusters, embedder, on_progress)
        on_progress("write", 0, total)
        folder = save_clustering(Path(clusters.folder), ingredients, made)
    found = load_clustering(folder)
    on_progress("write", total, total)
    return found


def gather(tokenizer: PreTrainedTokenizerBase, clusters: Clusters, embedder: str | Path) -> ClusteringInputs:
    """All that decides what the clustering holds; its hash names the folder. Embeds nothing."""
    vocabulary = decode_vocabulary(tokenizer)
    ends = end_tokens(tokenizer)
    special = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    return ClusteringInputs(
        vocabulary=vocabulary,
        ends=ends,
        numbers=number_tokens(vocabulary, without=ends | special),
        embedder=embedder_identity(embedder),
        components=clusters.components,
        count=clusters.count,
        seed=clusters.seed,
        discovered=_discovered(clusters.discovered, len(vocabulary)),
    )


def _discovered(ids: Sequence[int], size: int) -> tuple[int, ...]:
    """The ids in order, each once.  Raises: ClusteringError for one that the vocabulary does not have."""
    if strange := sorted({i for i in ids if not 0 <= i < size}):
        raise ClusteringError(f"the discovered token {strange[0]} is not in this vocabulary of {size} tokens")
    return tuple(sorted(set(ids)))


def _make(
    ingredients: ClusteringInputs, clusters: Clusters, embedder: str | Path, on_progress: Progress
) -> ClusteringOutput:
    texts = ingredients.vocabulary
    total = len(texts)
    embeddings = find_embeddings(Path(clusters.folder), ingredients)
    if embeddings is None:
        embeddings = embed_tokens(texts, embedder, clusters.device, clusters.batch_size, on_progress)
    fixed = ingredients.ends | ingredients.numbers
    free = np.array([i for i in range(total) if i not in fixed], dtype=np.int64)
    on_progress("reduce", 0, total)
    fit = fit_discovered if ingredients.discovered else fit_all
    fitted = fit(embeddings, free, ingredients, on_progress)
    on_progress("cluster", total, total)
    return ClusteringOutput(
        labels=_labels(total, ingredients, free, fitted.found, clusters.count),
        embeddings=embeddings,
        pca=fitted.pca,
        centres=fitted.centres,
        descriptions=_describe(texts, ingredients, free, fitted, clusters.count),
    )


def _labels(
    total: int, ingredients: ClusteringInputs, free: NDArray[np.int64], found: NDArray[np.int64], count: int
) -> NDArray[Any]:
    """The final cluster of each token [total]."""
    labels = np.empty(total, dtype=np.uint8 if count + FIXED <= 256 else np.uint16)
    labels[free] = found + FIXED
    labels[sorted(ingredients.numbers)] = 1
    labels[sorted(ingredients.ends)] = 0
    return labels


def _describe(
    texts: Sequence[str],
    ingredients: ClusteringInputs,
    free: NDArray[np.int64],
    fitted: Fitted,
    count: int,
) -> list[Description]:
    descriptions = [
        describe_fixed(0, "Tokens that end a turn or a text", texts, ingredients.ends),
        describe_fixed(1, "Digits and arithmetic symbols", texts, ingredients.numbers),
    ]
    for cluster in range(count):
        inside = fitted.found == cluster
        shown = inside & fitted.shown
        description = describe_found(cluster + FIXED, texts, free[shown], fitted.distances[shown])
        if ingredients.discovered:
            description["count"] = int(inside.sum())
            own = int(shown.sum())
            kept, word = description["description"], "token" if own == 1 else "tokens"
            description["description"] = f"{own} discovered {word} and what is nearest: {kept}"
        descriptions.append(description)
    return descriptions
