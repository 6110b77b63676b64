"""What a finished collection has found: its output file, read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import FiniteFloat
from typing_extensions import TypedDict

from orchestrator.collection.checkpoints import CheckpointVerdict
from orchestrator.output import OutputError
from tasks.files import FileTooLarge, read_limited
from tasks.limits import COLLECTED_BYTES
from tasks.validation import InvalidData, parse_json

OUTPUT_PATH = "phase0.output_path"


class _Pair(TypedDict):
    verbose_answer: str
    compressed_answer: str
    correctness: CheckpointVerdict


class _RetainedPair(_Pair):
    verbose_token_ids: list[int]
    compressed_token_ids: list[int]


class _Example(TypedDict):
    example_id: str
    query: str
    gold_answer: str
    retained_pairs: list[_RetainedPair]
    discarded_pairs: list[_Pair]


class _Token(TypedDict):
    token_id: int
    token_str: str
    delta: FiniteFloat


class _Selection(TypedDict):
    v_steer: list[_Token]
    freq_raw: dict[str, FiniteFloat]
    freq_comp: dict[str, FiniteFloat]


class _Metadata(TypedDict):
    created_at: str
    target_model_id: str
    reflector_model: str
    evaluator_model: str


class _Splits(TypedDict):
    train: list[_Example]
    val: list[dict[str, Any]]
    test: list[dict[str, Any]]


class _Document(TypedDict):
    """The output of a collection: what is shown of it."""

    metadata: _Metadata
    token_selection: _Selection
    splits: _Splits


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
    Raises: OutputError for a file that cannot be used.
    """
    named = Path(settings.get(OUTPUT_PATH, ""))
    path = next((path for path in (named, folder / named.name) if path.is_file()), None)
    if path is None:
        return None
    try:
        document = parse_json(_Document, read_limited(path, COLLECTED_BYTES))
        return _result(path, document)
    except (OSError, FileTooLarge, InvalidData) as error:
        raise OutputError(f"{path} cannot be read: {error}") from None
    except KeyError as error:
        raise OutputError(f"{path} cannot be read: token {error} has no frequency") from None


def _result(path: Path, document: _Document) -> CollectionResult:
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


def _pairs(example: _Example) -> list[CollectedPair]:
    retained = [
        _pair(example, pair, len(pair["verbose_token_ids"]), len(pair["compressed_token_ids"]), is_retained=True)
        for pair in example["retained_pairs"]
    ]
    return retained + [_pair(example, pair, None, None, is_retained=False) for pair in example["discarded_pairs"]]


def _pair(
    example: _Example, pair: _Pair | _RetainedPair, verbose: int | None, compressed: int | None, *, is_retained: bool
) -> CollectedPair:
    return CollectedPair(
        example=example["example_id"],
        question=example["query"],
        gold=example["gold_answer"],
        verbose=pair["verbose_answer"],
        compressed=pair["compressed_answer"],
        verbose_tokens=verbose,
        compressed_tokens=compressed,
        is_retained=is_retained,
        reasoning=pair["correctness"]["reasoning"],
    )
