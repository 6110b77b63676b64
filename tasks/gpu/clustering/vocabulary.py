"""The text of every token of a tokenizer, the two clusters that are made by rule, and the tokens that end a sentence.

**Cluster 0** holds the tokens that end an answer (`tasks.gpu.prompt.answer_ends`), and nothing else.  So a raised token
is one at which the server stops.

**Cluster 1** holds digits and arithmetic symbols, and nothing else.  A token belongs to it when its text, without the
spaces around it, is
- one of the `SYMBOLS` alone, or
- a word of digits (any script's decimal digits), `SYMBOLS`, and points or commas that each touch a digit,
  with at least one digit in it: "7", "2023", "$1", "3.14", "1,", ".5", "10%", "-3".
Two or more symbols without a digit ("**", "--", "==", "//") are markdown, rules and code, not arithmetic, and go to
k-means.  So do tokens with a line break in them.

**Sentences.** A token ends a sentence when its text, without the white space, quotes and brackets at its end, ends in a
character with the Unicode property Sentence_Terminal.  A "." behind a digit does not count: within the token, or where
the token before it ends with a digit ("2" and "." of 2.6).  `workers.steering` applies the classes to an answer.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import regex

from tasks.gpu.prompt import TOKENIZER_LOCK, answer_ends, load_tokenizer, vocabulary_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerBase

REPLACEMENT = "\ufffd"
"""Decoding writes it where the bytes of a token are only a part of a character."""


class Vocabulary(NamedTuple):
    """`texts` [V] of the token ids, and the ids of clusters 0 and 1."""

    texts: list[str]
    ends: frozenset[int]
    numbers: frozenset[int]


def classify_tokens(tokenizer: PreTrainedTokenizerBase) -> Vocabulary:
    texts = decode_vocabulary(tokenizer)
    ends = answer_ends(tokenizer)
    fixed = ends | {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    numbers = frozenset(i for i, text in enumerate(texts) if i not in fixed and is_number_token(text))
    return Vocabulary(texts, ends, numbers)


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
    """Each token is decoded after one that is a letter, which is then cut off.

    Alone it can decode differently: SentencePiece drops the space of a first word, and WordPiece puts spaces between
    tokens only.
    """

    def decode(sequences: list[list[int]]) -> list[str]:
        return list(
            tokenizer.batch_decode(sequences, skip_special_tokens=False, clean_up_tokenization_spaces=False),
        )

    alone = decode([[i] for i in ids])
    anchor = next((i for i, text in zip(ids, alone, strict=True) if text in set(string.ascii_lowercase)), None)
    if anchor is None:
        return alone
    letter = alone[ids.index(anchor)]
    behind = decode([[anchor, i] for i in ids])
    # A decoder that cleans up spaces can drop the letter: then the text of the token alone is used.
    return [b[len(letter) :] if b.startswith(letter) else a for a, b in zip(alone, behind, strict=True)]


SYMBOLS = frozenset("+-*/=%$€£¥¢×÷±−")
"""Plus, hyphen-minus, asterisk, slash, equals, percent, five currencies, times, obelus, plus-minus, minus."""


def is_number_token(text: str) -> bool:
    """Whether a token with this text belongs to cluster 1."""
    word = text.strip(" ")
    if len(word) == 1 and word in SYMBOLS:
        return True

    def fits(position: int) -> bool:
        if word[position] in ".,":
            return word[position - 1 : position].isdecimal() or word[position + 1 : position + 2].isdecimal()
        return word[position].isdecimal() or word[position] in SYMBOLS

    return any(map(str.isdecimal, word)) and all(map(fits, range(len(word))))


ENDS, DIGIT, UNLESS_DIGIT = 1, 2, 4
"""Bits of a class: the token ends a sentence; its last character is a digit; it ends one unless a digit came before."""

_END = regex.compile(r"""(.?)(\p{Sentence_Terminal})[\s\p{Pe}\p{Pf}\p{Pi}"']*$""", regex.DOTALL)


def token_class(text: str) -> int:
    """The class of a token with this text."""
    if text[-1:].isdecimal():
        return DIGIT
    if (found := _END.search(text)) is None:
        return 0
    before, end = found.groups()
    if end != ".":
        return ENDS
    if not before:
        return UNLESS_DIGIT
    return 0 if before.isdecimal() else ENDS


@lru_cache(maxsize=2)
def sentence_ends(model_folder: str) -> NDArray[np.uint8]:
    """The class of each token of a model's tokenizer [V]."""
    import numpy as np

    with TOKENIZER_LOCK:
        texts = decode_vocabulary(load_tokenizer(model_folder))
    return np.fromiter(map(token_class, texts), np.uint8, len(texts))
