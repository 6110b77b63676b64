"""The chosen tokens are the k most wasted of those that the filters leave, ties by token id."""

from __future__ import annotations

import logging
import string
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.collect.tokens import Filters, TokenShare, Vocabulary, select_tokens, token_shares

ALL = Filters(True, True, True)
NONE = Filters(False, False, False)


def words(texts: list[str], special: frozenset[int] = frozenset()) -> Vocabulary:
    """A vocabulary whose last id ends a sequence."""
    return Vocabulary(texts, special, frozenset({len(texts) - 1}))


def shares(verbose: list[int], compressed: list[int]) -> list[TokenShare]:
    return token_shares([(1, verbose)], [(1, compressed)])


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
    found = shares(data.draw(answer), data.draw(answer))
    filters = Filters(*data.draw(st.tuples(st.booleans(), st.booleans(), st.booleans())))
    k = data.draw(st.integers(1, 20))
    # When tokens are chosen
    chosen = select_tokens(found, words(written, special), k, filters)
    # Then they are the first k of what is left when one filter after the other is applied to all that occur
    left = {token for token, *_ in found}
    if filters.drop_special_tokens:
        left -= special
    if filters.drop_whitespace_only:
        left = {i for i in left if not _nothing(written[i])}
    if filters.drop_digit_only:
        left = {i for i in left if not (written[i].strip() and set(written[i].strip()) <= set("0123456789"))}
    left -= {size - 1}
    expected = [share for share in found if share[0] in left][:k]
    assert [(t["token_id"], t["delta"]) for t in chosen["v_steer"]] == [(i, delta) for i, delta, _, _ in expected]
    assert all(token["token_str"] == written[token["token_id"]] for token in chosen["v_steer"])


def _nothing(text: str) -> bool:
    stripped = text.strip()
    return not [c for c in stripped if not unicodedata.category(c).startswith("P")]


def test_ties_go_to_the_lower_id() -> None:
    vocabulary = words(["a", "b", "c", "d", "</s>"])
    assert select_tokens(shares([3, 1, 2, 0, 0], [0]), vocabulary, 2, NONE)["v_steer_token_ids"] == [1, 2]


def test_too_few_candidates_are_all_chosen_and_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = select_tokens(shares([0, 1, 2], [0]), words(["a", "b", " ", "</s>"]), 3, ALL)
    assert "only 2 tokens" in caplog.text
    assert found == {
        "k": 2,
        "v_steer": [
            {"token_id": 1, "token_str": "b", "delta": 1 / 3},
            {"token_id": 0, "token_str": "a", "delta": -2 / 3},
        ],
        "v_steer_token_ids": [1, 0],
        "delta_by_token_id": {"1": 1 / 3, "0": -2 / 3},
        "freq_raw": {"1": 1 / 3, "0": 1 / 3},
        "freq_comp": {"1": 0.0, "0": 1.0},
    }


@pytest.mark.parametrize("text", ["<|reserved_special_token_7|>", "<unused12>", "[unused3]", "<extra_id_0>"])
def test_a_reserved_place_is_special_even_when_nobody_marked_it(text: str) -> None:
    vocabulary, found = words([text, "word", "</s>"]), shares([0, 0, 1], [1])
    assert select_tokens(found, vocabulary, 2, ALL)["v_steer_token_ids"] == [1]
    assert select_tokens(found, vocabulary, 2, NONE)["v_steer_token_ids"] == [0, 1]
