"""Train, val and test: decided by ids, seed and ratios, and by nothing else."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.collect.build import split
from orchestrator.collect.settings import SplitRatios
from tasks.models import Example

USUAL = SplitRatios(0.70, 0.15, 0.15)


def rows(count: int) -> list[Example]:
    return [Example(f"financebench_id_{i:05}", "page", "question?", "gold") for i in range(count)]


def test_a_hundred_and_fifty_rows_give_105_22_23():
    parts = split(rows(150), USUAL, 42)
    assert (len(parts.train), len(parts.val), len(parts.test)) == (105, 22, 23)


def test_it_is_the_shuffle_of_the_sorted_ids():
    wanted = sorted(e.id for e in rows(20))
    random.Random(7).shuffle(wanted)
    parts = split(rows(20)[::-1], USUAL, 7)
    assert [e.id for e in (*parts.train, *parts.val, *parts.test)] == wanted


@given(st.integers(1, 60), st.integers(0, 5), st.randoms(use_true_random=False))
def test_the_order_of_the_file_does_not_matter_and_no_row_is_lost(count, seed, rng):
    given_rows = rows(count)
    rng.shuffle(given_rows)
    parts = split(given_rows, USUAL, seed)
    assert parts == split(rows(count), USUAL, seed)
    assert sorted(e.id for e in (*parts.train, *parts.val, *parts.test)) == [e.id for e in rows(count)]


@pytest.mark.parametrize("seed", [1, 2])
def test_another_seed_is_another_split(seed):
    assert split(rows(50), USUAL, seed) != split(rows(50), USUAL, seed + 1)
