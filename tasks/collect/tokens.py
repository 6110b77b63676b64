"""Which tokens a model wastes: how often each occurs on either side, filters, and the k largest differences."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from celery import shared_task

from tasks.records import Filters
from tasks.task import Job, JobTask, run_job

log = logging.getLogger(__name__)

WeightedIds = tuple[int, Sequence[int]]
"""m, and the token ids of one side of a retained pair of an example with m retained pairs: it weighs 1/m."""
TokenShare = tuple[int, float, float, float]
"""A token's id, its difference, and what that is the difference of: its shares of verbose and compressed tokens."""
# Places that vocabularies keep free, which some tokenizers do not mark as special.
_RESERVED = re.compile(r"<\|?(?:reserved|unused|extra_id|dummy)\w*\|?>|\[(?:reserved|unused)\w*\]", re.IGNORECASE)


@dataclass(frozen=True)
class Vocabulary:
    """`texts` has what `decode([id])` gives of each id; `special` are ids with a role or marked as special, `ends`
    those that end an answer.
    """

    texts: Sequence[str]
    special: frozenset[int]
    ends: frozenset[int]


def encode(backend: str, texts: Sequence[str]) -> list[list[int]]:
    """Token ids of each text, without the special tokens that a model's input begins or ends with.

    `backend` is the JSON of a tokenizer of the tokenizers library, as it is inside those of transformers.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(backend)
    # A tokenizer's file may say that texts are cut or filled up; here they are measured as they are.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True  # one that is written out in a text is text
    return [list(found.ids) for found in tokenizer.encode_batch(list(texts), add_special_tokens=False)]


def token_shares(verbose: Iterable[WeightedIds], compressed: Iterable[WeightedIds]) -> list[TokenShare]:
    """Of each token that occurs, the largest difference first, ties by id.  Sums are exact and rounded once."""
    raw, comp = _weighted_shares(verbose), _weighted_shares(compressed)
    delta = {token: raw.get(token, 0) - comp.get(token, 0) for token in raw | comp}
    order = sorted(delta, key=lambda token: (-delta[token], token))
    return [(token, float(delta[token]), float(raw.get(token, 0)), float(comp.get(token, 0))) for token in order]


def _weighted_shares(side: Iterable[WeightedIds]) -> dict[int, Fraction]:
    counts: defaultdict[int, Counter[int]] = defaultdict(Counter)  # by m, so that few fractions are added
    for m, ids in side:
        counts[m].update(ids)
    weighted: defaultdict[int, Fraction] = defaultdict(Fraction)
    for m, found in counts.items():
        for token, count in found.items():
            weighted[token] += Fraction(count, m)
    total = sum(weighted.values())
    return {token: weight / total for token, weight in weighted.items()}


def select_tokens(shares: Sequence[TokenShare], vocabulary: Vocabulary, k: int, filters: Filters) -> dict[str, Any]:
    """The `token_selection` of the output: the first k of the shares that pass the filters.

    Candidates are tokens that occur in a retained answer: of others there is no frequency to compare.
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
    if token in vocabulary.ends:
        return False
    if filters.drop_special_tokens and (token in vocabulary.special or _RESERVED.fullmatch(word)):
        return False
    if filters.drop_whitespace_only and all(unicodedata.category(c).startswith("P") for c in word):
        return False  # nothing is left of white space, and of nothing all is punctuation
    return not (filters.drop_digit_only and word and all("0" <= c <= "9" for c in word))


def tokenize(job: Job) -> dict[str, Any]:
    """{"ids": [verbose, compressed] of each pair, "tokens": as `token_shares`}.

    A pair of the arguments is m, and the keys of the verbose and of the compressed answer in the store.
    """
    pairs = job.arguments["pairs"]
    [tokenizer] = job.results([job.arguments["tokenizer"]])
    answers = job.results([key for _, *both in pairs for key in both])
    ids = encode(tokenizer["backend"], [answer["text"] for answer in answers])
    weights = [m for m, _, _ in pairs]
    tokens = token_shares(zip(weights, ids[::2], strict=True), zip(weights, ids[1::2], strict=True))
    return {"ids": list(zip(ids[::2], ids[1::2], strict=True)), "tokens": tokens}


@shared_task(name="cpu.tokenize", base=JobTask)
def tokenize_task(run: str, key: str, attempt: int) -> None:
    run_job((run, key, attempt), tokenize)
