"""A clusters folder runs no code, and a file of it that is missing or was cut short is named."""

from __future__ import annotations

import contextlib
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

from tasks.gpu.clustering.artifacts import Clustering, ClusteringError, load_clustering, no_progress
from tasks.gpu.clustering.meaning import cluster_vocabulary, embed_tokens
from tasks.records import Clusters


class Payload:
    """What its pickle does when it is loaded: make the file PWNED."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder / "PWNED"),)


def settings(folder: Path) -> Clusters:
    return Clusters(str(folder), "minilm", components=8, count=4, seed=3, batch_size=64, device="cpu")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Clustering:
    folder = tmp_path_factory.mktemp("clusters")
    return cluster_vocabulary(families.llama3(), settings(folder), families.minilm_folder())


@pytest.fixture
def folder(made: Clustering, tmp_path: Path) -> Path:
    """A copy of a clustering, under its own name."""
    return Path(shutil.copytree(made.folder, tmp_path / "clusters" / made.hash))


def test_no_pickle_runs_under_whatever_name(made: Clustering, folder: Path, tmp_path: Path) -> None:
    # Given pickles that act when they are loaded, in the place of the files that other programs read
    for name in ("labels_kmeans.joblib", "pca.joblib"):
        joblib.dump(Payload(tmp_path), folder / name)
    # When the clustering is asked for again by its inputs, then it is the same
    again = cluster_vocabulary(families.llama3(), settings(folder.parent), families.minilm_folder())
    assert (again.hash, again.labels.tolist()) == (made.hash, made.labels.tolist())
    # When they are in the place of the labels, then these are refused
    objects = np.array([Payload(tmp_path)], dtype=object)
    np.save(folder / "labels_kmeans.npy", objects, allow_pickle=True)
    with pytest.raises(ClusteringError, match=r"labels_kmeans\.npy"):
        load_clustering(folder)
    (folder / "labels_kmeans.npy").write_bytes(pickle.dumps(Payload(tmp_path)))
    with pytest.raises(ClusteringError, match=r"labels_kmeans\.npy"):
        load_clustering(folder)
    # And nothing has happened, though these are pickles that act
    assert not (tmp_path / "PWNED").exists()
    joblib.load(folder / "pca.joblib")
    assert (tmp_path / "PWNED").exists()


@pytest.mark.parametrize("name", ["labels_kmeans.npy", "cluster_descriptions.json"])
def test_a_file_that_was_cut_short_or_is_missing_is_named(folder: Path, name: str) -> None:
    for content in ((folder / name).read_bytes()[:-20], b""):
        (folder / name).write_bytes(content)
        with pytest.raises(ClusteringError, match=f"{name}.*delete the folder"):
            load_clustering(folder)
    (folder / name).unlink()
    with pytest.raises(ClusteringError, match=f"{name}.*delete the folder"):
        load_clustering(folder)


def test_an_embedder_with_code_of_its_own_is_not_loaded(tmp_path: Path) -> None:
    embedder = Path(shutil.copytree(families.minilm_folder(), tmp_path / "embedder"))
    (embedder / "theirs.py").write_text(f"import os; os.mkdir({str(tmp_path / 'PWNED')!r})\nclass Module: ...\n")
    modules = json.loads((embedder / "modules.json").read_text())
    (embedder / "modules.json").write_text(json.dumps([{**modules[0], "type": "theirs.Module"}, *modules[1:]]))
    with pytest.raises(ClusteringError, match="embedder"):
        cluster_vocabulary(families.words(30), settings(tmp_path / "clusters"), embedder)
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize("beside", [True, False], ids=["beside safetensors", "alone"])
def test_an_embedder_that_asks_for_its_pickled_weights_runs_none(tmp_path: Path, beside: bool) -> None:
    # Given an embedder whose own settings turn off what protects from pickles
    embedder = Path(shutil.copytree(families.minilm_folder(), tmp_path / "embedder"))
    (embedder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload(tmp_path)))
    own = {"use_safetensors": False, "weights_only": False, "trust_remote_code": True}
    (embedder / "sentence_bert_config.json").write_text(json.dumps({"model_args": own, "model_kwargs": own}))
    if not beside:
        (embedder / "model.safetensors").unlink()
    # When it embeds a vocabulary, or is refused because it has nothing but the pickle
    with contextlib.nullcontext() if beside else pytest.raises(ClusteringError, match="embedder"):
        embed_tokens(["a", "b"], embedder, "cpu", 2, no_progress)
    # Then nothing has happened
    assert not (tmp_path / "PWNED").exists()
