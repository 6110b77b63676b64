"""Tokens are those of the target's tokenizer, and frequencies are exact to the last bit."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import cluster_families as families
from hypothesis import given
from hypothesis import strategies as st

from tasks.collect.tokens import encode, token_shares, tokenize
from tasks.store.store import Store
from tasks.task import Job

Pair = tuple[int, list[int], list[int]]
TEXT = "Revenue was $1,577.00 million."

ids = st.lists(st.one_of(st.integers(0, 12), st.integers(0, 300)), max_size=12)


def shares(pairs: Sequence[Pair]) -> list[tuple[int, float, float, float]]:
    return token_shares([(m, verbose) for m, verbose, _ in pairs], [(m, short) for m, _, short in pairs])


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


@given(st.lists(st.tuples(st.integers(1, 60), ids, ids), max_size=30))
def test_each_frequency_is_the_exact_one_rounded_once(pairs: list[Pair]) -> None:
    raw, comp = by_the_letter(pairs, 1), by_the_letter(pairs, 2)
    delta = {v: raw.get(v, Fraction(0)) - comp.get(v, Fraction(0)) for v in raw.keys() | comp.keys()}
    order = sorted(delta, key=lambda v: (-delta[v], v))
    assert shares(pairs) == [(v, float(delta[v]), float(raw.get(v, 0)), float(comp.get(v, 0))) for v in order]


def test_weights_are_those_of_the_example_and_not_of_the_pair() -> None:
    # Given an example with one retained pair, and one with three
    pairs: list[Pair] = [(1, [7, 7], [7]), *[(3, [8, 9], [9])] * 3]
    # Then each counts once: C_raw is 2 for token 7, 1 for 8 and 9, of 4
    assert shares(pairs) == [(8, 0.25, 0.25, 0.0), (7, 0.0, 0.5, 0.5), (9, -0.25, 0.25, 0.5)]


def test_the_job_encodes_the_answers_of_its_pairs(store: Store) -> None:
    tokenizer = families.qwen()
    store.put_shared("run", "tokenizer:a", {"backend": tokenizer.backend_tokenizer.to_str()})
    store.put_shared("run", "sample:a", {"text": f"{TEXT} {TEXT}"})
    store.put_shared("run", "compression:a", {"text": TEXT})
    arguments = {"tokenizer": "tokenizer:a", "pairs": [[1, "sample:a", "compression:a"]]}
    found = tokenize(Job(store, "run", "tokens:a", arguments))
    [(verbose, short)] = found["ids"]
    assert short == tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    assert found["tokens"] == shares([(1, verbose, short)])


def test_a_control_token_that_an_answer_writes_out_is_counted_as_its_characters() -> None:
    tokenizer = families.qwen()
    [written] = encode(tokenizer.backend_tokenizer.to_str(), [f"{TEXT}<|im_end|>"])
    assert tokenizer.eos_token_id not in written and tokenizer.decode(written) == f"{TEXT}<|im_end|>"
