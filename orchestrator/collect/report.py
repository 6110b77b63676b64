"""The output of a collection: the file that it writes, and what is read of it again."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.collect.settings import CollectSettings
from orchestrator.runs.folder import OutputError
from tasks.openai.endpoint import join_providers
from tasks.records import Example


@dataclass(frozen=True)
class Split:
    """The three parts, each in the order of the shuffle."""

    train: tuple[Example, ...]
    val: tuple[Example, ...]
    test: tuple[Example, ...]


@dataclass(frozen=True)
class JudgedPair:
    """One generated pair, and the verdict on its compressed answer."""

    sample: int
    verbose: str
    compressed: str
    correctness: Mapping[str, Any]

    @property
    def score(self) -> float:
        return 1.0 if self.correctness["is_correct"] else 0.0


@dataclass
class Gathered:
    """The results of one example so far, by sample."""

    verbose: dict[int, str] = field(default_factory=dict)
    compressed: dict[int, str] = field(default_factory=dict)
    correctness: dict[int, dict[str, Any]] = field(default_factory=dict)
    compressed_by: dict[int, str] = field(default_factory=dict)  # who wrote it
    skipped: dict[int, str] = field(default_factory=dict)  # why a verbose answer was not compressed
    judged_by: dict[int, str] = field(default_factory=dict)  # likewise; "" for the judge's own rules

    def pairs(self) -> list[JudgedPair]:
        return [JudgedPair(j, self.verbose[j], self.compressed[j], self._verdict(j)) for j in sorted(self.correctness)]

    def _verdict(self, sample: int) -> dict[str, Any]:
        """What was not compressed was judged as an empty answer; the reason says more."""
        reason = self.skipped.get(sample)
        return self.correctness[sample] | ({"reasoning": f"Not compressed: {reason}."} if reason else {})

    def retained(self, threshold: float) -> list[JudgedPair]:
        return [pair for pair in self.pairs() if pair.score >= threshold]

    def discarded(self, threshold: float) -> list[JudgedPair]:
        return [pair for pair in self.pairs() if pair.score < threshold]


def providers(by_sample: Iterable[Mapping[int, str]]) -> set[str]:
    """Who answered, over all samples."""
    return {name for names in by_sample for name in names.values() if name}


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
        "reflector_model": join_providers(providers(found.compressed_by for found in gathered)),
        "evaluator_model": join_providers(providers(found.judged_by for found in gathered)),
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


OUTPUT_PATH = "phase0.output_path"


@dataclass(frozen=True)
class CollectedPair:
    """A verbose answer and its compressed form.  Tokens are counted of retained pairs only, None for others."""

    example: str
    question: str
    gold: str
    verbose: str
    compressed: str
    verbose_tokens: int | None
    compressed_tokens: int | None
    is_retained: bool
    reasoning: str


@dataclass(frozen=True)
class WastedToken:
    """A discovered token.  `verbose` and `compressed` are its shares of the two sides, `delta` is their difference."""

    token_id: int
    text: str
    delta: float
    verbose: float
    compressed: float


@dataclass(frozen=True)
class CollectionResult:
    """What was collected; `tokens` begin with the most wasted."""

    path: Path
    created_at: str
    model: str
    reflector: str
    judge: str
    examples: int
    pairs: tuple[CollectedPair, ...]
    tokens: tuple[WastedToken, ...]

    @property
    def retained(self) -> tuple[CollectedPair, ...]:
        return tuple(pair for pair in self.pairs if pair.is_retained)


def read_collection(folder: Path, settings: Mapping[str, str]) -> CollectionResult | None:
    """The output of the collection in this folder, None before there is one.

    A folder that was moved is looked into when the path of its settings leads nowhere.
    """
    named = Path(settings.get(OUTPUT_PATH, ""))
    path = next((path for path in (named, folder / named.name) if path.is_file()), None)
    if path is None:
        return None
    try:
        document = json.loads(path.read_bytes())
        metadata, selection = document["metadata"], document["token_selection"]
        train = document["splits"]["train"]
        return CollectionResult(
            path=path,
            created_at=metadata["created_at"],
            model=metadata["target_model_id"],
            reflector=metadata["reflector_model"],
            judge=metadata["evaluator_model"],
            examples=len(train),
            pairs=tuple(pair for example in train for pair in _read_pairs(example)),
            tokens=tuple(_read_token(token, selection) for token in selection["v_steer"]),
        )
    except (OSError, ValueError, TypeError) as error:
        raise OutputError(f"{path} cannot be read: {error}") from None
    except KeyError as error:
        raise OutputError(f"{path} cannot be read: {error} is missing") from None


def _read_token(token: Mapping[str, Any], selection: Mapping[str, Any]) -> WastedToken:
    verbose, compressed = (selection[side][str(token["token_id"])] for side in ("freq_raw", "freq_comp"))
    return WastedToken(token["token_id"], token["token_str"], token["delta"], verbose, compressed)


def _read_pairs(example: Mapping[str, Any]) -> Iterator[CollectedPair]:
    about = example["example_id"], example["query"], example["gold_answer"]
    for is_retained in (True, False):
        for pair in example["retained_pairs" if is_retained else "discarded_pairs"]:
            texts = pair["verbose_answer"], pair["compressed_answer"]
            sides = ("verbose_token_ids", "compressed_token_ids")
            verbose, compressed = (len(pair[side]) if is_retained else None for side in sides)
            yield CollectedPair(*about, *texts, verbose, compressed, is_retained, pair["correctness"]["reasoning"])
