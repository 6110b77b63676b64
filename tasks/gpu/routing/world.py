"""What a trajectory is trained on: prompts, what completions are worth, teacher rows and pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tasks.gpu.routing.pair_sides import TokenPair

Logged = str | int | float | bool | None


@dataclass(frozen=True)
class PromptTokens:
    """A prompt in token ids; `where` is the world's own, to score it: the problem and the mode, say."""

    tokens: tuple[int, ...]
    where: object


@dataclass(frozen=True)
class WorldScore:
    """`log` goes into the record of the row and decides nothing.  One column, `exploited`, is read by `ceiling`."""

    reward: float
    log: Mapping[str, Logged] = field(default_factory=dict)


@dataclass(frozen=True)
class TeacherRow:
    """A completion that stands in the group of prompt number `group` in place of a sampled one."""

    group: int
    completion: tuple[int, ...]
    score: WorldScore


class World(Protocol):
    """Its answers depend on its arguments alone, so that a resumed trajectory goes on as the first would have."""

    @property
    def pairs(self) -> Sequence[TokenPair]:
        """The authored pairs, of the known mode alone."""

    @property
    def placebo(self) -> Sequence[TokenPair]:
        """Honest texts on both sides, the odd one as `rej`."""

    def prompts(self, step: int, generator: np.random.Generator) -> Sequence[PromptTokens]:
        """The prompts of a step; each becomes a group of completions."""

    def score(self, prompts: Sequence[PromptTokens], completions: Sequence[tuple[int, ...]]) -> Sequence[WorldScore]:
        """One score for each completion; the prompts are repeated, one for each."""

    def teacher(self, step: int, prompts: Sequence[PromptTokens]) -> Sequence[TeacherRow]:
        """Teacher rows for the groups of these prompts; at most a group's size for each."""
