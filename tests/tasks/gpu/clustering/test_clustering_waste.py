"""Clusters by waste: on a vocabulary of a few words, and from the answers of a run."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import cluster_families as families
import numpy as np
import pytest
from numpy.typing import NDArray

from tasks.gpu.clustering.artifacts import ClusteringError, load_clustering
from tasks.gpu.clustering.vocabulary import Vocabulary
from tasks.gpu.clustering.waste import LINE_BREAKS, TokenUsage, cluster_answers, cluster_by_waste
from tasks.gpu.prompt import answer_ends
from tasks.records import ClusterFigures, Clusters, Sides

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


def test_the_answers_of_a_run_make_its_clusters_and_those_that_say_too_little_leave_nothing(tmp_path: Path) -> None:
    settings = Clusters(str(tmp_path), "no-such-embedder", 0, 0, 0, 0, "cuda", by="waste", buckets=2)
    verbose = "The answer to the question is that the company reported a net income of $215 million.\n\n"
    for sides in (Sides((), ("$215",)), Sides((verbose,), ()), Sides(("42",), ("42",))):
        with pytest.raises(ClusteringError):
            cluster_answers(families.qwen(), settings, sides)
    assert list(tmp_path.iterdir()) == []
    tokenizer = families.qwen()
    made = cluster_answers(tokenizer, settings, Sides((verbose,) * 3, ("a net income of $215 million",) * 3))
    found = load_clustering(made.folder)
    assert np.bincount(found.labels, minlength=6).tolist() == [one["count"] for one in found.descriptions]
    assert set(np.flatnonzero(found.labels == 0).tolist()) == answer_ends(tokenizer)
    # what only the verbose answers say comes first
    assert {found.labels[i] for i in tokenizer(" question")["input_ids"]} == {FIRST_BUCKET}
    assert found.figures is not None and found.figures.log_odds[FIRST_BUCKET] > 0
