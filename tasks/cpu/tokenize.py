"""The token ids of all retained pairs of a collection, and how often each token occurs on either side, exactly."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from celery import shared_task

from tasks.common.validation import ContentKey, Count, RunId
from tasks.job import Job, JobTask, run_job

WeightedIds = tuple[int, Sequence[int]]
"""m, and the token ids of one side of a retained pair of an example with m retained pairs: it weighs 1/m."""


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


def token_shares(
    verbose: Iterable[WeightedIds], compressed: Iterable[WeightedIds]
) -> list[tuple[int, float, float, float]]:
    """(id, difference, share of the verbose tokens, share of the compressed ones) of each token that occurs.

    The largest difference comes first, ties by id.  Sums are exact, and each figure is rounded once.
    """
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
def tokenize_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), tokenize)
