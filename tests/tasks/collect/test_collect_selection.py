"""The chosen tokens are the k most wasted of those that the filters leave, ties by token id."""

from __future__ import annotations

import logging
import string
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tasks.collect.frequencies import count_shard, frequencies
from tasks.collect.selection import Filters, Selection, select_tokens

ALL = Filters(True, True, True)
NONE = Filters(False, False, False)


@dataclass
class Words:
    """A vocabulary that is given by its texts; the last id ends a sequence."""

    texts: list[str]
    special: frozenset[int] = frozenset()
    added_tokens_decoder: Mapping[int, Any] = field(default_factory=dict)

    @property
    def all_special_ids(self) -> list[int]:
        return sorted(self.special)

    @property
    def eos_token_id(self) -> int:
        return len(self.texts) - 1

    def decode(self, token_ids: list[int]) -> str:
        return "".join(self.texts[i] for i in token_ids)


def ids(selection: Selection) -> list[int]:
    return [token.token_id for token in selection.tokens]


texts = st.lists(
    st.one_of(st.text(string.digits + " .,-!\n\t'\u2019\u00a0\u0663$+", max_size=4), st.text(max_size=3)),
    min_size=1,
    max_size=25,
)


@given(texts, st.data())
def test_the_filters_are_those_of_the_specification(written: list[str], data: st.DataObject) -> None:
    # given any vocabulary, any answers in it, any filters and any k
    size = len(written)
    tokenizer = Words(written, frozenset(data.draw(st.sets(st.integers(0, size - 1)))))
    answer = st.lists(st.integers(0, size - 1), max_size=15)
    counts = count_shard(data.draw(st.lists(st.tuples(st.integers(1, 3), answer, answer), max_size=6)))
    filters = Filters(*data.draw(st.tuples(st.booleans(), st.booleans(), st.booleans())))
    k = data.draw(st.integers(1, 20))
    # when tokens are chosen
    found = select_tokens(frequencies(counts), tokenizer, k, filters)
    # then they are the first k of what is left when one filter after the other is applied to all that occur
    delta = frequencies(counts).delta
    left = set(delta)
    if filters.drop_special_tokens:
        left -= tokenizer.special
    if filters.drop_whitespace_only:
        left = {i for i in left if not _nothing(written[i])}
    if filters.drop_digit_only:
        left = {i for i in left if not (written[i].strip() and set(written[i].strip()) <= set("0123456789"))}
    left -= {size - 1}
    order = [i for i in frequencies(counts).order if i in left]
    assert ids(found) == order[:k]
    assert found.complete == (len(left) >= k)
    assert [token.delta for token in found.tokens] == [delta[i] for i in order[:k]]
    assert all(token.token_str == written[token.token_id] for token in found.tokens)


def _nothing(text: str) -> bool:
    stripped = text.strip()
    if stripped == "":
        return True
    return not [c for c in stripped if not unicodedata.category(c).startswith("P")]


def test_ties_go_to_the_lower_id() -> None:
    tokenizer = Words(["a", "b", "c", "d", "</s>"])
    counts = count_shard([(1, [3, 1, 2, 0, 0], [0])])
    assert ids(select_tokens(frequencies(counts), tokenizer, 2, NONE)) == [1, 2]


def test_the_end_of_a_sequence_is_never_chosen() -> None:
    tokenizer = Words(["a", "</s>"])
    counts = count_shard([(1, [1, 1, 1, 0], [0])])
    assert ids(select_tokens(frequencies(counts), tokenizer, 5, NONE)) == [0]


def test_too_few_candidates_are_all_chosen_and_told(caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = Words(["a", "b", " ", "</s>"])
    counts = count_shard([(1, [0, 1, 2], [0])])
    with caplog.at_level(logging.WARNING):
        found = select_tokens(frequencies(counts), tokenizer, 3, ALL)
    assert (ids(found), found.complete) == ([1, 0], False)
    assert "only 2 tokens" in caplog.text
    # and what is written says how many there are
    assert found.to_json()["k"] == 2
    assert found.to_json()["v_steer_token_ids"] == [1, 0]
    assert found.to_json()["delta_by_token_id"] == {"1": 1 / 3, "0": -2 / 3}
    assert found.to_json()["freq_raw"] == {"1": 1 / 3, "0": 1 / 3}


@pytest.mark.parametrize(
    "text", ["<|reserved_special_token_7|>", "<unused12>", "[unused3]", "<extra_id_0>", "<reserved_5>"]
)
def test_a_reserved_place_is_special_even_when_nobody_marked_it(text: str) -> None:
    tokenizer = Words([text, "word", "</s>"])
    counts = count_shard([(1, [0, 0, 1], [1])])
    assert ids(select_tokens(frequencies(counts), tokenizer, 2, ALL)) == [1]
    assert ids(select_tokens(frequencies(counts), tokenizer, 2, NONE)) == [0, 1]


def test_a_token_that_is_only_marked_as_special_is_special() -> None:
    tokenizer = Words(["<|eot|>", "word", "</s>"], added_tokens_decoder={0: SimpleNamespace(special=True)})
    counts = count_shard([(1, [0, 0, 1], [1])])
    assert ids(select_tokens(frequencies(counts), tokenizer, 2, ALL)) == [1]


def test_a_real_tokenizer_decodes_its_tokens_added_ones_above_the_vocabulary_too() -> None:
    # given a byte-level tokenizer with an added word and an added special token above its nominal size
    vocabulary = {"Ġthe": 0, "Ċ": 1, "7": 2, "Ġ42": 3, "</s>": 4, "Ġ": 5}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>")
    tokenizer.add_tokens([AddedToken("moreover"), AddedToken("<|tool|>", special=True)])
    added, special = tokenizer.convert_tokens_to_ids(["moreover", "<|tool|>"])
    assert min(added, special) >= tokenizer.vocab_size
    # when answers hold them all
    counts = count_shard([(1, [0, 1, 2, 3, 4, 5, added, special, added], [])])
    # then what is left is words, with their leading space
    found = select_tokens(frequencies(counts), tokenizer, 9, ALL)
    assert [(t.token_id, t.token_str) for t in found.tokens] == [(added, "moreover"), (0, " the")]
    assert sorted(ids(select_tokens(frequencies(counts), tokenizer, 9, NONE))) == [0, 1, 2, 3, 5, added, special]
