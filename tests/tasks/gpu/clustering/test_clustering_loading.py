"""A clusters folder from elsewhere runs no code, and is loaded only when its files hold what a clustering holds."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cluster_families as families
import joblib
import numpy as np
import pytest
import torch

from tasks.gpu.clustering import Clustering, ClusteringError, load_clustering
from tasks.gpu.clustering.embed import embed_tokens
from tasks.gpu.clustering.loading import find_embeddings
from tasks.gpu.clustering.pipeline import cluster_vocabulary, collect_inputs
from tasks.gpu.clustering.process import no_progress
from tasks.gpu.clustering.waste_pipeline import cluster_answers
from tasks.models import Clusters, Sides

SIDES = Sides(("The company reported revenue of 7 million, as the page says.", "The answer is 12."), ("7", "12."))


class Payload:
    """What its pickle does when it is loaded: make the file PWNED."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder / "PWNED"),)


def settings(folder: Path) -> Clusters:
    return Clusters(str(folder), "minilm", components=8, count=4, seed=3, batch_size=64, device="cpu", buckets=3)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Clustering:
    folder = tmp_path_factory.mktemp("clusters")
    return cluster_vocabulary(families.llama3(), settings(folder), families.minilm_folder())


@pytest.fixture
def folder(made: Clustering, tmp_path: Path) -> Path:
    """A copy of a clustering, under its own name."""
    return Path(shutil.copytree(made.folder, tmp_path / "clusters" / made.hash))


