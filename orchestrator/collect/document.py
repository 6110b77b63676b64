"""The output file of a collection."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.collect.build import Split
from orchestrator.collect.pipeline import Gathered, JudgedPair, providers
from orchestrator.collect.settings import CollectSettings
from tasks.openai.endpoint import listed
from tasks.records import Example

PairIds = tuple[Sequence[int], Sequence[int]]
"""The token ids of a verbose and of a compressed answer."""


def make_document(
    settings: CollectSettings,
    split: Split,
    gathered: Sequence[Gathered],
    ids: Sequence[PairIds],
    selection: Mapping[str, Any],
    created_at: str,
) -> dict[str, Any]:
    """The whole output.  `gathered` goes with `split.train`, `ids` with the retained pairs of all examples in turn;
    `selection` is the token_selection block.
    """
    threshold = settings.phase0.correctness.threshold
    retained = [len(found.retained(threshold)) for found in gathered]
    metadata = {
        "created_at": created_at,
        "seed": settings.seed,
        "target_model_id": settings.target.model_id,
        # Who answered, and not whom the settings name; those are in the snapshot below.
        "reflector_model": listed(providers(found.compressed_by for found in gathered)),
        "evaluator_model": listed(providers(found.judged_by for found in gathered)),
        "verbose_num_samples": settings.phase0.verbose_num_samples,
        "k": settings.phase0.k,
        "correctness_tolerance": settings.phase0.correctness.tolerance,
        "split_counts": {"train": len(split.train), "val": len(split.val), "test": len(split.test)},
        "train_retained_examples": sum(m > 0 for m in retained),
        "train_discarded_examples": sum(m == 0 for m in retained),
        "total_retained_pairs": sum(retained),
        "config_snapshot": dataclasses.asdict(settings),
    }
    left = iter(ids)
    train = [_train_entry(each, found, threshold, left) for each, found in zip(split.train, gathered, strict=True)]
    val, test = (list(map(example_fields, part)) for part in (split.val, split.test))
    splits = {"train": train, "val": val, "test": test}
    return {"metadata": metadata, "token_selection": dict(selection), "splits": splits}


def _train_entry(example: Example, gathered: Gathered, threshold: float, ids: Iterator[PairIds]) -> dict[str, Any]:
    """One example of the train split, with its pairs."""
    retained = gathered.retained(threshold)
    return {
        **example_fields(example),
        "num_verbose_generated": len(gathered.verbose),
        "num_retained": len(retained),
        "sample_weight": 1 / len(retained) if retained else None,
        "retained_pairs": [
            {
                "verbose_answer": pair.verbose,
                "compressed_answer": pair.compressed,
                "verbose_token_ids": list(verbose_ids),
                "compressed_token_ids": list(compressed_ids),
                "correctness": dict(pair.correctness),
            }
            # `retained` first: where it ends, nothing of the next example's ids has been taken.
            for pair, (verbose_ids, compressed_ids) in zip(retained, ids, strict=False)
        ],
        "discarded_pairs": [_discarded(pair) for pair in gathered.discarded(threshold)],
    }


def example_fields(example: Example) -> dict[str, str]:
    return {
        "example_id": example.id,
        "context": example.context,
        "query": example.question,
        "gold_answer": example.gold,
    }


def _discarded(pair: JudgedPair) -> dict[str, Any]:
    return {
        "verbose_answer": pair.verbose,
        "compressed_answer": pair.compressed,
        "correctness": dict(pair.correctness),
    }
