"""Clusters by meaning: labels follow from the files, are made once, and no file of a folder runs code."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import cluster_families as families
import joblib
import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

from tasks.gpu.clustering.artifacts import Clustering, ClusteringError, load_clustering
from tasks.gpu.clustering.meaning import cluster_vocabulary
from tasks.gpu.clustering.vocabulary import decode_vocabulary, is_number_token
from tasks.gpu.prompt import answer_ends
from tasks.records import Clusters


def settings(place: Path, **changes: Any) -> Clusters:
    values = Clusters(str(place), "minilm", components=8, count=4, seed=3, batch_size=64, device="cpu")
    return dataclasses.replace(values, **changes)


def clustered(tokenizer: PreTrainedTokenizerBase, folder: Path, **changes: Any) -> Clustering:
    return cluster_vocabulary(tokenizer, settings(folder, **changes), families.minilm_folder())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Clustering:
    return clustered(families.llama3(), tmp_path_factory.mktemp("clusters"))


@pytest.fixture
def folder(made: Clustering, tmp_path: Path) -> Path:
    """A copy of a clustering, under its own name."""
    return Path(shutil.copytree(made.folder, tmp_path / "clusters" / made.hash))


def points_of(found: Clustering, fitted: Any) -> tuple[np.ndarray, np.ndarray]:
    """From the files: the tokens in the space of a PCA that was fitted on some, and the nearest centre of each."""
    embeddings, mean, components, centres = (
        np.load(found.folder / f"{name}.npy") for name in ("embeddings", "pca_mean", "pca_components", "kmeans_centres")
    )
    np.testing.assert_allclose(mean, embeddings[fitted].mean(axis=0), atol=1e-6)
    points = (embeddings - mean) @ components.T
    return points, ((points[:, None, :] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)


def test_every_token_has_a_cluster_which_follows_from_the_files(made: Clustering) -> None:
    # labels cover the vocabulary, added tokens included, and clusters 0 and 1 are those of the rules and nothing else
    tokenizer = families.llama3()
    assert (made.labels.shape, made.labels.dtype) == ((len(tokenizer),), np.uint8)
    assert set(made.labels.tolist()) == set(range(6))
    assert set(np.flatnonzero(made.labels == 0).tolist()) == answer_ends(tokenizer)
    texts = decode_vocabulary(tokenizer)
    assert [i for i, text in enumerate(texts) if is_number_token(text)] == np.flatnonzero(made.labels == 1).tolist()
    # tokens of clusters 0 and 1 took no part in the PCA, and each other token has the nearest centre
    free = made.labels >= 2
    _, nearest = points_of(made, free)
    assert (nearest[free] + 2 == made.labels[free]).mean() > 0.999


def test_the_labels_follow_from_the_discovered_tokens_alone(tmp_path: Path) -> None:
    tokenizer = families.qwen()
    texts = decode_vocabulary(tokenizer)
    numbers = [i for i, text in enumerate(texts) if text in ("1", "5", "$", "%")]
    words = [i for i, text in enumerate(texts) if text.strip().isalpha() and len(text.strip()) > 2][:12]
    discovered = (*numbers, tokenizer.eos_token_id, *words)
    found = clustered(tokenizer, tmp_path, discovered=discovered, components=50, count=2)
    # each centre is the mean of the discovered words of its cluster, and every token has the nearest
    points, nearest = points_of(found, words)
    for cluster, centre in enumerate(np.load(found.folder / "kmeans_centres.npy")):
        own = [i for i in words if found.labels[i] == cluster + 2]
        np.testing.assert_allclose(points[own].mean(axis=0), centre, atol=1e-5)
    free = found.labels >= 2
    assert (nearest[free] + 2 == found.labels[free]).all()
    # and numbers and ends keep their clusters
    assert {int(found.labels[i]) for i in numbers} == {1}
    assert found.labels[tokenizer.eos_token_id] == 0


def test_the_same_inputs_give_the_same_clustering_and_it_is_made_once(made: Clustering, tmp_path: Path) -> None:
    # Given the same vocabulary in another folder, in batches of another size
    again = clustered(families.llama3(), tmp_path, batch_size=32)
    assert (again.hash, again.descriptions) == (made.hash, made.descriptions)
    assert again.labels.tolist() == made.labels.tolist()
    # When it is asked for once more, then nothing is embedded and no file is touched
    before = {path.name: path.stat().st_mtime_ns for path in again.folder.iterdir()}
    stages: list[str] = []
    embedder = families.minilm_folder()
    cluster_vocabulary(families.llama3(), settings(tmp_path), embedder, lambda stage, *_: stages.append(stage))
    assert "embed" not in stages
    assert {path.name: path.stat().st_mtime_ns for path in again.folder.iterdir()} == before


def test_what_cannot_be_done_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    for changes in ({"count": 5000}, {"count": 3, "discovered": (7, 30)}, {"discovered": (7, 100)}):
        with pytest.raises((ClusteringError, ValueError)):
            clustered(families.words(100), tmp_path, **changes)
        assert list(tmp_path.iterdir()) == []


class Payload:
    """What its pickle does when it is loaded: make the file PWNED."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder / "PWNED"),)


def test_no_pickle_runs_in_the_place_of_the_labels(folder: Path, tmp_path: Path) -> None:
    joblib.dump(Payload(tmp_path), folder / "pca.joblib")  # of other programs, and not read
    objects = np.array([Payload(tmp_path)], dtype=object)
    np.save(folder / "labels_kmeans.npy", objects, allow_pickle=True)
    whole = (folder / "labels_kmeans.npy").read_bytes()
    for content in (whole, pickle.dumps(Payload(tmp_path))):
        (folder / "labels_kmeans.npy").write_bytes(content)
        with pytest.raises(ClusteringError, match=r"labels_kmeans\.npy"):
            load_clustering(folder)
    # And nothing has happened, though these are pickles that act
    assert not (tmp_path / "PWNED").exists()
    joblib.load(folder / "pca.joblib")
    assert (tmp_path / "PWNED").exists()


def test_a_file_that_was_cut_short_is_named(folder: Path) -> None:
    for name in ("cluster_descriptions.json", "labels_kmeans.npy"):
        (folder / name).write_bytes((folder / name).read_bytes()[:-20])
        with pytest.raises(ClusteringError, match=name):
            load_clustering(folder)


@pytest.mark.parametrize("has", ["code", "pickle"])
def test_an_embedder_runs_no_code_of_its_own(has: str, tmp_path: Path) -> None:
    # Given an embedder with a module of its own, or with a pickle and settings that turn off what protects from it
    embedder = Path(shutil.copytree(families.minilm_folder(), tmp_path / "embedder"))
    if has == "code":
        (embedder / "theirs.py").write_text(f"import os; os.mkdir({str(tmp_path / 'PWNED')!r})\nclass Module: ...\n")
        modules = json.loads((embedder / "modules.json").read_text())
        (embedder / "modules.json").write_text(json.dumps([{**modules[0], "type": "theirs.Module"}, *modules[1:]]))
    else:
        (embedder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload(tmp_path)))
        own = {"use_safetensors": False, "weights_only": False, "trust_remote_code": True}
        (embedder / "sentence_bert_config.json").write_text(json.dumps({"model_args": own, "model_kwargs": own}))
        (embedder / "model.safetensors").unlink()
    # Then it is refused, and nothing has happened
    with pytest.raises(ClusteringError, match="embedder"):
        cluster_vocabulary(families.words(30), settings(tmp_path / "clusters"), embedder)
    assert not (tmp_path / "PWNED").exists()
