"""The records that stages leave behind and read: plain, frozen, and small enough to be read by a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Example:
    """One question of the data set, with the pages that answer it and the answer that people gave."""

    id: str
    context: str
    question: str
    gold: str


@dataclass(frozen=True)
class Answer:
    """What the target said. `tokens` counts the generated tokens without the end-of-turn token."""

    example: str
    text: str
    tokens: int
    finish: Literal["stop", "length"]


@dataclass(frozen=True)
class Verdict:
    """Whether an answer agrees with the gold, which stage decided it (1, 2 or 3), and why."""

    is_correct: bool
    stage: int
    confidence: float
    category: Literal["numerical", "yes_no", "text"]
    reasoning: str


@dataclass(frozen=True)
class Score:
    """The fitness of one individual on one set of examples, and what it is made of."""

    fitness: float
    shortness: float
    correctness: float
    mean_tokens: float
