"""Clusters of discovered tokens: k-means sees these alone, and every other token goes to the nearest centre."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import cluster_families as families
import numpy as np
import pytest

from tasks.gpu.clustering.artifacts import Clustering, ClusteringError
from tasks.gpu.clustering.meaning import cluster_vocabulary
from tasks.gpu.clustering.vocabulary import decode_vocabulary
from tasks.records import Clusters

DISCOVERED = (7, 30, 31, 90, 120, 121, 200, 260, 330, 331, 400, 401, 430, 455)


def settings(folder: Path, **changes: object) -> Clusters:
    values = Clusters(
        str(folder), "minilm", components=50, count=3, seed=3, batch_size=64, device="cpu", discovered=DISCOVERED
    )
    return dataclasses.replace(values, **changes)  # type: ignore[arg-type]  # the values' types are the fields'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Clustering:
    return cluster_vocabulary(
        families.words(600), settings(tmp_path_factory.mktemp("clusters")), families.minilm_folder()
    )


def test_the_labels_follow_from_the_discovered_tokens_and_the_files(made: Clustering) -> None:
    # given what was written
    embeddings = np.load(made.folder / "embeddings.npy")
    centres = np.load(made.folder / "kmeans_centres.npy")
    mean, components = np.load(made.folder / "pca_mean.npy"), np.load(made.folder / "pca_components.npy")
    chosen = list(DISCOVERED)
    # then the PCA was fitted on the discovered tokens, with as many components as these can have
    np.testing.assert_allclose(mean, embeddings[chosen].mean(axis=0), atol=1e-6)
    assert centres.shape == (3, len(DISCOVERED) - 1)
    # and each centre is the mean of the discovered tokens of its cluster
    points = (embeddings - mean) @ components.T
    for cluster in range(3):
        own = [i for i in chosen if made.labels[i] == cluster + 2]
        np.testing.assert_allclose(points[own].mean(axis=0), centres[cluster], atol=1e-5)
    # and every token, discovered or not, is in the cluster of the nearest centre
    distances = ((points[:, None, :] - centres[None]) ** 2).sum(axis=2)
    assert (distances.argmin(axis=1) + 2 == made.labels).all()
    assert made.labels.shape == (600,)


def test_too_few_or_unknown_tokens_are_refused(tmp_path: Path) -> None:
    for changes in ({"count": 15}, {"discovered": (7, 7, 7), "count": 1}, {"discovered": (7, 600)}):
        with pytest.raises(ClusteringError):
            cluster_vocabulary(families.words(600), settings(tmp_path, **changes), families.minilm_folder())
    assert list(tmp_path.iterdir()) == []


def test_numbers_and_ends_keep_their_clusters_when_they_are_discovered(tmp_path: Path) -> None:
    # given a vocabulary with digits and an end-of-turn token, all of which were discovered with some words
    tokenizer = families.qwen()
    texts = decode_vocabulary(tokenizer)
    numbers = [i for i, text in enumerate(texts) if text in ("1", "5", "$", "%")]
    words = [i for i, text in enumerate(texts) if text.strip().isalpha() and len(text.strip()) > 2][:12]
    found = cluster_vocabulary(
        tokenizer,
        settings(tmp_path, discovered=(*numbers, tokenizer.eos_token_id, *words), count=2),
        families.minilm_folder(),
    )
    assert {int(found.labels[i]) for i in numbers} == {1}
    assert found.labels[tokenizer.eos_token_id] == 0
    assert set(found.labels.tolist()) == {0, 1, 2, 3}
