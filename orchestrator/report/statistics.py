"""Answers with their verdicts, and two sets of answers to the same questions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class JudgedAnswer:
    """One answer and its verdict.  `tokens` does not count the end-of-turn token.

    is_right: the judge's verdict; is_whole: the answer is not cut; is_loop: it repeated itself to the cap.
    """

    example: str
    tokens: int
    is_right: bool
    text: str
    question: str
    gold: str
    reasoning: str
    is_whole: bool = True
    is_loop: bool = False

    @property
    def is_correct(self) -> bool:
        """Right and whole."""
        return self.is_right and self.is_whole


@dataclass(frozen=True)
class Comparison:
    """Answers to one set of examples `before` and `after` steering. `name` is, for example, "training set"."""

    name: str
    before: tuple[JudgedAnswer, ...]
    after: tuple[JudgedAnswer, ...]

    def pairs(self) -> Iterator[tuple[JudgedAnswer, JudgedAnswer]]:
        """The two answers to each example, in the order of `before`."""
        after = {graded.example: graded for graded in self.after}
        for graded in self.before:
            yield graded, after[graded.example]
