"""CMA-ES: a normal distribution over deltas whose mean, step size and covariance follow the better candidates.

N. Hansen and A. Ostermeier, "Completely Derandomized Self-Adaptation in Evolution Strategies", Evolutionary Computation
9(2) (2001), 159-195, as DEAP's `cma.Strategy` has it.  It uses the ranks of the candidates alone.

DEAP's strategy is made anew from the frozen state for each call, so that a resumed search runs the same arithmetic as
one that was never interrupted.  Samples are drawn with the symmetric root of the covariance: its eigenvectors, whose
signs differ between builds of LAPACK, do not enter them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from deap import cma

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
from tasks.records import Score

WORST_CONDITION = 1e14
"""A covariance with a larger ratio of its eigenvalues (or none that is positive) is reset to the identity."""


@dataclass(frozen=True, kw_only=True)
class CmaState(SearchState):
    """The distribution over the n free deltas.

    centroid [n]; covariance [n][n]; covariance_path and sigma_path [n], the two evolution paths; updates counts them.
    """

    centroid: tuple[float, ...]
    sigma: float
    covariance: tuple[tuple[float, ...], ...]
    covariance_path: tuple[float, ...]
    sigma_path: tuple[float, ...]
    updates: int = 0


class Cma(Optimiser[SearchParams, CmaState]):
    """`population_size` is the number of samples a generation (lambda), `sigma` the first step size.

    The first generation evaluates the start as well, so that the best is never worse than it.  A population that it
    starts from gives the first mean, and takes the places of samples.
    """

    name: ClassVar[str] = "cma"
    params_type = SearchParams
    state_type = CmaState

    def init(self, params: SearchParams) -> CmaState:
        return CmaState(**first_distribution(params))

    def ask(self, state: CmaState, params: SearchParams) -> Plan:
        """In the first generation with the start before the samples, or with a population among them."""
        given = params.start if state.is_new else ()
        vectors = sample(state, params, params.population_size - (len(given) if len(given) > 1 else 0))
        return drawn_plan(state.generation, [*given, *map(Genome, vectors)])

    def tell(
        self, state: CmaState, params: SearchParams, plan: Plan, outcomes: Sequence[Outcome]
    ) -> tuple[CmaState, Generation]:
        generation = drawn_generation(plan, outcomes)
        results = []
        for candidate, outcome in zip(plan.candidates, outcomes, strict=True):
            is_given = state.is_new and params.further and candidate.index < len(params.start)
            results.append((injected(state, params, candidate.deltas) if is_given else candidate.deltas, outcome.pre))
        moved = update(state, params, results[-params.population_size :])
        best = best_of(state.best, generation.population)
        return dataclasses.replace(moved, generation=state.generation + 1, best=best), generation


def first_distribution(params: SearchParams) -> dict[str, Any]:
    """The fields of a state before the first update: the mean of the start, one step size, no correlations."""
    size, count = len(params.free), len(params.start)
    zeros = (0.0,) * size
    return {
        "centroid": tuple(sum(one.deltas[position] for one in params.start) / count for position in params.free),
        "sigma": params.sigma,
        "covariance": _rows(np.identity(size)),
        "covariance_path": zeros,
        "sigma_path": zeros,
    }


def sample(state: CmaState, params: SearchParams, count: int) -> list[tuple[float, ...]]:
    """The first `count` of a generation's samples, as whole vectors, each delta within the bound."""
    made, before = _strategy(state, params), np.random.get_state()
    made.BD = (made.B * made.diagD) @ made.B.T
    np.random.seed(generator(params.seed, state.generation).getrandbits(32))  # DEAP draws from numpy's own generator
    drawn = made.generate(list)[:count]
    np.random.set_state(before)
    return [params.whole([float(value) for value in free]) for free in drawn]


def update(state: CmaState, params: SearchParams, results: Sequence[tuple[Sequence[float], Score]]) -> CmaState:
    """The state with its distribution moved towards the better of `results`, pairs of a whole vector and its score."""
    moved = _strategy(state, params)
    moved.update([_Individual([deltas[i] for i in params.free], score.fitness) for deltas, score in results])
    if not (np.isfinite(moved.C).all() and moved.diagD.min() > 0 and moved.cond < WORST_CONDITION):
        restart = {**first_distribution(params), "centroid": state.centroid}
        return dataclasses.replace(state, **restart, updates=0)
    return dataclasses.replace(
        state,
        centroid=_row(moved.centroid),
        sigma=float(moved.sigma),
        covariance=_rows(moved.C),
        covariance_path=_row(moved.pc),
        sigma_path=_row(moved.ps),
        updates=moved.update_count,
    )


def injected(state: CmaState, params: SearchParams, deltas: Sequence[float]) -> tuple[float, ...]:
    """The vector that stands for `deltas` in the update: nearer to the mean where no sample would be as far away.

    N. Hansen, "Injecting External Solutions Into CMA-ES", arXiv 1110.4181 (2011).
    """
    free = np.array([deltas[position] for position in params.free])
    made, size = _strategy(state, params), len(params.free)
    step = (free - made.centroid) / made.sigma
    length = float(np.linalg.norm((made.B.T @ step) / made.diagD))
    longest = math.sqrt(size) + 2 * size / (size + 2)
    if length > longest:
        free = made.centroid + made.sigma * step * longest / length
    whole = list(deltas)
    for position, value in zip(params.free, free, strict=True):
        whole[position] = float(value)
    return tuple(whole)


def _strategy(state: CmaState, params: SearchParams) -> Any:
    """DEAP's strategy where the state has it."""
    made = cma.Strategy(
        list(state.centroid), state.sigma, lambda_=params.population_size, cmatrix=np.array(state.covariance)
    )
    made.pc, made.ps = np.array(state.covariance_path), np.array(state.sigma_path)
    made.update_count = state.updates
    return made


class _Individual(list[float]):
    """Free deltas as DEAP sorts them."""

    def __init__(self, deltas: Sequence[float], fitness: float) -> None:
        super().__init__(deltas)
        self.fitness = fitness


def _row(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _rows(values: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(_row(row) for row in values)
