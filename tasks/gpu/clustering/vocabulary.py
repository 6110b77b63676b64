"""The text of every token of a tokenizer, and the two clusters that are made by rule.

**Texts.** A token alone and a token in a text can decode differently: SentencePiece drops the space of a first word,
and WordPiece puts spaces between tokens only.  So each token is decoded after an anchor, a token that is one letter,
and the anchor's own text is cut off.

**Cluster 0** holds the tokens that end an answer (`tasks.gpu.prompt.answer_ends`), and nothing else.  So a raised token
is one at which the server stops.

**Cluster 1** holds digits and arithmetic symbols, and nothing else.  A token belongs to it when its text, without the
spaces around it, is
- one of the `SYMBOLS` alone, or
- a word of digits (any script's decimal digits), `SYMBOLS`, and points or commas that each touch a digit,
  with at least one digit in it: "7", "2023", "$1", "3.14", "1,", ".5", "10%", "-3".
Two or more symbols without a digit ("**", "--", "==", "//") are markdown, rules and code, not arithmetic, and go to
k-means.  So do tokens with a line break in them.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tasks.gpu.prompt import answer_ends

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

REPLACEMENT = "\ufffd"
"""Decoding writes it where the bytes of a token are only a part of a character."""


def vocabulary_size(tokenizer: PreTrainedTokenizerBase) -> int:
    """One more than the highest token id: tokens added above `vocab_size` count, and so do gaps between ids."""
    return max(len(tokenizer), max(tokenizer.get_vocab().values(), default=-1) + 1)


def decode_vocabulary(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The text of each token id, in the order of ids, `vocabulary_size` of them.

    A space that belongs to a token is kept ("" and " " are different tokens).  Bytes that are no whole character come
    out as U+FFFD, special tokens as their names, and ids that no token has as "".
    """
    size = vocabulary_size(tokenizer)
    known = set(tokenizer.get_vocab().values())
    special = {i: token.content for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    plain = [i for i in range(size) if i in known and i not in special]
    texts = [special.get(i, "") for i in range(size)]
    for i, text in zip(plain, _decode_behind_anchor(tokenizer, plain), strict=True):
        texts[i] = text
    return texts


def _decode_behind_anchor(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> list[str]:
    alone = _decode(tokenizer, [[i] for i in ids])
    letters = set(string.ascii_lowercase)
    anchor = next(((i, text) for i, text in zip(ids, alone, strict=True) if text in letters), None)
    if anchor is None:
        return alone
    anchor_id, letter = anchor
    behind = _decode(tokenizer, [[anchor_id, i] for i in ids])
    # A decoder that cleans up spaces can drop the letter: then the text of the token alone is used.
    return [b[len(letter) :] if b.startswith(letter) else a for a, b in zip(alone, behind, strict=True)]


def _decode(tokenizer: PreTrainedTokenizerBase, sequences: list[list[int]]) -> list[str]:
    return list(
        tokenizer.batch_decode(sequences, skip_special_tokens=False, clean_up_tokenization_spaces=False),
    )


def classify_tokens(tokenizer: PreTrainedTokenizerBase) -> tuple[list[str], frozenset[int], frozenset[int]]:
    """The text of every token id, and the ids of clusters 0 and 1."""
    texts = decode_vocabulary(tokenizer)
    eos = answer_ends(tokenizer)
    special = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    return texts, eos, number_tokens(texts, without=eos | special)


SYMBOLS = frozenset("+-*/=%$€£¥¢×÷±−")
"""Plus, hyphen-minus, asterisk, slash, equals, percent, five currencies, times, obelus, plus-minus, minus."""

_SEPARATORS = frozenset(".,")


def is_number_token(text: str) -> bool:
    """Whether a token with this text belongs to cluster 1."""
    word = text.strip(" ")
    if len(word) == 1 and word in SYMBOLS:
        return True
    if not any(character.isdecimal() for character in word):
        return False
    return all(_fits(word, position) for position in range(len(word)))


def number_tokens(texts: Sequence[str], without: Iterable[int]) -> frozenset[int]:
    """The ids of cluster 1, given the text of each id. `without`: ids never to take (special tokens, cluster 0)."""
    excluded = frozenset(without)
    return frozenset(i for i, text in enumerate(texts) if i not in excluded and is_number_token(text))


def _fits(word: str, position: int) -> bool:
    character = word[position]
    if character in _SEPARATORS:
        return word[position - 1 : position].isdecimal() or word[position + 1 : position + 2].isdecimal()
    return character.isdecimal() or character in SYMBOLS
