"""Random search: independent draws around the start, the best is kept.

J. Bergstra and Y. Bengio, "Random Search for Hyper-Parameter Optimization", Journal of Machine Learning Research 13
(2012), 281-305.  It is here as the yardstick: what another optimiser finds on the same budget must be better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from orchestrator.evolve.optimisers import (
    Generation,
    Genome,
    Optimiser,
    SearchParams,
    SearchState,
    best_of,
    drawn_generation,
    generator,
)
from tasks.plan import Candidate, Outcome, Plan


@dataclass(frozen=True, kw_only=True)
class RandomParams(SearchParams):
    """`sigma` is the standard deviation of a free delta around its start."""

    sigma: float = 1.5


class RandomSearch(Optimiser[RandomParams, SearchState]):
    """`population_size` draws a generation.  The first candidates of the first generation are the start itself."""

    name: ClassVar[str] = "random"
    params_type = RandomParams
    state_type = SearchState

    def init(self, params: RandomParams) -> SearchState:
        return SearchState()

    def ask(self, state: SearchState, params: RandomParams) -> Plan:
        rng, start = generator(params.seed, state.generation), params.start if state.is_new else ()
        count, around = params.population_size, [params.initial_deltas[position] for position in params.free]
        draws = [params.whole([rng.gauss(value, params.sigma) for value in around]) for _ in range(count)]
        drawn = [*start, *map(Genome, draws[len(start) :])][:count]
        candidates = tuple(Candidate(index, one.deltas, one.scratchpad) for index, one in enumerate(drawn))
        return Plan("population", state.generation, candidates)

    def tell(
        self, state: SearchState, params: RandomParams, plan: Plan, outcomes: Sequence[Outcome]
    ) -> tuple[SearchState, Generation]:
        generation = drawn_generation(plan, outcomes)
        best = best_of(state.best, generation.population)
        return replace(state, generation=state.generation + 1, best=best), generation
