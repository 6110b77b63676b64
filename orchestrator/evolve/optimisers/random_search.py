"""Random search: independent draws around the start, the best is kept.

J. Bergstra and Y. Bengio, "Random Search for Hyper-Parameter Optimization", Journal of Machine Learning Research 13
(2012), 281-305.  It is here as the yardstick: what another optimiser finds on the same budget must be better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from orchestrator.evolve.optimisers.base import SearchParams, better, clip
from orchestrator.evolve.optimisers.drawn import DrawnSearch, DrawnState
from orchestrator.evolve.optimisers.generation import Genome
from orchestrator.evolve.optimisers.planning import generator, plan_names
from tasks.plan import Candidate, Outcome, Plan


@dataclass(frozen=True, kw_only=True)
class RandomParams(SearchParams):
    """`sigma` is the standard deviation of a free delta around its start."""

    sigma: float = 1.5


class RandomSearch(DrawnSearch[RandomParams, DrawnState]):
    """`population_size` draws a generation.  The first candidates of the first generation are the start itself."""

    name: ClassVar[str] = "random"
    params_type = RandomParams
    state_type = DrawnState

    def init(self, params: RandomParams) -> DrawnState:
        return DrawnState()

    def drawn(self, state: DrawnState, params: RandomParams) -> Plan:
        """The first of all are the start."""
        rng = generator(params.seed, state.generation)
        candidates = []
        for index in range(params.population_size):
            deltas = list(params.initial_deltas)
            for position in params.free:
                deltas[position] = clip(rng.gauss(deltas[position], params.sigma), params.bound)
            is_start = state.generation == 0 and index < len(params.start)
            drawn = params.start[index] if is_start else Genome(tuple(deltas), "")
            candidates.append(Candidate(index, drawn.deltas, drawn.scratchpad))
        return Plan(plan_names(state.generation)[0], state.generation, tuple(candidates))

    def tell(self, state: DrawnState, params: RandomParams, plan: Plan, outcomes: Sequence[Outcome]) -> DrawnState:
        best = state.best
        drawn, known = self.completed(state, params, plan, outcomes)
        for candidate, outcome in zip(drawn.candidates, known, strict=True):
            best = better(best, candidate.deltas, outcome.scratchpad, outcome.pre)
        corners = self.corners(state, params, plan, outcomes)
        return replace(state, generation=state.generation + 1, best=best, corners=corners)
