"""The output of a collection: the file that it writes, and what is read of it again."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NotRequired

from typing_extensions import TypedDict

from orchestrator.collect.settings import CollectSettings
from orchestrator.runs.folder import read_json
from tasks.openai.endpoint import join_providers
from tasks.records import Example

OUTPUT_PATH = "phase0.output_path"
PairIds = tuple[Sequence[int], Sequence[int]]
"""The token ids of a verbose and of a compressed answer."""


class Split(NamedTuple):
    """The three parts, each in the order of the shuffle."""

    train: tuple[Example, ...]
    val: tuple[Example, ...]
    test: tuple[Example, ...]


@dataclass
class Pair:
    """One sample: a verbose answer, and its compressed form with the verdict on it, as far as they are there.

    The fields are those of the second checkpoint; compressed_by and judged_by say who answered, "" for the judge's own
    rules.
    """

    verbose_answer: str
    compressed_answer: str = ""
    correctness: dict[str, Any] | None = None
    compressed_by: str = ""
    judged_by: str = ""

    @property
    def is_retained(self) -> bool:
        """Its score, which is 1 where it is correct and else 0, reaches the threshold, which is above 0."""
        return bool(self.correctness and self.correctness["is_correct"])


Samples = Mapping[int, Pair]
"""The pairs of one example so far, by the number of the sample."""


def retained(samples: Samples) -> list[Pair]:
    return [samples[number] for number in sorted(samples) if samples[number].is_retained]


def make_document(
    settings: CollectSettings,
    split: Split,
    gathered: Sequence[Samples],
    ids: Sequence[PairIds],
    selection: Mapping[str, Any],
    created_at: str,
) -> dict[str, Any]:
    """The whole output.  `gathered` goes with `split.train`, `ids` with the retained pairs of all examples in turn;
    `selection` is the token_selection block.
    """
    counts = [len(retained(samples)) for samples in gathered]
    pairs = [pair for samples in gathered for pair in samples.values()]
    metadata = {
        "created_at": created_at,
        "seed": settings.seed,
        "target_model_id": settings.target.model_id,
        # Who answered, and not whom the settings name; those are in the snapshot below.
        "reflector_model": join_providers(pair.compressed_by for pair in pairs),
        "evaluator_model": join_providers(pair.judged_by for pair in pairs),
        "verbose_num_samples": settings.phase0.verbose_num_samples,
        "k": settings.phase0.k,
        "correctness_tolerance": settings.phase0.correctness.tolerance,
        "split_counts": {name: len(part) for name, part in split._asdict().items()},
        "train_retained_examples": sum(m > 0 for m in counts),
        "train_discarded_examples": sum(m == 0 for m in counts),
        "total_retained_pairs": sum(counts),
        "config_snapshot": dataclasses.asdict(settings),
    }
    left = iter(ids)
    train = [_train_entry(example, found, left) for example, found in zip(split.train, gathered, strict=True)]
    others = {name: list(map(_example_fields, getattr(split, name))) for name in ("val", "test")}
    return {"metadata": metadata, "token_selection": dict(selection), "splits": {"train": train, **others}}


def _train_entry(example: Example, samples: Samples, ids: Iterator[PairIds]) -> dict[str, Any]:
    """One example of the train split, with its pairs."""
    kept = retained(samples)
    return {
        **_example_fields(example),
        "num_verbose_generated": len(samples),
        "num_retained": len(kept),
        "sample_weight": 1 / len(kept) if kept else None,
        # `kept` first: where it ends, nothing of the next example's ids has been taken.
        "retained_pairs": [_pair_fields(pair, *tokens) for pair, tokens in zip(kept, ids, strict=False)],
        "discarded_pairs": [_pair_fields(pair) for _, pair in sorted(samples.items()) if not pair.is_retained],
    }


def _example_fields(example: Example) -> dict[str, str]:
    about = {"example_id": example.id, "context": example.context}
    return about | {"query": example.question, "gold_answer": example.gold}


def _pair_fields(pair: Pair, *ids: Sequence[int]) -> dict[str, Any]:
    tokens = zip(("verbose_token_ids", "compressed_token_ids"), map(list, ids), strict=False)
    answers = {"verbose_answer": pair.verbose_answer, "compressed_answer": pair.compressed_answer}
    return {**answers, **dict(tokens), "correctness": pair.correctness}


# What is read again: the keys of the output that others use.


class CollectedPair(TypedDict):
    verbose_answer: str
    compressed_answer: str
    correctness: dict[str, Any]
    verbose_token_ids: NotRequired[list[int]]  # of a retained pair, as those of the other side
    compressed_token_ids: NotRequired[list[int]]


def token_counts(pair: CollectedPair) -> tuple[int, int]:
    """Of the two answers; they are counted for retained pairs only, 0 for others."""
    return len(pair.get("verbose_token_ids", [])), len(pair.get("compressed_token_ids", []))


class CollectedExample(TypedDict):
    example_id: str
    query: str
    gold_answer: str
    retained_pairs: list[CollectedPair]
    discarded_pairs: list[CollectedPair]


class WastedToken(TypedDict):
    token_id: int
    token_str: str
    delta: float


class TokenSelection(TypedDict):
    """The discovered tokens, and by id how large a share they have of verbose and of compressed answers."""

    v_steer: list[WastedToken]
    freq_raw: dict[str, float]
    freq_comp: dict[str, float]


class Splits(TypedDict):
    train: list[CollectedExample]


class CollectionFile(TypedDict):
    token_selection: TokenSelection
    splits: Splits


def read_collection(folder: Path, settings: Mapping[str, str]) -> CollectionFile | None:
    """The output of the collection in this folder, None before there is one.

    A folder that was moved is looked into when the path of its settings leads nowhere.
    """
    named = Path(settings.get(OUTPUT_PATH, ""))
    path = next((path for path in (named, folder / named.name) if path.is_file()), None)
    return None if path is None else read_json(path, CollectionFile)
