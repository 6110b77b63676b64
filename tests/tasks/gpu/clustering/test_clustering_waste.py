"""Clusters by waste, on a vocabulary of a few words."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tasks.gpu.clustering.waste import LINE_BREAKS, cluster_by_waste
from tasks.records import ClusterFigures

Made = tuple[NDArray[Any], list[Any], ClusterFigures]

FILLER = ["The", " answer", " is", " provided", " context", " based", " on", " the", " therefore", " which"]
CONTENT = [" revenue", " margin", " dollars", " yes", " no", " Dayton", " plant", " income", " sales", " year"]
OTHER = ["\n", "\n\n", " 7", " 12", "<end>", "zebra", "Ω", " unused"]
TEXTS = [*FILLER, *CONTENT, *OTHER]
ID = {text: i for i, text in enumerate(TEXTS)}
FIRST_BUCKET = LINE_BREAKS + 1
EOS, NUMBERS = frozenset({ID["<end>"]}), frozenset({ID[" 7"], ID[" 12"]})


def answers(seed: int = 1) -> tuple[list[list[int]], list[list[int]]]:
    """Verbose answers of forty tokens, three quarters of them filler; short ones of four, one quarter."""
    rng = random.Random(seed)

    def draw(count: int, filler: float) -> list[int]:
        return [ID[rng.choice(FILLER if rng.random() < filler else CONTENT)] for _ in range(count)]

    verbose = [[*draw(40, 0.75), ID["\n"], ID[" 7"]] for _ in range(50)]
    return verbose, [[*draw(4, 0.25), ID[" 7"]] for _ in range(50)]


def clusters(buckets: int = 4, seed: int = 1) -> Made:
    return cluster_by_waste(TEXTS, EOS, NUMBERS, *answers(seed), buckets=buckets)


def members(made: Made, cluster: int) -> set[str]:
    return {TEXTS[i] for i in np.flatnonzero(made[0] == cluster)}


def test_ends_numbers_and_line_breaks_have_their_own_clusters_and_the_rest_is_pinned() -> None:
    made = clusters()
    assert members(made, 0) == {"<end>"}
    assert members(made, 1) == {" 7", " 12"}
    assert members(made, LINE_BREAKS) == {"\n", "\n\n"}
    assert made[2].pinned == 7
    assert members(made, made[2].pinned) == {"zebra", "Ω", " unused"}
    assert made[0].dtype == np.uint8
    assert len(made[0]) == len(TEXTS)


def test_filler_comes_first_and_content_last() -> None:
    made = clusters()
    wasted = members(made, FIRST_BUCKET) | members(made, FIRST_BUCKET + 1)
    needed = members(made, FIRST_BUCKET + 2) | members(made, FIRST_BUCKET + 3)
    assert len(wasted & set(FILLER)) >= 9
    assert len(needed & set(CONTENT)) >= 9
    assert list(made[2].log_odds[3:7]) == sorted(made[2].log_odds[3:7], reverse=True)
    assert made[2].log_odds[3] > 0 > made[2].log_odds[6]
    assert made[2].log_odds[0] == made[2].log_odds[7] == 0.0


@pytest.mark.parametrize("buckets", [1, 2, 5, 7, 20])
def test_buckets_have_about_equal_weight_and_each_holds_a_token(buckets: int) -> None:
    made = clusters(buckets)
    verbose, short = (np.concatenate(side) for side in answers())
    weights = []
    for cluster in range(FIRST_BUCKET, FIRST_BUCKET + buckets):
        inside = np.flatnonzero(made[0] == cluster)
        assert inside.size
        weights.append((np.isin(verbose, inside).mean() + np.isin(short, inside).mean()) / 2)
    if buckets <= 5:
        assert max(weights) < 1.6 * min(weights)


def test_a_token_that_was_seen_once_says_less_than_one_that_was_seen_often() -> None:
    verbose = [[ID[" on"]] * 30, [ID[" which"]], [ID[" revenue"]] * 100]
    short = [[ID[" revenue"]] * 100]
    made = cluster_by_waste(TEXTS, EOS, NUMBERS, verbose, short, buckets=3)
    order = [members(made, FIRST_BUCKET + bucket) for bucket in range(3)]
    assert order == [{" on"}, {" which"}, {" revenue"}]
