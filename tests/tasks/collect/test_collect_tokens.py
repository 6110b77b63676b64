"""Wasted tokens: those of the target's tokenizer, by exact frequencies, the first k that the filters leave."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Sequence
from fractions import Fraction

import cluster_families as families
from hypothesis import given
from hypothesis import strategies as st

from tasks.collect.tokens import TokenShare, Vocabulary, encode, select_tokens, token_shares
from tasks.records import Filters

Pair = tuple[int, list[int], list[int]]
ALL, NONE = Filters(True, True, True), Filters(False, False, False)

ids = st.lists(st.one_of(st.integers(0, 12), st.integers(0, 300)), max_size=12)


def shares(pairs: Sequence[Pair]) -> list[TokenShare]:
    return token_shares([(m, verbose) for m, verbose, _ in pairs], [(m, short) for m, _, short in pairs])


def by_the_letter(pairs: Sequence[Pair], side: int) -> dict[int, Fraction]:
    """freq(v) = C(v) / Z, with plain dicts and exact fractions."""
    weighted: dict[int, Fraction] = {}
    for pair in pairs:
        for token in pair[side]:
            weighted[token] = weighted.get(token, Fraction(0)) + Fraction(1, pair[0])
    return {token: c / sum(weighted.values()) for token, c in weighted.items()}


@given(st.lists(st.tuples(st.integers(1, 60), ids, ids), max_size=30))
def test_each_frequency_is_the_exact_one_rounded_once(pairs: list[Pair]) -> None:
    raw, comp = by_the_letter(pairs, 1), by_the_letter(pairs, 2)
    delta = {v: raw.get(v, Fraction(0)) - comp.get(v, Fraction(0)) for v in raw.keys() | comp.keys()}
    order = sorted(delta, key=lambda v: (-delta[v], v))
    assert shares(pairs) == [(v, float(delta[v]), float(raw.get(v, 0)), float(comp.get(v, 0))) for v in order]


def test_a_control_token_that_an_answer_writes_out_is_counted_as_its_characters() -> None:
    tokenizer, text = families.qwen(), "Revenue was $1,577.00 million."
    plain, written = encode(tokenizer.backend_tokenizer.to_str(), [text, f"{text}<|im_end|>"])
    assert plain == tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.eos_token_id not in written and tokenizer.decode(written) == f"{text}<|im_end|>"


def words(texts: list[str], special: frozenset[int] = frozenset()) -> Vocabulary:
    """A vocabulary whose last id ends a sequence."""
    return Vocabulary(texts, special, frozenset({len(texts) - 1}))


def is_left(text: str, filters: Filters) -> bool:
    stripped = text.strip()
    if filters.drop_whitespace_only and not [c for c in stripped if not unicodedata.category(c).startswith("P")]:
        return False
    return not (filters.drop_digit_only and stripped and set(stripped) <= set("0123456789"))


texts = st.lists(
    st.one_of(st.text(string.digits + " .,-!\n\t'\u2019\u00a0\u0663$+", max_size=4), st.text(max_size=3)),
    min_size=1,
    max_size=25,
)


@given(texts, st.data())
def test_the_filters_are_those_of_the_specification(written: list[str], data: st.DataObject) -> None:
    # Given any vocabulary, any answers in it, any filters and any k
    size = len(written)
    special = frozenset(data.draw(st.sets(st.integers(0, size - 1))))
    answer = st.lists(st.integers(0, size - 1), max_size=15)
    found = shares([(1, data.draw(answer), data.draw(answer))])
    filters = Filters(*data.draw(st.tuples(st.booleans(), st.booleans(), st.booleans())))
    k = data.draw(st.integers(1, 20))
    # When tokens are chosen
    chosen = select_tokens(found, words(written, special), k, filters)
    # Then they are the first k of what the filters leave of all that occur, without the end of a sequence
    dropped = {size - 1, *(special if filters.drop_special_tokens else ())}
    left = [share for share in found if share[0] not in dropped and is_left(written[share[0]], filters)][:k]
    assert [(t["token_id"], t["delta"]) for t in chosen["v_steer"]] == [(i, delta) for i, delta, _, _ in left]
    assert all(token["token_str"] == written[token["token_id"]] for token in chosen["v_steer"])


def test_too_few_candidates_are_all_chosen_and_a_reserved_place_is_special_though_nobody_marked_it() -> None:
    for text in ("<|reserved_special_token_7|>", "<unused12>", "[unused3]", "<extra_id_0>"):
        vocabulary, found = words([text, "word", "</s>"]), shares([(1, [0, 0, 1], [1])])
        assert select_tokens(found, vocabulary, 2, ALL) == {
            "k": 1,
            "v_steer": [{"token_id": 1, "token_str": "word", "delta": -2 / 3}],
            "v_steer_token_ids": [1],
            "delta_by_token_id": {"1": -2 / 3},
            "freq_raw": {"1": 1 / 3},
            "freq_comp": {"1": 1.0},
        }
        assert select_tokens(found, vocabulary, 2, NONE)["v_steer_token_ids"] == [0, 1]
