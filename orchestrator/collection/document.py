"""The output file, and its check against the JSON schema."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from orchestrator.collection.build import Split
from orchestrator.collection.pipeline import Gathered, JudgedPair, providers
from orchestrator.collection.settings import CollectSettings
from tasks.models import Example
from tasks.openai.provider import listed

SCHEMA_FILE = "phase0_data.schema.json"
Ids = Mapping[str, Sequence[int]]  # token ids by their key


class DocumentError(Exception):
    """A document that does not fit the schema; names the place."""


def make_document(
    settings: CollectSettings,
    split: Split,
    gathered: Sequence[Gathered],
    ids: Ids,
    selection: Mapping[str, Any],
    created_at: str,
) -> dict[str, Any]:
    """The whole output.  `gathered` goes with `split.train`; `selection` is the token_selection block."""
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
    train = [train_entry(example, found, threshold, ids) for example, found in zip(split.train, gathered, strict=True)]
    val, test = (list(map(example_fields, part)) for part in (split.val, split.test))
    splits = {"train": train, "val": val, "test": test}
    return {"metadata": metadata, "token_selection": dict(selection), "splits": splits}


def train_entry(example: Example, gathered: Gathered, threshold: float, ids: Ids) -> dict[str, Any]:
    """One example of the train split, with its pairs."""
    retained, keys = gathered.retained(threshold), gathered.token_keys
    return {
        **example_fields(example),
        "num_verbose_generated": len(gathered.verbose),
        "num_retained": len(retained),
        "sample_weight": 1 / len(retained) if retained else None,
        "retained_pairs": [
            {
                "verbose_answer": pair.verbose,
                "compressed_answer": pair.compressed,
                "verbose_token_ids": list(ids[keys[2 * position]]),
                "compressed_token_ids": list(ids[keys[2 * position + 1]]),
                "correctness": dict(pair.correctness),
            }
            for position, pair in enumerate(retained)
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


def schema() -> dict[str, Any]:
    """The JSON schema of the output, as it ships with the project."""
    text = resources.files(__package__).joinpath(SCHEMA_FILE).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def validate(document: Mapping[str, Any]) -> None:
    """Raises: DocumentError for the first place that does not fit."""
    import jsonschema

    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema()).iter_errors(document))
    if error is not None:
        raise DocumentError(f"{error.json_path}: {error.message[:300]}")
