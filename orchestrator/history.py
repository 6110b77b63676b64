"""`history.jsonl` of a run: one line for each generation."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field, FiniteFloat
from typing_extensions import TypedDict

from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.lines import load_lines


class ScoredIndividual(TypedDict):
    node: str
    fitness: FiniteFloat
    shortness: FiniteFloat
    correctness: FiniteFloat
    mean_tokens: FiniteFloat


class GenerationRecord(TypedDict):
    """A line of history.jsonl: what is read of it again.  `seconds` are by stage, and "wall"."""

    generation: int
    best: FiniteFloat
    mean: FiniteFloat
    best_ever: FiniteFloat
    population: Annotated[list[ScoredIndividual], Field(min_length=1)]
    offspring: list[ScoredIndividual]
    evaluations: dict[str, int]
    seconds: dict[str, FiniteFloat]
    tokens: dict[str, FiniteFloat]
    calls: FiniteFloat
    answered: NotRequired[dict[str, list[str]]]
    cost_usd: FiniteFloat | None  # None: the prices are not known


def read_history(path: Path) -> list[dict[str, Any]]:
    return load_lines(path, GenerationRecord, "generation")


def write_history(output: OutputFolder, generations: Iterable[dict[str, Any]]) -> None:
    output.write("history.jsonl", "".join(json.dumps(g) + "\n" for g in generations))
