"""Clusters by waste: tokens that long answers use and short right ones do not need, in buckets of equal weight.

decode -> ends (cluster 0), numbers (cluster 1) -> tokenize the answers -> line breaks, buckets, rest -> write

Nothing is embedded: it takes seconds, and little more memory than the tokenizer.

The measure is the log-odds ratio of a token between the two sides, with an informative Dirichlet prior (B. L. Monroe,
M. P. Colaresi and K. M. Quinn, "Fightin' Words", Political Analysis 16(4), 2008): the prior is the distribution of both
sides together, as strong as the smaller side, so that a token that was seen once says little.

    0                   tokens that end a turn
    1                   digits and arithmetic symbols
    2                   tokens with a line break
    3 ... buckets + 2   all other tokens that were used, the most wasted first
    buckets + 3         the rest of the vocabulary, to be pinned to 0

A token's weight is the mean of its shares in both sides, so that the few tokens of the short answers count as much as
the many of the long ones; each bucket holds about the same weight.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.gpu.clustering import artifacts
from tasks.gpu.clustering.artifacts import Clustering, ClusteringError, Description, Progress
from tasks.gpu.clustering.vocabulary import Vocabulary, classify_tokens
from tasks.records import ClusterFigures, Clusters, Sides

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

EOS, NUMBERS, LINE_BREAKS = 0, 1, 2
_NAMED = 8  # tokens that a description names


def cluster_answers(
    tokenizer: PreTrainedTokenizerBase, clusters: Clusters, sides: Sides, on_progress: Progress = lambda *_: None
) -> Clustering:
    """Computed and written the first time, read from disk later."""
    total = len(tokenizer)
    on_progress("decode", 0, total)
    vocabulary = classify_tokens(tokenizer)
    answers = [_encode(tokenizer, side) for side in (sides.verbose, sides.short)]
    usage = TokenUsage.of(*answers)
    summary = {
        "by": "waste",
        "buckets": clusters.buckets,
        "answers": dict(zip(("verbose", "short"), map(len, answers), strict=True)),
        "answer_tokens": dict(zip(("verbose", "short"), usage.totals, strict=True)),
    }
    counts = [sorted(side.items()) for side in (usage.verbose, usage.short)]
    manifest = artifacts.manifest_of(vocabulary, summary, counts)
    on_progress("cluster", 0, total)

    def make() -> dict[str, Any]:
        labels, descriptions, figures = cluster_by_waste(vocabulary, usage, clusters.buckets)
        return {
            artifacts.LABELS_WASTE: labels,
            artifacts.DESCRIPTIONS: descriptions,
            artifacts.FIGURES: dataclasses.asdict(figures),
        }

    clustering = artifacts.made_once(Path(clusters.folder), manifest, make)
    on_progress("write", total, total)
    return clustering


def _encode(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """The token ids of each text as text: a marker that is written out in it is not the special token."""
    if not texts:
        return []
    found = tokenizer(list(texts), add_special_tokens=False, split_special_tokens=True, truncation=False)
    return [list(ids) for ids in found["input_ids"]]


@dataclass(frozen=True)
class TokenUsage:
    """How often each token id was used on either side; `totals` are of all tokens of each side."""

    verbose: Counter[int]
    short: Counter[int]
    totals: tuple[int, int]

    @classmethod
    def of(cls, verbose: Iterable[Iterable[int]], short: Iterable[Iterable[int]]) -> TokenUsage:
        """From the token ids of each answer."""
        sides = [Counter(token for answer in side for token in answer) for side in (verbose, short)]
        for name, side in zip(("verbose", "short"), sides, strict=True):
            if not side:
                raise ClusteringError(f"there are no tokens of {name} answers, so wasted tokens cannot be found")
        return cls(sides[0], sides[1], (sides[0].total(), sides[1].total()))

    def shares(self, ids: Iterable[int]) -> tuple[float, float]:
        """The share of the tokens `ids` in each side."""
        verbose, short = self._counts(ids)
        return verbose / self.totals[0], short / self.totals[1]

    def weight(self, token: int) -> float:
        return sum(self.shares([token])) / 2

    def log_odds(self, ids: Iterable[int]) -> float:
        """The log-odds ratio of the tokens `ids` together, with the prior; 0 for no tokens."""
        verbose, short = self._counts(ids)
        strength = min(self.totals)
        prior = strength * (verbose + short) / sum(self.totals)
        return _logit(verbose + prior, self.totals[0] + strength) - _logit(short + prior, self.totals[1] + strength)

    def _counts(self, ids: Iterable[int]) -> tuple[int, int]:
        members = list(ids)
        return sum(self.verbose[i] for i in members), sum(self.short[i] for i in members)


def cluster_by_waste(
    vocabulary: Vocabulary, usage: TokenUsage, buckets: int
) -> tuple[NDArray[Any], list[Description], ClusterFigures]:
    """Labels [V] uint8 (uint16 above 256 clusters), descriptions and figures."""
    texts, ends, numbers = vocabulary
    breaks = frozenset(i for i, t in enumerate(texts) if "\n" in t or "\r" in t) - ends - numbers
    used = (usage.verbose.keys() | usage.short.keys()) - ends - numbers - breaks
    if buckets < 1 or len(used) < buckets:
        raise ClusteringError(
            f"{buckets} buckets need at least as many different tokens; the answers use {len(used)} that are neither "
            "numbers nor line breaks nor ends of a turn"
        )
    members: list[Sequence[int]] = [sorted(ends), sorted(numbers), sorted(breaks), *_buckets(used, usage, buckets)]
    pinned = len(members)
    labels = np.full(len(texts), pinned, dtype=artifacts.labels_type(pinned + 1))
    for cluster, ids in enumerate(members):
        labels[list(ids)] = cluster
    rest = np.flatnonzero(labels == pinned).tolist()
    log_odds = (0.0, *(usage.log_odds(ids) for ids in members[1:]), 0.0)
    return labels, _describe(texts, [*members, rest], usage), ClusterFigures(EOS, pinned, log_odds)


def _buckets(used: Iterable[int], usage: TokenUsage, count: int) -> list[list[int]]:
    """The tokens in `count` buckets of about equal weight, by descending log-odds; ties go to the lower id."""
    ordered = sorted(used, key=lambda i: (-usage.log_odds([i]), i))
    weights = [usage.weight(i) for i in ordered]
    groups: list[list[int]] = []
    remaining, start = sum(weights), 0
    for bucket in range(count):
        wanted = remaining / (count - bucket)
        end, held = start + 1, weights[start]
        # Take a token more while that brings the weight nearer, and leave one for each bucket to come.
        while end < len(ordered) - (count - bucket - 1) and (bucket == count - 1 or held + weights[end] / 2 <= wanted):
            held += weights[end]
            end += 1
        groups.append(ordered[start:end])
        remaining, start = remaining - held, end
    return groups


def _describe(texts: Sequence[str], members: Sequence[Sequence[int]], usage: TokenUsage) -> list[Description]:
    """One description a cluster: what kind it is, how much of each side it makes up, and which tokens it holds."""
    kinds = {EOS: "Tokens that end a turn or a text", NUMBERS: "Digits and arithmetic symbols"}
    kinds |= {LINE_BREAKS: "Tokens with a line break", len(members) - 1: "All tokens that no answer used; stays at 0"}
    described = []
    for cluster, ids in enumerate(members):
        examples = artifacts.distinct_texts(texts[i] for i in sorted(ids, key=lambda i: (-usage.weight(i), i)))
        text = kinds.get(cluster) or _usage_in_words(usage.log_odds(ids))
        if cluster not in (EOS, len(members) - 1):
            verbose, short = usage.shares(ids)
            text += f" ({100 * verbose:.1f} % of verbose answers, {100 * short:.1f} % of short right ones)"
        text += f": {artifacts.quoted(examples[:_NAMED]) or 'none in this vocabulary'}"
        described.append(Description(id=cluster, description=text, examples=examples, count=len(ids)))
    return described


def _usage_in_words(log_odds: float) -> str:
    if abs(log_odds) < 0.1:
        return "Tokens that verbose and short right answers use alike"
    return f"Tokens that {'verbose' if log_odds > 0 else 'short right'} answers use more"


def _logit(count: float, total: float) -> float:
    """The logarithm of the odds; 0 where a token is all there is or none of it."""
    return math.log(count / (total - count)) if 0 < count < total else 0.0
