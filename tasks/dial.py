"""The length dial: vectors from the longest answers to the shortest, and the interpolation between them.

A knot is a vector that has been measured.  A dial d from 0 to 1 stands for a mean length: with T0 the mean tokens of
the longest knot and T1 those of the shortest, it is T0 + d (T1 - T0).  So each knot has its place on the dial, and half
of the dial is half of the saving.  Between two knots each delta is interpolated linearly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.context import content_hash
from tasks.validation import Delta

DIAL_FILE = "dial.json"
FRONT_HASH_DIGITS = 32


@dataclass(frozen=True)
class Measured:
    """A vector, and what the validation set has shown of it.  `share_right` is from 0 to 1."""

    name: str
    deltas: tuple[float, ...]
    mean_tokens: float
    share_right: float


@dataclass(frozen=True)
class Knot:
    """A measured vector with its place on the dial."""

    name: str
    dial: float
    mean_tokens: float
    share_right: float
    deltas: tuple[Delta, ...]


@dataclass(frozen=True)
class Dial:
    """At least two knots for one system prompt, from dial 0 to dial 1; their mean tokens fall.

    `default` are the deltas of a request that chooses nothing: the winner's.
    """

    clustering: str
    system_prompt: str
    default: tuple[Delta, ...]
    knots: tuple[Knot, ...]

    def deltas_at(self, dial: float) -> tuple[float, ...]:
        """The deltas at a dial; below 0 they are those of 0, above 1 those of 1."""
        dials = [knot.dial for knot in self.knots]
        columns = zip(*(knot.deltas for knot in self.knots), strict=True)
        return tuple(float(np.interp(dial, dials, column)) for column in columns)

    def dial_of(self, target_tokens: float) -> float:
        """The dial whose interpolated mean tokens are `target_tokens`: 0 for more than any knot has, 1 for fewer."""
        rising = [-knot.mean_tokens for knot in self.knots]
        return float(np.interp(-target_tokens, rising, [knot.dial for knot in self.knots]))

    @property
    def front(self) -> str:
        """The content hash by which a request names this dial to the plugin (`workers/steering/front.py`)."""
        return content_hash(dataclasses.asdict(self))[:FRONT_HASH_DIGITS]

    def document(self) -> dict[str, Any]:
        """What `dial.json` holds, and the plugin reads as `<front>.json`."""
        return {"front": self.front, **dataclasses.asdict(self)}


def make_knots(measured: Sequence[Measured]) -> tuple[Knot, ...]:
    """The vectors that no other beats, from the longest to the shortest; empty where they are fewer than two.

    One beats another with no more tokens and no fewer right answers.  So along the knots both fall: a shorter answer is
    paid for with right answers, or it would have taken the longer one's place.  Of equals the first counts.
    """
    ordered = sorted(measured, key=lambda one: (one.mean_tokens, -one.share_right))
    chosen: list[Measured] = []
    for one in ordered:
        if not chosen or one.share_right > chosen[-1].share_right:
            chosen.append(one)
    if len(chosen) < 2:
        return ()
    longest, shortest = chosen[-1].mean_tokens, chosen[0].mean_tokens
    return tuple(
        Knot(one.name, (longest - one.mean_tokens) / (longest - shortest), one.mean_tokens, one.share_right, one.deltas)
        for one in reversed(chosen)
    )
