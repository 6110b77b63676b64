"""Clustering in a process of its own: it reports, it fails in a sentence, and it never outlives its parent."""

from __future__ import annotations

from pathlib import Path

import cluster_families as families
import psutil
import pytest

from tasks.gpu.clustering import ClusteringError, load_clustering, run_clustering
from tasks.gpu.clustering.pipeline import collect_inputs
from tasks.models import Clusters


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    folder = tmp_path / "tokenizer"
    families.qwen().save_pretrained(folder)
    return folder


def settings(folder: Path) -> Clusters:
    return Clusters(str(folder), "minilm", components=8, count=4, seed=3, batch_size=64, device="cpu")


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


def test_it_reports_each_stage_and_returns_the_folder(tokenizer: Path, tmp_path: Path) -> None:
    # when a vocabulary is clustered in a process
    told: list[tuple[str, int, int]] = []
    before = children()
    folder = run_clustering(
        tokenizer, settings(tmp_path / "out"), families.minilm_folder(), lambda *step: told.append(step)
    )
    # then its stages came through in order, the folder is named by the content, and no process is left
    assert list(dict.fromkeys(stage for stage, _, _ in told)) == ["decode", "embed", "reduce", "cluster", "write"]
    assert told[-1] == ("write", 466, 466)
    expected = collect_inputs(families.qwen(), settings(tmp_path), families.minilm_folder()).hash()
    assert folder == tmp_path / "out" / expected
    assert load_clustering(folder).hash == expected
    assert children() == before


def test_it_fails_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ClusteringError, match=r'^the tokenizer "/no/such/tokenizer" .* no such folder$'):
        run_clustering("/no/such/tokenizer", settings(tmp_path / "out"), families.minilm_folder())
