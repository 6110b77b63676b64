"""What a finished collection has found: its output file, read again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.runs.folder import OutputError

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
        return _result(path, json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        raise OutputError(f"{path} cannot be read: {error}") from None
    except KeyError as error:
        raise OutputError(f"{path} cannot be read: {error} is missing") from None


def _result(path: Path, document: Mapping[str, Any]) -> CollectionResult:
    metadata, selection = document["metadata"], document["token_selection"]
    return CollectionResult(
        path=path,
        created_at=metadata["created_at"],
        model=metadata["target_model_id"],
        reflector=metadata["reflector_model"],
        judge=metadata["evaluator_model"],
        examples=len(document["splits"]["train"]),
        pairs=tuple(pair for example in document["splits"]["train"] for pair in _pairs(example)),
        tokens=tuple(
            WastedToken(
                token_id=token["token_id"],
                text=token["token_str"],
                delta=token["delta"],
                verbose=selection["freq_raw"][str(token["token_id"])],
                compressed=selection["freq_comp"][str(token["token_id"])],
            )
            for token in selection["v_steer"]
        ),
    )


def _pairs(example: Mapping[str, Any]) -> list[CollectedPair]:
    retained, discarded = example["retained_pairs"], example["discarded_pairs"]
    return [_pair(example, pair, True) for pair in retained] + [_pair(example, pair, False) for pair in discarded]


def _pair(example: Mapping[str, Any], pair: Mapping[str, Any], is_retained: bool) -> CollectedPair:
    return CollectedPair(
        example=example["example_id"],
        question=example["query"],
        gold=example["gold_answer"],
        verbose=pair["verbose_answer"],
        compressed=pair["compressed_answer"],
        verbose_tokens=len(pair["verbose_token_ids"]) if is_retained else None,
        compressed_tokens=len(pair["compressed_token_ids"]) if is_retained else None,
        is_retained=is_retained,
        reasoning=pair["correctness"]["reasoning"],
    )
