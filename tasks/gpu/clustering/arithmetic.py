"""Cluster 1: digits and arithmetic symbols, and nothing else (evolution_plan.md section 2.5).

A token belongs to it when its text, with the spaces around it taken off, is
- one of the `SYMBOLS` alone, or
- a word of digits (any script's decimal digits), `SYMBOLS`, and points or commas that each touch a digit,
  with at least one digit in it: "7", "2023", "$1", "3.14", "1,", ".5", "10%", "-3".

Two or more symbols without a digit ("**", "--", "==", "//") are not arithmetic in a text: they are markdown, rules and
code, which matter to verbosity in another way, and go to k-means.  So do tokens with a line break in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

SYMBOLS = frozenset("+-*/=%$€£¥¢×÷±−")
"""Plus, hyphen-minus, asterisk, slash, equals, percent, five currencies, times, obelus, plus-minus, minus."""

_SEPARATORS = frozenset(".,")


def is_number(text: str) -> bool:
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
    return frozenset(i for i, text in enumerate(texts) if i not in excluded and is_number(text))


def _fits(word: str, position: int) -> bool:
    character = word[position]
    if character in _SEPARATORS:
        return word[position - 1 : position].isdecimal() or word[position + 1 : position + 2].isdecimal()
    return character.isdecimal() or character in SYMBOLS
