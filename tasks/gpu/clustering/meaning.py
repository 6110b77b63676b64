"""Clusters by meaning: k-means over sentence embeddings of the tokens.

decode -> ends (cluster 0), numbers (cluster 1) -> embed -> PCA -> k-means (cluster + 2) -> describe -> write

With discovered tokens, PCA and k-means are fitted on these alone, and every other token joins the nearest centre.

The result is the same on every run: nothing random is left, the signs of the components are fixed, and each batch is
computed by one thread.  A token's text is embedded without the white space around it; what has no such text (white
space alone, a part of a character, ids without a token) is embedded as words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.common.files import model_sha256
from tasks.gpu.clustering import artifacts
from tasks.gpu.clustering.artifacts import Clustering, ClusteringError, Progress
from tasks.gpu.clustering.vocabulary import REPLACEMENT, Vocabulary, classify_tokens
from tasks.records import Clusters

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from sklearn.decomposition import PCA
    from transformers import PreTrainedTokenizerBase

FIXED = 2  # clusters 0 and 1 are made by rule; cluster k of k-means is cluster k + 2
STARTS = 4  # of k-means++; the one with the least inertia is kept
MAX_LENGTH = 32  # in the embedder's tokens; longer tokens are mostly runs of dashes
NO_PICKLE = {"use_safetensors": True, "weights_only": True}  # whatever the embedder's own configuration asks for
Ids = tuple[int, ...]  # one input of the embedder: its own token ids


def cluster_vocabulary(
    tokenizer: PreTrainedTokenizerBase,
    clusters: Clusters,
    embedder: str | Path,
    on_progress: Progress = lambda *_: None,
) -> Clustering:
    """The clustering of the tokenizer's vocabulary; computed and written the first time, read from disk later.

    `embedder`, a folder or a Hugging Face id, is used in place of `clusters.embedder`.
    """
    on_progress("decode", 0, len(tokenizer))
    vocabulary = classify_tokens(tokenizer)
    manifest, root, total = _manifest(vocabulary, clusters, embedder), Path(clusters.folder), len(vocabulary.texts)

    def make() -> dict[str, Any]:
        embeddings = artifacts.find_embeddings(root, manifest["embedded"])
        if embeddings is None:
            embeddings = embed_tokens(vocabulary.texts, embedder, clusters.device, clusters.batch_size, on_progress)
        on_progress("reduce", 0, total)
        return _cluster_embeddings(vocabulary, embeddings, clusters)

    clustering = artifacts.made_once(root, manifest, make)
    on_progress("write", total, total)
    return clustering


def _manifest(vocabulary: Vocabulary, clusters: Clusters, embedder: str | Path) -> dict[str, Any]:
    """All that determines a clustering, with its hash, and that of what determines the embeddings, "embedded"."""
    name = f"sha256:{model_sha256(Path(embedder))}" if Path(embedder).is_dir() else str(embedder)
    summary: dict[str, Any] = {
        "embedder": name,
        "components": clusters.components,
        "count": clusters.count,
        "seed": clusters.seed,
    }
    if clusters.discovered:
        summary["discovered"] = sorted(set(clusters.discovered))
        size = len(vocabulary.texts)
        if unknown := [i for i in summary["discovered"] if not 0 <= i < size]:
            raise ClusteringError(f"the discovered token {unknown[0]} is not in this vocabulary of {size} tokens")
    embedded = artifacts.hash_of(artifacts.VERSION, vocabulary.texts, name)
    return {**artifacts.manifest_of(vocabulary, summary), "embedded": embedded}


def _cluster_embeddings(vocabulary: Vocabulary, embeddings: NDArray[np.float32], clusters: Clusters) -> dict[str, Any]:
    """The content of each file of the clustering; `embeddings` [V, dimension]."""
    texts, ends, numbers = vocabulary
    free = np.array([i for i in range(len(texts)) if i not in ends | numbers], dtype=np.int64)
    fitted = np.isin(free, clusters.discovered) if clusters.discovered else np.ones(len(free), dtype=bool)
    pca, points = _reduce(embeddings[free], fitted, clusters)
    found, centres = _cluster(points, fitted, clusters)
    distances = np.linalg.norm(points - centres[found], axis=1)
    labels = np.empty(len(texts), dtype=artifacts.labels_type(clusters.count + FIXED))
    labels[free] = found + FIXED
    labels[sorted(numbers)] = 1
    labels[sorted(ends)] = 0
    descriptions = [
        artifacts.describe_fixed(0, "Tokens that end a turn or a text", texts, ends),
        artifacts.describe_fixed(1, "Digits and arithmetic symbols", texts, numbers),
    ]
    for cluster in range(clusters.count):
        inside = found == cluster
        own = inside & fitted
        described = artifacts.describe_nearest(cluster + FIXED, texts, free[own], distances[own])
        if clusters.discovered:
            what = f"{own.sum()} discovered {'token' if own.sum() == 1 else 'tokens'} and what is nearest"
            described["description"] = f"{what}: {described['description']}"
            described["count"] = int(inside.sum())
        descriptions.append(described)
    return {
        artifacts.LABELS_KMEANS: labels,
        artifacts.EMBEDDINGS: embeddings,
        "pca_components.npy": pca.components_,
        "pca_mean.npy": pca.mean_,
        "kmeans_centres.npy": centres,
        artifacts.DESCRIPTIONS: descriptions,
        "labels_kmeans.joblib": labels,
        "pca.joblib": pca,
    }


def embedded_text(text: str) -> str:
    """The words that are embedded for a token with this text. Never empty."""
    if not text:
        return "unused token"
    words = text.replace(REPLACEMENT, "").strip()
    if words:
        return words
    if REPLACEMENT in text:
        return "part of a character"
    return "line break" if "\n" in text or "\r" in text else "blank space"


def embed_tokens(
    texts: Sequence[str], embedder: str | Path, device: str, batch_size: int, on_progress: Progress
) -> NDArray[np.float32]:
    """Embeddings [len(texts), dimension] float32 of tokens with these texts; equal inputs are embedded once."""
    on_progress("embed", 0, len(texts))
    words = [embedded_text(text) for text in texts]
    distinct = sorted(set(words))
    model = _load(embedder, device)
    inputs = _tokenize(model, distinct)
    batches = list(_batches(inputs, batch_size))
    rows: dict[Ids, NDArray[np.float32]] = {}
    total = sum(len(batch) for batch in batches)
    for batch, embeddings in _embed(model, batches):
        rows.update(zip(batch, embeddings, strict=True))
        on_progress("embed", len(rows) * len(texts) // total, len(texts))
    input_of = dict(zip(distinct, inputs, strict=True))
    return np.stack([rows[input_of[word]] for word in words])


def _load(embedder: str | Path, device: str) -> SentenceTransformer:
    from sentence_transformers import SentenceTransformer

    try:
        model = SentenceTransformer(str(embedder), device=device, trust_remote_code=False, model_kwargs=NO_PICKLE)
    except (OSError, ValueError, AssertionError) as error:  # torch asserts that it has the device
        raise artifacts.cannot_load("embedder", embedder, error) from error
    model.max_seq_length = min(model.max_seq_length or MAX_LENGTH, MAX_LENGTH)
    return model.eval()


def _tokenize(model: SentenceTransformer, words: Sequence[str]) -> list[Ids]:
    """The embedder's token ids for each of the words, without padding."""
    features: dict[str, Any] = model.preprocess(list(words))
    rows = zip(features["input_ids"].tolist(), features["attention_mask"].tolist(), strict=True)
    return [tuple(i for i, real in zip(ids, mask, strict=True) if real) for ids, mask in rows]


