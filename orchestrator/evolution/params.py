"""The parameters of the genetic algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Params:
    """`generations` counts the generations to run, 0 .. generations - 1.

    `tournament_size` is used by tournament selection, `top_k` by truncation; the other is ignored.
    """

    seed: int
    cluster_ids: tuple[str, ...]
    initial_deltas: tuple[float, ...]
    population_size: int
    generations: int
    crossover_probability: float
    mutation_probability: float
    elitism_size: int
    selection: Literal["tournament", "truncation"]
    tournament_size: int
    top_k: int

    @property
    def offspring_size(self) -> int:
        return self.population_size - self.elitism_size
