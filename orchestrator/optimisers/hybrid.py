"""CMA-ES into which the reflector's proposals are injected.

N. Hansen, "Injecting External Solutions Into CMA-ES", arXiv 1110.4181 (2011): solutions from elsewhere take part in the
update like samples, once their distance from the mean, measured in the distribution's own metric, is cut to what a
sample can have.  Here some candidates of each generation are mutations of the best so far: the reflector reads its
answers and changes one cluster, the next in turn for each candidate.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from orchestrator.optimisers.base import MUTATION, Best, better
from orchestrator.optimisers.cma import (
    CmaParams,
    CmaState,
    first_distribution,
    injected,
    sample,
    shape_problem,
    update,
)
from orchestrator.optimisers.drawn import DrawnSearch
from orchestrator.optimisers.generation import Genome
from orchestrator.optimisers.planning import plan_names
from tasks.models import Score
from tasks.plan import Candidate, Outcome, Plan


@dataclass(frozen=True, kw_only=True)
class HybridParams(CmaParams):
    """`proposals` of the `population_size` candidates of a generation come from the reflector, at most half."""

    proposals: int = 2

    def __post_init__(self) -> None:
        """Raises: ValueError as `CmaParams`, and when too few samples would be left to rank."""
        super().__post_init__()
        if not 1 <= self.proposals <= self.population_size // 2:
            raise ValueError(f"{self.proposals} proposals in a population of {self.population_size}: 1 to half of it")


@dataclass(frozen=True, kw_only=True)
class HybridState(CmaState):
    """`rr_idx` is the place, among the free clusters, of the next proposal's target."""

    rr_idx: int = 0


class Hybrid(DrawnSearch[HybridParams, HybridState]):
    """The proposals come first in a plan: their order is that of their targets."""

    name: ClassVar[str] = "hybrid"
    params_type = HybridParams
    state_type = HybridState

    def init(self, params: HybridParams) -> HybridState:
        return HybridState(**first_distribution(params))

    def drawn(self, state: HybridState, params: HybridParams) -> Plan:
        parent = state.best or Best(params.initial_deltas, params.initial_scratchpad, -math.inf)
        proposals = [
            Candidate(
                index,
                parent.deltas,
                parent.scratchpad,
                target=_target(state, params, index),
                variant=index // len(params.free),
            )
            for index in range(params.proposals)
        ]
        given = params.further if state.generation == 0 else ()
        vectors = sample(state, params, params.population_size - params.proposals - len(given))
        drawn = [*given, *(Genome(deltas, parent.scratchpad) for deltas in vectors)]
        samples = [
            Candidate(index, one.deltas, one.scratchpad) for index, one in enumerate(drawn, start=params.proposals)
        ]
        return Plan(plan_names(state.generation)[1], state.generation, (*proposals, *samples))

    def tell(self, state: HybridState, params: HybridParams, plan: Plan, outcomes: Sequence[Outcome]) -> HybridState:
        best = state.best
        results: list[tuple[Sequence[float], Score]] = []
        whole, known = self.whole(state, params, plan, outcomes)
        for candidate, outcome in zip(whole.candidates, known, strict=True):
            if candidate.target is None:
                best = better(best, candidate.deltas, outcome.scratchpad, outcome.pre)
                is_given = state.generation == 0 and candidate.index < params.proposals + len(params.further)
                moved_in = injected(state, params, candidate.deltas) if is_given else candidate.deltas
                results.append((moved_in, outcome.pre))
                continue
            if best is None:  # the start; later the parent is the best already
                best = better(best, candidate.deltas, outcome.scratchpad, outcome.pre)
            if outcome.delta is not None and outcome.mut is not None:
                deltas = [*candidate.deltas]
                deltas[candidate.target] = outcome.delta
                best = better(best, deltas, outcome.mutated_scratchpad, outcome.mut)
                results.append((injected(state, params, deltas), outcome.mut))
        moved = update(state, params, results)
        turn = (state.rr_idx + params.proposals) % len(params.free)
        corners = self.corners(state, params, plan, outcomes)
        return dataclasses.replace(moved, generation=state.generation + 1, best=best, corners=corners, rr_idx=turn)

    def stages_of_a_generation(self, params: HybridParams) -> float:
        return super().stages_of_a_generation(params) + params.proposals * MUTATION

    def problem(self, state: HybridState, params: HybridParams) -> str:
        if not 0 <= state.rr_idx < len(params.free):
            return f"rr_idx {state.rr_idx} is no position among {len(params.free)} free clusters"
        return shape_problem(state, params)


def _target(state: HybridState, params: HybridParams, index: int) -> int:
    return params.free[(state.rr_idx + index) % len(params.free)]
