"""What the rule reflector remembers, as the lines of a scratchpad: a step each, and what came of it.

    cluster 0: 0.0 -> 2.0 at 41.3 tokens, 0.75 correct; then 30.0 tokens, 0.75 correct

A step just made ends in "then ?"; one whose outcome nobody saw, because a crossover changed the delta first, in
"then unseen".  Lines of any other form are kept as they are, as long as there is room.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass

MOST_LINES = 24
# Of its own measure; the reflector is told no weights. A scale of 50 tokens for shortness, as short answers have.
SHORTNESS_TOKENS = 50.0
SHORTNESS_WEIGHT = 0.5

_NUMBER = r"(-?\d+(?:\.\d+)?(?:e-?\d+)?)"
_LINE = re.compile(
    rf"cluster (\d+): {_NUMBER} -> {_NUMBER} at {_NUMBER} tokens, {_NUMBER} correct; "
    rf"then (?:{_NUMBER} tokens, {_NUMBER} correct|(\?|unseen))"
)


@dataclass(frozen=True)
class Seen:
    """Mean tokens an answer, and the share of answers that are correct."""

    tokens: float
    correct: float

    @property
    def value(self) -> float:
        """More is better: correctness first, shortness second."""
        return self.correct + SHORTNESS_WEIGHT / (1 + self.tokens / SHORTNESS_TOKENS)


@dataclass(frozen=True)
class Step:
    """A delta was changed. `after` is None as long as it is not known, or when it never will be (`unseen`)."""

    cluster: str
    old: float
    new: float
    before: Seen
    after: Seen | None = None
    unseen: bool = False

    @property
    def gain(self) -> float | None:
        return None if self.after is None else self.after.value - self.before.value

    def line(self) -> str:
        outcome = "unseen" if self.unseen else "?"
        if self.after is not None:
            outcome = f"{self.after.tokens:.1f} tokens, {self.after.correct:.4g} correct"
        before = f"{self.before.tokens:.1f} tokens, {self.before.correct:.4g} correct"
        return f"cluster {self.cluster}: {self.old!r} -> {self.new!r} at {before}; then {outcome}"


def read_step(line: str) -> Step | None:
    """The step that a line tells, None for any other line."""
    found = _LINE.fullmatch(line.strip())
    if not found:
        return None
    old, new, tokens, correct = (float(found[i]) for i in range(2, 6))
    after = Seen(float(found[6]), float(found[7])) if found[6] else None
    return Step(found[1], old, new, Seen(tokens, correct), after, found[8] == "unseen")


def steps(scratchpad: str) -> list[Step]:
    """The steps of a scratchpad, oldest first."""
    return [step for line in scratchpad.split("\n") if (step := read_step(line))]


def settle(scratchpad: str, deltas: Mapping[str, float], now: Seen) -> str:
    """`scratchpad` with the outcome of its open steps: what is seen now, if the delta still is as the step made it."""
    lines = []
    for line in scratchpad.split("\n"):
        step = read_step(line)
        if step is not None and step.after is None and not step.unseen:
            kept = abs(deltas.get(step.cluster, float("inf")) - step.new) < 1e-9
            step = dataclasses.replace(step, after=now) if kept else dataclasses.replace(step, unseen=True)
            lines.append(step.line())
        elif line.strip():
            lines.append(line)
    return bounded(lines)


def bounded(lines: list[str]) -> str:
    """The newest lines, without those that are there already: as much as a scratchpad is to hold."""
    return "\n".join(list(dict.fromkeys(lines))[-MOST_LINES:])
