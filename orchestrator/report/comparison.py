"""The same questions answered without and with the evolved deltas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Graded:
    """One answer and what the judge said of it. `tokens` without the end-of-turn token."""

    example: str
    tokens: int
    is_correct: bool
    text: str
    question: str
    gold: str
    reasoning: str


@dataclass(frozen=True)
class Comparison:
    """A set of examples before (the zero vector) and after (the best deltas). `name` as in "training set"."""

    name: str
    before: tuple[Graded, ...]
    after: tuple[Graded, ...]
    fitness_before: float | None = None
    fitness_after: float | None = None

    def pairs(self) -> Iterator[tuple[Graded, Graded]]:
        """The two answers to each example, in the order of `before`.

        Raises: ValueError when the two sides do not hold the same examples, once each.
        """
        after = {graded.example: graded for graded in self.after}
        examples = {graded.example for graded in self.before}
        if examples != after.keys() or len(examples) != len(self.before) or len(after) != len(self.after):
            raise ValueError(f"{self.name}: the examples before and after are not the same, once each")
        for graded in self.before:
            yield graded, after[graded.example]
