"""Which tokens a model wastes: filters, then the k largest differences."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tasks.collect.frequencies import Frequencies

log = logging.getLogger(__name__)

# Places that vocabularies keep free, which some tokenizers do not mark as special.
_RESERVED = re.compile(r"<\|?(?:reserved|unused|extra_id|dummy)\w*\|?>|\[(?:reserved|unused)\w*\]", re.IGNORECASE)


class Tokenizer(Protocol):
    """The part of a Hugging Face tokenizer that the selection uses."""

    @property
    def all_special_ids(self) -> list[int]: ...
    @property
    def eos_token_id(self) -> Any: ...
    @property
    def added_tokens_decoder(self) -> Mapping[int, Any]: ...
    def decode(self, token_ids: Any) -> Any: ...


@dataclass(frozen=True)
class Filters:
    """`phase0.filters.*`: which tokens are not candidates.  The end-of-sequence token never is one."""

    drop_special_tokens: bool
    drop_whitespace_only: bool
    drop_digit_only: bool


@dataclass(frozen=True)
class SelectedToken:
    """A discovered token: its text as `decode([id])` gives it, its difference, and what that is the difference of."""

    token_id: int
    token_str: str
    delta: float
    freq_raw: float
    freq_comp: float


@dataclass(frozen=True)
class Selection:
    """The discovered tokens, the most wasted first; `complete` is False where fewer than `k` candidates were there."""

    k: int
    tokens: tuple[SelectedToken, ...]
    complete: bool

    def to_json(self) -> dict[str, Any]:
        """The `token_selection` of the output."""
        return {
            "k": len(self.tokens),
            "v_steer": [{"token_id": t.token_id, "token_str": t.token_str, "delta": t.delta} for t in self.tokens],
            "v_steer_token_ids": [t.token_id for t in self.tokens],
            "delta_by_token_id": {str(t.token_id): t.delta for t in self.tokens},
            "freq_raw": {str(t.token_id): t.freq_raw for t in self.tokens},
            "freq_comp": {str(t.token_id): t.freq_comp for t in self.tokens},
        }


def select_tokens(found: Frequencies, tokenizer: Tokenizer, k: int, filters: Filters) -> Selection:
    """The k tokens with the largest difference that pass the filters, ties by token id.

    Candidates are tokens that occur in a retained answer: of others there is no frequency to compare.  Where there are
    fewer than k, all are chosen and a warning is logged.
    """
    special = special_ids(tokenizer)
    chosen: list[SelectedToken] = []
    # Best first, so no more tokens are decoded than it takes to find k.
    for i in found.order:
        if len(chosen) == k:
            break
        text = str(tokenizer.decode([i]))
        if i != tokenizer.eos_token_id and is_candidate(i, text, special, filters):
            chosen.append(SelectedToken(i, text, found.delta[i], found.raw[i], found.comp[i]))
    if len(chosen) < k:
        log.warning("only %d tokens pass the filters, and k is %d: all of them are chosen", len(chosen), k)
    return Selection(k, tuple(chosen), len(chosen) == k)


def is_candidate(token_id: int, text: str, special: frozenset[int], filters: Filters) -> bool:
    """Whether a token with this text passes the three filters."""
    word = text.strip()
    if filters.drop_special_tokens and (token_id in special or _RESERVED.fullmatch(word)):
        return False
    if filters.drop_whitespace_only and all(unicodedata.category(c).startswith("P") for c in word):
        return False  # nothing is left of white space, and of nothing all is punctuation
    return not (filters.drop_digit_only and word and all("0" <= c <= "9" for c in word))


def special_ids(tokenizer: Tokenizer) -> frozenset[int]:
    """Special and control tokens: those with a role, and those that are only marked as special."""
    marked = (i for i, token in tokenizer.added_tokens_decoder.items() if token.special)
    return frozenset([*tokenizer.all_special_ids, *marked])
