"""`history.jsonl` of a run: one line for each generation."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field, FiniteFloat
from typing_extensions import TypedDict

from orchestrator.output import OutputError, OutputFolder
from tasks.validation import InvalidData, checked_json


class ScoredIndividual(TypedDict):
    node: str
    fitness: FiniteFloat
    shortness: FiniteFloat
    correctness: FiniteFloat
    mean_tokens: FiniteFloat


class WallTime(TypedDict):
    wall: FiniteFloat


class TokenCounts(TypedDict):
    target: FiniteFloat
    prompt: FiniteFloat
    cached: FiniteFloat
    completion: FiniteFloat


class EvaluationCounts(TypedDict):
    computed: int
    cached: int
    carried: int


class GenerationRecord(TypedDict):
    """A line of history.jsonl: what is read of it again."""

    generation: int
    best: FiniteFloat
    mean: FiniteFloat
    best_ever: FiniteFloat
    population: Annotated[list[ScoredIndividual], Field(min_length=1)]
    offspring: list[ScoredIndividual]
    evaluations: EvaluationCounts
    seconds: WallTime
    tokens: TokenCounts
    calls: FiniteFloat
    answered: NotRequired[dict[str, list[str]]]
    cost_usd: FiniteFloat | None  # None: the prices are not known


def read_history(path: Path) -> list[dict[str, Any]]:
    try:
        whole, _, _ = path.read_bytes().rpartition(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror}") from None
    generations: list[dict[str, Any]] = []
    for number, line in enumerate(whole.split(b"\n") if whole else (), start=1):
        try:
            generations.append(checked_json(GenerationRecord, line))
        except InvalidData as error:
            raise OutputError(f"{path}: line {number} is no generation: {error}") from None
    return generations


def write_history(output: OutputFolder, generations: Iterable[dict[str, Any]]) -> None:
    output.write("history.jsonl", "".join(json.dumps(g) + "\n" for g in generations))
