"""Clusters by waste: on a vocabulary of a few words, and by the job for the embedded model's."""

from __future__ import annotations

import dataclasses
import os
import random
from contextlib import closing
from pathlib import Path
from typing import Any

import cluster_families as families
import numpy as np
import pytest
from answer_runs import embedded_target, put_run
from numpy.typing import NDArray

from tasks.gpu.cluster import cluster, unpack_labels
from tasks.gpu.clustering.artifacts import ClusteringError
from tasks.gpu.clustering.vocabulary import Vocabulary
from tasks.gpu.clustering.waste import LINE_BREAKS, TokenUsage, cluster_answers, cluster_by_waste
from tasks.gpu.prompt import answer_ends, load_tokenizer
from tasks.records import ClusterFigures, Clusters, Sides
from tasks.store.store import Store
from tasks.task import Job
from workers.embedded.models import embedded_model
from workers.sglang.host import LocalTargetHost

Made = tuple[NDArray[Any], list[Any], ClusterFigures]

FILLER = ["The", " answer", " is", " provided", " context", " based", " on", " the", " therefore", " which"]
CONTENT = [" revenue", " margin", " dollars", " yes", " no", " Dayton", " plant", " income", " sales", " year"]
OTHER = ["\n", "\n\n", " 7", " 12", "<end>", "zebra", "Ω", " unused"]
TEXTS = [*FILLER, *CONTENT, *OTHER]
ID = {text: i for i, text in enumerate(TEXTS)}
FIRST_BUCKET = LINE_BREAKS + 1
VOCABULARY = Vocabulary(TEXTS, frozenset({ID["<end>"]}), frozenset({ID[" 7"], ID[" 12"]}))


def answers() -> tuple[list[list[int]], list[list[int]]]:
    """Verbose answers of forty tokens, three quarters of them filler; short ones of four, one quarter."""
    rng = random.Random(1)

    def draw(count: int, filler: float) -> list[int]:
        return [ID[rng.choice(FILLER if rng.random() < filler else CONTENT)] for _ in range(count)]

    verbose = [[*draw(40, 0.75), ID["\n"], ID[" 7"]] for _ in range(50)]
    return verbose, [[*draw(4, 0.25), ID[" 7"]] for _ in range(50)]


def members(made: Made, cluster: int) -> set[str]:
    return {TEXTS[i] for i in np.flatnonzero(made[0] == cluster)}


def test_filler_comes_first_and_content_last_and_the_rest_has_its_own_clusters() -> None:
    labels, _, figures = made = cluster_by_waste(VOCABULARY, TokenUsage.of(*answers()), 4)
    fixed = [members(made, cluster) for cluster in (0, 1, LINE_BREAKS, figures.pinned)]
    assert fixed == [{"<end>"}, {" 7", " 12"}, {"\n", "\n\n"}, {"zebra", "Ω", " unused"}]
    assert (figures.pinned, labels.dtype, len(labels)) == (7, np.uint8, len(TEXTS))
    wasted = members(made, FIRST_BUCKET) | members(made, FIRST_BUCKET + 1)
    needed = members(made, FIRST_BUCKET + 2) | members(made, FIRST_BUCKET + 3)
    assert len(wasted & set(FILLER)) >= 9 and len(needed & set(CONTENT)) >= 9
    log_odds = list(figures.log_odds)
    assert log_odds[3:7] == sorted(log_odds[3:7], reverse=True) and log_odds[3] > 0 > log_odds[6]
    assert log_odds[0] == log_odds[7] == 0.0


def test_buckets_have_about_equal_weight_and_each_holds_a_token() -> None:
    verbose, short = (np.concatenate(side) for side in answers())
    for buckets in (1, 5, 20):
        labels, *_ = cluster_by_waste(VOCABULARY, TokenUsage.of(*answers()), buckets)
        inside = [np.flatnonzero(labels == FIRST_BUCKET + bucket) for bucket in range(buckets)]
        weights = [(np.isin(verbose, ids).mean() + np.isin(short, ids).mean()) / 2 for ids in inside]
        assert min(weights) > 0 and (buckets > 5 or max(weights) < 1.6 * min(weights))


def test_a_token_that_was_seen_once_says_less_than_one_that_was_seen_often() -> None:
    verbose = [[ID[" on"]] * 30, [ID[" which"]], [ID[" revenue"]] * 100]
    made = cluster_by_waste(VOCABULARY, TokenUsage.of(verbose, [[ID[" revenue"]] * 100]), buckets=3)
    order = [members(made, FIRST_BUCKET + bucket) for bucket in range(3)]
    assert order == [{" on"}, {" which"}, {" revenue"}]


VERBOSE = (
    "Based on the provided context, the net income was $215 million in 2018.\n\nTherefore, the answer is $215 million.",
    "We need to look at the provided context, which says that the gross margin was 42 %.\n\nTherefore, it was 42 %.",
)
SHORT = ("$215 million", "The gross margin was 42 %.")


def settings(folder: Path) -> Clusters:
    return Clusters(str(folder), "no-such-embedder", 0, 0, 0, 0, "cuda", by="waste", buckets=4)


def test_the_job_clusters_the_embedded_models_vocabulary(store: Store, tmp_path: Path) -> None:
    # Given a run with clusters by waste, and answers in the store under their content key
    put_run(store, "run", embedded_target(embedded_model()), np.zeros(1), [])
    store.put_run(dataclasses.replace(store.run("run"), clusters=settings(tmp_path / "clusters")))
    store.put_shared("run", "sides:1", dataclasses.asdict(Sides(VERBOSE * 3, SHORT * 3)))
    # When the job has run, on a machine without that embedder and without a GPU
    with closing(LocalTargetHost(tmp_path / "host", "gpu", os.environ)) as host:
        result = cluster(Job(store, "run", "cluster:1", {"sides": "sides:1"}), host)
    # Then the store has labels, descriptions and figures of 4 + 4 clusters
    labels, figures = (getattr(store.clusterings, name)(result["clustering"]) for name in ("labels", "figures"))
    labels, described = unpack_labels(labels), store.clusterings.descriptions("run", result["clustering"])
    assert np.bincount(labels, minlength=8).tolist() == [one["count"] for one in described]
    assert (len(labels), figures.eos, figures.pinned, len(figures.log_odds)) == (49152, 0, 7, 8)
    # and those by rule hold what they must, and what only the verbose answers say comes first
    tokenizer = load_tokenizer(str(embedded_model()))
    assert set(np.flatnonzero(labels == 0).tolist()) == answer_ends(tokenizer)
    assert {labels[i] for i in tokenizer("\n\n")["input_ids"]} == {2}
    assert [labels[i] for i in tokenizer(" context")["input_ids"]] == [3] and figures.log_odds[3] > 0
    assert {path.name for path in (tmp_path / "clusters" / result["clustering"]).iterdir()} == {
        *("labels_waste.npy", "cluster_descriptions.json", "cluster_figures.json", "manifest.json"),
    }


def test_answers_that_say_too_little_leave_nothing(tmp_path: Path) -> None:
    for sides in (Sides((), SHORT), Sides(VERBOSE, ()), Sides(("42",), ("42",))):
        with pytest.raises(ClusteringError):
            cluster_answers(families.qwen(), settings(tmp_path), sides)
    assert list(tmp_path.iterdir()) == []
