"""Frequencies are exact, to the last bit, however the pairs are divided among shards."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.collect.frequencies import MOST_IDS, ShardCounts, count_shard, frequencies, sum_counts

Pair = tuple[int, list[int], list[int]]

ids = st.lists(st.one_of(st.integers(0, 12), st.integers(0, 300)), max_size=12)


@st.composite
def retained(draw: st.DrawFn) -> list[Pair]:
    """The retained pairs of some examples: an example with m of them has each with this m."""
    sizes = draw(st.lists(st.integers(1, 7), max_size=6))
    return [(m, draw(ids), draw(ids)) for m in sizes for _ in range(m)]


def by_the_letter(pairs: Sequence[Pair], side: int) -> dict[int, Fraction]:
    """freq(v) = C(v) / Z, with plain dicts and exact fractions."""
    weighted: dict[int, Fraction] = {}
    total = Fraction(0)
    for pair in pairs:
        w = Fraction(1, pair[0])
        for token in pair[side]:
            weighted[token] = weighted.get(token, Fraction(0)) + w
        total += w * len(pair[side])
    return {token: c / total for token, c in weighted.items()}


@given(retained())
def test_each_frequency_is_the_exact_one_rounded_once(pairs: list[Pair]) -> None:
    raw, comp = by_the_letter(pairs, 1), by_the_letter(pairs, 2)
    delta = {v: raw.get(v, Fraction(0)) - comp.get(v, Fraction(0)) for v in raw.keys() | comp.keys()}

    found = frequencies(count_shard(pairs))

    assert dict(found.raw) == {v: float(raw.get(v, Fraction(0))) for v in delta}
    assert dict(found.comp) == {v: float(comp.get(v, Fraction(0))) for v in delta}
    assert dict(found.delta) == {v: float(d) for v, d in delta.items()}
    assert list(found.order) == sorted(delta, key=lambda v: (-delta[v], v))


@given(retained(), st.lists(st.integers(0, 5), max_size=42), st.randoms(use_true_random=False))
def test_shards_in_any_order_give_the_same_bits(pairs: list[Pair], places: list[int], rng: random.Random) -> None:
    # given the pairs in one shard, and dealt out to six
    shards: list[list[Pair]] = [[] for _ in range(6)]
    for number, pair in enumerate(pairs):
        shards[places[number] if number < len(places) else 0].append(pair)
    counted = [count_shard(shard) for shard in shards]
    rng.shuffle(counted)
    # when they are merged, all at once and by and by
    together = sum_counts(counted)
    by_and_by = sum_counts([sum_counts(counted[:2]), sum_counts([sum_counts(counted[2:5]), counted[5]])])
    # then nothing tells them from the one shard
    whole = count_shard(pairs)
    assert json.dumps(whole.to_dict()) == json.dumps(together.to_dict()) == json.dumps(by_and_by.to_dict())
    assert frequencies(together) == frequencies(whole)


@given(retained())
def test_counts_come_back_from_json_as_they_were(pairs: list[Pair]) -> None:
    counts = count_shard(pairs)
    assert ShardCounts.from_dict(json.loads(json.dumps(counts.to_dict()))) == counts


@given(retained())
def test_every_example_has_the_same_say(pairs: list[Pair]) -> None:
    # given the same pairs with each example's pairs said twice over, at half the weight
    twice = [(2 * m, verbose, compressed) for m, verbose, compressed in pairs for _ in range(2)]
    # then no frequency changes
    assert frequencies(count_shard(twice)) == frequencies(count_shard(pairs))


def test_weights_are_those_of_the_example_and_not_of_the_pair() -> None:
    # given an example with one retained pair, and one with three
    pairs = [(1, [7, 7], [7]), *[(3, [8, 9], [9])] * 3]
    # then each counts once: C_raw is 2 for token 7, 1 for 8 and 9, of 4
    found = frequencies(count_shard(pairs))
    assert dict(found.raw) == {7: 0.5, 8: 0.25, 9: 0.25}
    assert dict(found.comp) == {7: 0.5, 8: 0.0, 9: 0.5}
    assert found.order == (8, 7, 9)


def test_many_tokens_are_counted_as_few_are() -> None:
    # given more tokens than are held before they are counted, as arrays of several types, with ids above any vocabulary
    rng = np.random.default_rng(3)
    pairs = [
        (1 + n % 3, rng.integers(0, 200_000, 3000).astype(("int32", "uint16", "int64")[n % 3]), [n, 262_144 + n])
        for n in range(300)
    ]
    # when and then
    found = count_shard(pairs)
    assert found.tokens == (900_000, 600)
    plain = count_shard([(m, verbose.tolist(), compressed) for m, verbose, compressed in pairs])
    assert found == plain
    assert found.comp[1][262_144] == 1


def test_without_a_retained_pair_there_is_nothing_and_no_error() -> None:
    found = frequencies(sum_counts([]))
    assert (found.order, dict(found.delta)) == ((), {})
    assert sum_counts([count_shard([])]) == sum_counts([])
    # and a side without tokens has frequency 0
    assert dict(frequencies(count_shard([(1, [4], [])])).comp) == {4: 0.0}


@pytest.mark.parametrize(
    ("pair", "error"),
    [
        ((0, [1], [1]), ValueError),
        ((1, [-1], [1]), ValueError),
        ((1, [1], [MOST_IDS]), ValueError),
        ((1, [1.0], [1]), TypeError),
        ((1, ["a"], [1]), TypeError),
    ],
)
def test_what_is_no_pair_is_refused(pair: tuple[int, list[int], list[int]], error: type[Exception]) -> None:
    with pytest.raises(error):
        count_shard([pair])


@settings(max_examples=20)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=30))
def test_any_number_of_samples_is_weighed_exactly(sizes: list[int]) -> None:
    # given examples with many different m, so that the common denominator outgrows 64 bits
    pairs = [(m, [m % 5, 5], [m % 3]) for m in sizes for _ in range(m)]
    found = frequencies(count_shard(pairs))
    assert dict(found.raw) == {v: float(f) for v, f in by_the_letter(pairs, 1).items()} | {
        v: 0.0 for v in found.raw if v not in by_the_letter(pairs, 1)
    }


def test_memory_does_not_grow_with_the_data() -> None:
    # given a fresh process that counts sixteen million tokens, made as they are counted
    script = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "import re\n"
        "import numpy as np\n"
        "from tasks.collect.frequencies import count_shard\n"
        "def peak():\n"
        "    return int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]) // 1024\n"
        "def pairs(n):\n"
        "    rng = np.random.default_rng(0)\n"
        "    for i in range(n):\n"
        "        yield 1 + i % 2, rng.integers(0, 150_000, 800), rng.integers(0, 150_000, 200)\n"
        "count_shard(pairs(4000))\n"
        "before = peak()\n"
        "count_shard(pairs(12000))\n"
        "print(peak() - before)\n"
    )
    more = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    # then it took no more than it did for the first four million
    assert int(more) < 8