def _batches(inputs: Sequence[Ids], batch_size: int) -> Iterator[tuple[Ids, ...]]:
    """The distinct inputs, longest first, so that the last is soon done; of one length each, so nothing is padded."""
    for _, same_length in groupby(sorted(set(inputs), key=lambda ids: (-len(ids), ids)), key=len):
        group = list(same_length)
        for start in range(0, len(group), batch_size):
            yield tuple(group[start : start + batch_size])


def _embed(
    model: SentenceTransformer, batches: Sequence[tuple[Ids, ...]]
) -> Iterator[tuple[tuple[Ids, ...], NDArray[np.float32]]]:
    """Each batch with its embeddings [len(batch), dimension], in the order in which they are ready."""
    import torch

    threads = torch.get_num_threads()
    workers = threads if model.device.type == "cpu" else 1

    def embed(batch: tuple[Ids, ...]) -> tuple[tuple[Ids, ...], NDArray[np.float32]]:
        ids = torch.tensor(batch, device=model.device)
        features: Any = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "modality": "text"}
        with torch.inference_mode():
            return batch, model(features)["sentence_embedding"].float().cpu().numpy()

    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        for done in as_completed([pool.submit(embed, batch) for batch in batches]):
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def _reduce(
    embeddings: NDArray[np.float32], fitted: NDArray[np.bool_], clusters: Clusters
) -> tuple[PCA, NDArray[np.float32]]:
    """The PCA of the `fitted` ones of the embeddings [n, d], and all in its space, [n, components] float32.

    Nothing in the solver is random.  A component's sign is set so that its largest weight is positive.
    """
    from sklearn.decomposition import PCA
    from threadpoolctl import threadpool_limits

    chosen, components = embeddings[fitted], clusters.components
    if clusters.discovered:
        different = len(np.unique(chosen, axis=0))
        if different < max(2, clusters.count):
            raise ClusteringError(
                f"{clusters.count} clusters need at least {max(2, clusters.count)} different discovered tokens; of the "
                f"{len(clusters.discovered)} here {different} differ in words and are not in clusters 0 and 1"
            )
        # n points lie in n - 1 dimensions: components beyond these would be 0 for every centre.
        components = min(components, different - 1)
    # One thread: several threads would round a sum differently from run to run.
    with threadpool_limits(limits=1):
        pca = PCA(n_components=components, svd_solver="covariance_eigh", random_state=clusters.seed).fit(chosen)
        weights = pca.components_
        largest = weights[np.arange(components), np.abs(weights).argmax(axis=1)]
        pca.components_ = weights * np.where(largest < 0, -1, 1).astype(weights.dtype)[:, None]
        return pca, pca.transform(embeddings).astype(np.float32)


def _cluster(
    points: NDArray[np.float32], fitted: NDArray[np.bool_], clusters: Clusters
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The cluster of each point [n], from 0, and the centres [count, d].

    The numbers that k-means gives are arbitrary: here they are ordered by size, then by the first point.
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import pairwise_distances_argmin
    from threadpoolctl import threadpool_limits

    count, chosen = clusters.count, points[fitted]
    labels = np.empty(len(points), dtype=np.int64)
    with threadpool_limits(limits=1):  # as for the PCA
        found = KMeans(n_clusters=count, n_init=STARTS, random_state=clusters.seed, algorithm="lloyd").fit(chosen)
        sizes = np.bincount(found.labels_, minlength=count)
        first = [int(np.argmax(found.labels_ == cluster)) for cluster in range(count)]
        order = sorted(range(count), key=lambda cluster: (-sizes[cluster], first[cluster]))
        rank = np.empty(count, dtype=np.int64)
        rank[order] = np.arange(count)
        centres = found.cluster_centers_[order].astype(np.float32)
        labels[fitted] = rank[found.labels_]
        labels[~fitted] = pairwise_distances_argmin(points[~fitted], centres) if not fitted.all() else 0
    return labels, centres
