"""Which tokens a model wastes: filters, then the k largest differences."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

log = logging.getLogger(__name__)

# Places that vocabularies keep free, which some tokenizers do not mark as special.
_RESERVED = re.compile(r"<\|?(?:reserved|unused|extra_id|dummy)\w*\|?>|\[(?:reserved|unused)\w*\]", re.IGNORECASE)

TokenShare = tuple[int, float, float, float]
"""A token's id, its difference, and what that is the difference of (`tasks.cpu.tokenize.token_shares`)."""


@dataclass(frozen=True)
class Vocabulary:
    """`texts` has what `decode([id])` gives of each id; `special` are ids with a role or marked as special."""

    texts: Sequence[str]
    special: frozenset[int]
    eos: int | None


@dataclass(frozen=True)
class Filters:
    """`phase0.filters.*`: which tokens are not candidates.  The end-of-sequence token never is one."""

    drop_special_tokens: bool
    drop_whitespace_only: bool
    drop_digit_only: bool


def select_tokens(shares: Sequence[TokenShare], vocabulary: Vocabulary, k: int, filters: Filters) -> dict[str, Any]:
    """The `token_selection` of the output: the first k of the shares that pass the filters.

    Candidates are tokens that occur in a retained answer: of others there is no frequency to compare.  Where there are
    fewer than k, all are chosen and a warning is logged.
    """
    chosen = [share for share in shares if _is_candidate(share[0], vocabulary, filters)][:k]
    if len(chosen) < k:
        log.warning("only %d tokens pass the filters, and k is %d: all of them are chosen", len(chosen), k)
    return {
        "k": len(chosen),
        "v_steer": [{"token_id": i, "token_str": vocabulary.texts[i], "delta": delta} for i, delta, _, _ in chosen],
        "v_steer_token_ids": [i for i, *_ in chosen],
        "delta_by_token_id": {str(i): delta for i, delta, _, _ in chosen},
        "freq_raw": {str(i): raw for i, _, raw, _ in chosen},
        "freq_comp": {str(i): comp for i, _, _, comp in chosen},
    }


def _is_candidate(token: int, vocabulary: Vocabulary, filters: Filters) -> bool:
    word = vocabulary.texts[token].strip()
    if token == vocabulary.eos:
        return False
    if filters.drop_special_tokens and (token in vocabulary.special or _RESERVED.fullmatch(word)):
        return False
    if filters.drop_whitespace_only and all(unicodedata.category(c).startswith("P") for c in word):
        return False  # nothing is left of white space, and of nothing all is punctuation
    return not (filters.drop_digit_only and word and all("0" <= c <= "9" for c in word))