def plant(folder: Path, name: str, content: bytes) -> None:
    """Put a file into a clustering, and its hash into the manifest: the folder's maker can do both."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] = hashlib.sha256(content).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / name).write_bytes(content)


def written(save: Callable[[io.BytesIO], object]) -> bytes:
    file = io.BytesIO()
    save(file)
    return file.getvalue()


def test_a_crafted_joblib_is_not_loaded(made: Clustering, folder: Path, tmp_path: Path) -> None:
    # Given pickles that act when they are loaded, in the place of the files that other programs read
    for name in ("labels_kmeans.joblib", "pca.joblib"):
        plant(folder, name, written(lambda file: joblib.dump(Payload(tmp_path), file)))
    # When the clustering is loaded, and asked for again by its inputs
    assert load_clustering(folder).labels.tolist() == made.labels.tolist()
    again = cluster_vocabulary(families.llama3(), settings(folder.parent), families.minilm_folder())
    # Then it is the same, and nothing has happened
    assert again.hash == made.hash and not (tmp_path / "PWNED").exists()
    # And these are pickles that act, as joblib shows
    joblib.load(folder / "pca.joblib")
    assert (tmp_path / "PWNED").exists()


OBJECTS: dict[str, Callable[[Path], bytes]] = {
    "a pickle": lambda at: pickle.dumps(Payload(at)),
    "a joblib": lambda at: written(lambda file: joblib.dump(Payload(at), file)),
    "an npy of objects": lambda at: written(lambda file: np.save(file, np.array([Payload(at)], dtype=object))),
    "an npz of objects": lambda at: written(lambda file: np.savez(file, a=np.array([Payload(at)], dtype=object))),
    "a pt": lambda at: written(lambda file: torch.save(Payload(at), file)),
}


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("name", ["labels_kmeans.npy", "cluster_descriptions.json", "manifest.json"])
def test_no_kind_of_pickle_under_a_name_that_is_read_runs(folder: Path, tmp_path: Path, name: str, kind: str) -> None:
    plant(folder, name, OBJECTS[kind](tmp_path))
    with pytest.raises(ClusteringError, match=f"{name}.*delete the folder"):
        load_clustering(folder)
    assert not (tmp_path / "PWNED").exists()


def test_an_embedder_with_code_of_its_own_is_not_loaded(tmp_path: Path) -> None:
    embedder = Path(shutil.copytree(families.minilm_folder(), tmp_path / "embedder"))
    (embedder / "theirs.py").write_text(f"import os; os.mkdir({str(tmp_path / 'PWNED')!r})\nclass Module: ...\n")
    modules = json.loads((embedder / "modules.json").read_text())
    (embedder / "modules.json").write_text(json.dumps([{**modules[0], "type": "theirs.Module"}, *modules[1:]]))
    with pytest.raises(ClusteringError, match=r"embedder.*cannot be loaded"):
        cluster_vocabulary(families.words(30), settings(tmp_path / "clusters"), embedder)
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize("beside", [True, False], ids=["beside safetensors", "alone"])
@pytest.mark.parametrize("name", ["model_args", "model_kwargs"])
def test_an_embedder_that_asks_for_its_pickled_weights_runs_none(tmp_path: Path, name: str, beside: bool) -> None:
    # Given an embedder whose own settings turn off what protects from pickles
    embedder = Path(shutil.copytree(families.minilm_folder(), tmp_path / "embedder"))
    (embedder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload(tmp_path)))
    settings_of_it = {name: {"use_safetensors": False, "weights_only": False, "trust_remote_code": True}}
    (embedder / "sentence_bert_config.json").write_text(json.dumps(settings_of_it))
    if not beside:
        (embedder / "model.safetensors").unlink()
    # When it embeds a vocabulary, or is refused because it has nothing but the pickle
    with contextlib.nullcontext() if beside else pytest.raises(ClusteringError, match=r"embedder.*safetensors"):
        embed_tokens(["a", "b"], embedder, "cpu", 2, no_progress)
    # Then nothing has happened
    assert not (tmp_path / "PWNED").exists()


def test_embeddings_that_are_a_pickle_or_of_another_shape_are_computed_anew(folder: Path, tmp_path: Path) -> None:
    inputs = collect_inputs(families.llama3(), settings(folder.parent), families.minilm_folder())
    right = np.load(folder / "embeddings.npy")
    assert find_embeddings(folder.parent, inputs) is not None
    broken = right.copy()
    broken[7, 3] = np.nan
    for values in (right[:-1], right.astype(np.float64), broken, right[0]):
        plant(folder, "embeddings.npy", written(lambda file, values=values: np.save(file, values)))
        assert find_embeddings(folder.parent, inputs) is None
    for make in OBJECTS.values():
        plant(folder, "embeddings.npy", make(tmp_path))
        assert find_embeddings(folder.parent, inputs) is None
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        (np.zeros((3, 3), np.uint8), r"uint8 or uint16 \['any'\] but uint8 \[3, 3\]"),
        (np.zeros(500, np.int64), "but int64"),
        (np.full(500, np.nan, np.float32), "but float32"),
        (np.full(500, 6, np.uint8), "not every token is in one of the 6 clusters"),
        (np.zeros(0, np.uint8), "not every token"),
        (np.zeros(9_000_000, np.uint8), "9,000,128 bytes, and 8,010,000 are allowed"),
    ],
)
def test_labels_that_are_none_are_refused_with_the_reason(folder: Path, labels: Any, reason: str) -> None:
    plant(folder, "labels_kmeans.npy", written(lambda file: np.save(file, labels)))
    with pytest.raises(ClusteringError, match=f"labels_kmeans.npy.*{reason}"):
        load_clustering(folder)


def test_a_header_that_promises_more_than_the_file_has_takes_no_memory(folder: Path) -> None:
    header = {"descr": "|u1", "fortran_order": False, "shape": (10**12,)}
    plant(folder, "labels_kmeans.npy", written(lambda file: np.lib.format.write_array_header_1_0(file, header)))
    with pytest.raises(ClusteringError, match=r"labels_kmeans\.npy"):
        load_clustering(folder)


@pytest.mark.parametrize("name", ["../../secret", "/dev/zero", "labels.exe"])
def test_a_manifest_names_files_of_a_clustering_only(folder: Path, name: str) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"files": {name: "0"}}))
    with pytest.raises(ClusteringError, match="is no file of a clustering"):
        load_clustering(folder)


def test_a_device_or_a_pipe_in_the_place_of_a_file_is_not_read(folder: Path) -> None:
    (folder / "embeddings.npy").unlink()
    (folder / "embeddings.npy").symlink_to("/dev/zero")
    with pytest.raises(ClusteringError, match=r"embeddings\.npy is missing"):
        load_clustering(folder)
    (folder / "embeddings.npy").unlink()
    os.mkfifo(folder / "embeddings.npy")
    with pytest.raises(ClusteringError, match=r"embeddings\.npy is missing"):
        load_clustering(folder)


def test_figures_that_are_about_other_clusters_are_refused(tmp_path: Path) -> None:
    found = cluster_answers(families.qwen(), settings(tmp_path), SIDES)
    for figures in ('{"eos": 0, "pinned": 99}', '{"log_odds": [0.5]}', '{"log_odds": "many"}', "[]"):
        plant(found.folder, "cluster_figures.json", figures.encode())
        with pytest.raises(ClusteringError, match=r"cluster_figures\.json"):
            load_clustering(found.folder)


def test_a_folder_of_an_earlier_version_is_made_anew_from_its_embeddings(
    made: Clustering, folder: Path, tmp_path: Path
) -> None:
    # Given a clustering whose labels and PCA are pickles and nothing else, and these act when they are loaded
    manifest = json.loads((folder / "manifest.json").read_text())
    for name in ("labels_kmeans.npy", "pca_components.npy", "pca_mean.npy"):
        (folder / name).unlink()
        del manifest["files"][name]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    for name in ("labels_kmeans.joblib", "pca.joblib"):
        plant(folder, name, written(lambda file: joblib.dump(Payload(tmp_path), file)))
    # When it is asked for
    stages: list[str] = []
    again = cluster_vocabulary(
        families.llama3(),
        settings(folder.parent),
        families.minilm_folder(),
        lambda stage, *_: stages.append(stage),
    )
    # Then its labels are computed, not read, and nothing is embedded a second time
    assert (again.hash, again.labels.tolist()) == (made.hash, made.labels.tolist())
    assert "reduce" in stages and "embed" not in stages
    assert not (tmp_path / "PWNED").exists()
