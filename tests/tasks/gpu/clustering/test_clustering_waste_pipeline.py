"""Clusters by waste of whole vocabularies: from the texts of answers to a folder, in a process of its own."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import cluster_families as families
import numpy as np
import pytest
from transformers import AutoTokenizer

from tasks.gpu.cluster import run_clustering
from tasks.gpu.clustering.artifacts import ClusteringError, load_clustering
from tasks.gpu.clustering.waste import cluster_answers
from tasks.gpu.prompt import answer_ends
from tasks.records import Clusters, Sides
from workers.embedded.models import embedded_model

PLAIN = (
    "Based on the provided context, the company reported a net income of $215 million in 2018.\n\nTherefore, the "
    "answer to the question is that the net income of the company was $215 million.",
    "To answer the question, we need to look at the provided context, which says that the gross margin was 42 %.\n\n"
    "Therefore, the gross margin of the company was 42 %.",
    "Yes, based on the provided context, the company does pay a dividend to the people who hold its shares.",
)
SHORT = ("$215 million", "The gross margin was 42 %.", "Yes, it does.")
SIDES = Sides(PLAIN * 3, SHORT * 3)


def settings(folder: Path, **changes: object) -> Clusters:
    values = Clusters(str(folder), "", 0, 0, 0, 0, "cpu", by="waste", buckets=4)
    return dataclasses.replace(values, **changes)  # type: ignore[arg-type]  # the values' types are the fields'


def test_the_embedded_model_s_vocabulary_by_waste(tmp_path: Path) -> None:
    # given answers, and no embedder
    told: list[str] = []
    # when the vocabulary is clustered in a process
    folder = run_clustering(embedded_model(), settings(tmp_path), "", lambda stage, *_: told.append(stage), {}, SIDES)
    found = load_clustering(folder)
    # then every token has one of 4 + 4 clusters, and those by rule hold what they must
    tokenizer = AutoTokenizer.from_pretrained(embedded_model())
    assert found.labels.shape == (len(tokenizer),) == (49152,)
    assert [d["count"] for d in found.descriptions] == np.bincount(found.labels, minlength=8).tolist()
    assert set(np.flatnonzero(found.labels == 0).tolist()) == answer_ends(tokenizer)
    assert {found.labels[i] for i in tokenizer("\n\n")["input_ids"]} == {2}
    # and what only the plain answers say comes first
    context = tokenizer(" context")["input_ids"]
    assert [found.labels[i] for i in context] == [3]
    assert list(found.figures.log_odds[3:7]) == sorted(found.figures.log_odds[3:7], reverse=True)
    # and the rest is named to be pinned
    assert (found.figures.eos, found.figures.pinned) == (0, 7)
    assert found.figures.log_odds[0] == found.figures.log_odds[7] == 0.0
    assert "stays at 0" in found.descriptions[7]["description"]
    # and nothing was embedded
    assert "embed" not in told
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {path.name for path in folder.iterdir()} == {
        *("labels_waste.npy", "labels_waste.joblib", "cluster_descriptions.json", "cluster_figures.json"),
        "manifest.json",
    }
    assert (manifest["by"], manifest["buckets"], manifest["hash"]) == ("waste", 4, folder.name)


def test_answers_that_say_too_little_leave_nothing(tmp_path: Path) -> None:
    for sides in (Sides((), SHORT), Sides(PLAIN, ()), Sides(("42",), ("42",))):
        with pytest.raises(ClusteringError):
            cluster_answers(families.qwen(), settings(tmp_path), sides)
    assert list(tmp_path.iterdir()) == []
