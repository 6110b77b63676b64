"""A clustering is made once for its content, is whole or absent, and says what it holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import cluster_families as families
import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

from tasks.gpu.clustering.artifacts import Clustering, ClusteringError
from tasks.gpu.clustering.meaning import cluster_vocabulary
from tasks.gpu.clustering.vocabulary import decode_vocabulary, is_number_token
from tasks.gpu.prompt import answer_ends
from tasks.records import Clusters


def settings(place: Path, **changes: object) -> Clusters:
    values = Clusters(str(place), "minilm", components=8, count=4, seed=3, batch_size=64, device="cpu")
    return dataclasses.replace(values, **changes)  # type: ignore[arg-type]  # the values' types are the fields'


def clustered(family: Callable[[], PreTrainedTokenizerBase], folder: Path, **changes: object) -> Clustering:
    return cluster_vocabulary(family(), settings(folder, **changes), families.minilm_folder())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Clustering:
    return clustered(families.llama3, tmp_path_factory.mktemp("clusters"))


@pytest.mark.parametrize("family", [families.llama3, families.gemma])
def test_every_token_has_a_cluster(family: Callable[[], PreTrainedTokenizerBase], tmp_path: Path) -> None:
    # when a vocabulary is clustered
    tokenizer = family()
    found = clustered(family, tmp_path)
    # then labels cover it, added tokens included, and clusters 0 and 1 are those of the rules and nothing else
    assert found.labels.shape == (len(tokenizer),)
    assert found.labels.dtype == np.uint8
    assert set(found.labels.tolist()) == set(range(6))
    assert set(np.flatnonzero(found.labels == 0).tolist()) == answer_ends(tokenizer)
    texts = decode_vocabulary(tokenizer)
    assert [i for i, text in enumerate(texts) if is_number_token(text)] == np.flatnonzero(found.labels == 1).tolist()


def test_the_labels_follow_from_the_files(made: Clustering) -> None:
    # given what was written
    embeddings = np.load(made.folder / "embeddings.npy")
    centres = np.load(made.folder / "kmeans_centres.npy")
    mean, components = np.load(made.folder / "pca_mean.npy"), np.load(made.folder / "pca_components.npy")
    free = made.labels >= 2
    # then tokens of clusters 0 and 1 took no part in the PCA
    assert embeddings.shape == (len(made.labels), 384)
    assert embeddings.dtype == np.float32
    np.testing.assert_allclose(mean, embeddings[free].mean(axis=0), atol=1e-6)
    assert not np.allclose(mean, embeddings.mean(axis=0), atol=1e-6)
    # and each other token's label is that of the centre nearest to it
    points = (embeddings[free] - mean) @ components.T
    distances = ((points[:, None, :] - centres[None]) ** 2).sum(axis=2)
    assert (distances.argmin(axis=1) + 2 == made.labels[free]).mean() > 0.999
    # and signs are fixed: the largest weight of each component is positive
    assert (components[np.arange(8), np.abs(components).argmax(axis=1)] > 0).all()
    # and the largest cluster comes first
    sizes = np.bincount(made.labels)[2:].tolist()
    assert sizes == sorted(sizes, reverse=True)


def test_the_same_again_has_the_same_hash_and_labels(made: Clustering, tmp_path: Path) -> None:
    # given the same vocabulary in another folder, in batches of another size
    again = clustered(families.llama3, tmp_path, batch_size=32)
    assert again.folder != made.folder
    assert again.hash == made.hash
    assert again.labels.tolist() == made.labels.tolist()
    assert again.descriptions == made.descriptions


def test_it_happens_once(made: Clustering) -> None:
    # given a finished clustering
    before = {path.name: path.stat().st_mtime_ns for path in made.folder.iterdir()}
    stages: list[str] = []
    # when it is asked for again
    again = cluster_vocabulary(
        families.llama3(),
        settings(made.folder.parent),
        families.minilm_folder(),
        lambda stage, done, total: stages.append(stage),
    )
    # then nothing is embedded and no file is touched
    assert "embed" not in stages
    assert again.labels.tolist() == made.labels.tolist()
    assert {path.name: path.stat().st_mtime_ns for path in made.folder.iterdir()} == before


def test_what_cannot_be_done_is_refused_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # given settings that this vocabulary or this machine (its GPUs hidden, if it has any) cannot meet
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for changes in ({"count": 5000}, {"device": "cuda"}):
        with pytest.raises((ClusteringError, ValueError)):
            clustered(families.qwen, tmp_path, **changes)
    assert list(tmp_path.iterdir()) == []
