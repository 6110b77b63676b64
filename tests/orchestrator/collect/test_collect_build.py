"""The split is decided by ids, seed and ratios alone; keys and endpoints follow from the options of the command."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.collect.run import make_collection, split
from orchestrator.collect.settings import CollectOptions, CollectSettings, SplitRatios, read_collect_settings
from tasks.records import Example

ROOT = Path(__file__).parents[3]
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


@pytest.fixture
def by_rules() -> CollectSettings:
    """The shipped settings: rules compress and judge."""
    return read_collect_settings(ROOT / "configs" / "collect.yaml")


def options(**changes: Any) -> CollectOptions:
    return CollectOptions(farm_dir="farm", requests_per_minute=60, tokens_per_minute=60_000, **changes)


def result_keys(settings: CollectSettings, run: str, **changes: Any) -> set[str]:
    """The keys of one answer, of its compression and of the verdict on it."""
    collection, [example] = make_collection(settings, options(**changes), run), rows(1)
    compression, verdict = collection.compression_key(example, "long"), collection.verdict_key(example, "short")
    return {collection.sample_key(example, 0), compression, verdict}


def test_only_a_fresh_collection_has_keys_that_no_other_has(by_rules: CollectSettings) -> None:
    first = result_keys(by_rules, "first")
    assert first == result_keys(by_rules, "second")
    fresh = [result_keys(by_rules, run, is_fresh=True) for run in ("first", "second")]
    assert len(first.union(*fresh)) == 3 * 3
