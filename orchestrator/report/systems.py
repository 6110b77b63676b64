"""The systems that a report compares: the plain model, system prompts, vectors without search, and the evolved vector.

Each is a system prompt with deltas.  It is measured on the validation set, by which the winner is chosen, and perhaps
on the test set, which is asked once, at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

SystemKind = Literal["plain", "prompt", "vector", "evolved"]
SetName = Literal["validation", "test"]


@dataclass(frozen=True)
class Measurement:
    """The answers of one system to a set of questions: tokens [n] and verdicts [n], in the order of `examples` [n]."""

    examples: tuple[str, ...]
    tokens: tuple[int, ...]
    correct: tuple[bool, ...]
    fitness: float

    @property
    def mean_tokens(self) -> float:
        return sum(self.tokens) / len(self.tokens)

    @property
    def right(self) -> int:
        return sum(self.correct)

    def on(self, examples: Sequence[str]) -> Measurement:
        """The same system on a part of its questions."""
        place = {example: position for position, example in enumerate(self.examples)}
        chosen = [place[example] for example in examples]
        return Measurement(
            tuple(examples), tuple(self.tokens[i] for i in chosen), tuple(self.correct[i] for i in chosen), self.fitness
        )


@dataclass(frozen=True)
class MeasuredSystem:
    """One system and what was measured of it; None where it was not measured.

    kind: "plain" is the model as it is, "prompt" another system prompt without deltas, "vector" deltas without search,
    "evolved" deltas of the search.  `deltas` is empty, or all zeros, for a system without steering.  `repeats`
    are further measurements of the validation set.
    """

    name: str
    kind: SystemKind
    system_prompt: str
    deltas: tuple[float, ...] = ()
    validation: Measurement | None = None
    test: Measurement | None = None
    repeats: tuple[Measurement, ...] = ()

    def measured_on(self, name: SetName) -> Measurement | None:
        return self.validation if name == "validation" else self.test


def pair_up(before: Measurement, after: Measurement) -> tuple[Measurement, Measurement]:
    """Both on the questions that both were asked, in the order of `before`."""
    asked = set(after.examples)
    common = tuple(example for example in before.examples if example in asked)
    return before.on(common), after.on(common)
