"""Random search: what another optimiser finds on the same budget must be better.

J. Bergstra and Y. Bengio, "Random Search for Hyper-Parameter Optimization", Journal of Machine Learning Research 13
(2012), 281-305.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from orchestrator.evolve.optimisers import (
    Generation,
    Optimiser,
    SearchParams,
    SearchState,
    best_of,
    drawn_generation,
    drawn_plan,
    generator,
)
from orchestrator.settings.inputs import Genome
from tasks.plan import Outcome, Plan


class RandomSearch(Optimiser[SearchParams, SearchState]):
    """`population_size` draws around the start a generation; the first of the first generation are the start itself."""

    name: ClassVar[str] = "random"
    params_type = SearchParams
    state_type = SearchState

    def init(self, params: SearchParams) -> SearchState:
        return SearchState()

    def ask(self, state: SearchState, params: SearchParams) -> Plan:
        rng, start = generator(params.seed, state.generation), params.start if state.is_new else ()
        count, around = params.population_size, [params.initial_deltas[position] for position in params.free]
        draws = [params.whole([rng.gauss(value, params.sigma) for value in around]) for _ in range(count)]
        return drawn_plan(state.generation, [*start, *map(Genome, draws[len(start) :])][:count])

    def tell(
        self, state: SearchState, params: SearchParams, plan: Plan, outcomes: Sequence[Outcome]
    ) -> tuple[SearchState, Generation]:
        generation = drawn_generation(plan, outcomes)
        best = best_of(state.best, generation.population)
        return replace(state, generation=state.generation + 1, best=best), generation
