"""NSGA-II: fewer tokens and more right answers as two objectives, and the whole front between them as the result.

K. Deb, A. Pratap, S. Agarwal and T. Meyarivan, "A Fast and Elitist Multiobjective Genetic Algorithm: NSGA-II", IEEE
Transactions on Evolutionary Computation 6(2) (2002), 182-197, with DEAP's tools: tournament by dominance and crowding,
simulated binary crossover, polynomial mutation, and survival by front and crowding.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from deap import base, creator, tools

from orchestrator.optimisers.base import Member, SearchParams, better, clip
from orchestrator.optimisers.drawn import DrawnSearch, DrawnState
from orchestrator.optimisers.generation import Genome
from orchestrator.optimisers.operators import use_rng
from orchestrator.optimisers.planning import generator, plan_names
from tasks.models import Score
from tasks.plan import Candidate, Outcome, Plan

creator.create("FitnessTokensCorrect", base.Fitness, weights=(-1.0, 1.0))
creator.create("TwoObjectives", list, fitness=creator.FitnessTokensCorrect)


@dataclass(frozen=True, kw_only=True)
class Nsga2Params(SearchParams):
    """`sigma` spreads the first population around the start; `eta` crowds children near their parents (DEAP's term)."""

    sigma: float = 1.0
    crossover_probability: float = 0.9
    eta: float = 15.0

    def __post_init__(self) -> None:
        """Raises: ValueError as `SearchParams`, and when the population cannot be paired by fours."""
        super().__post_init__()
        if self.population_size % 4 or self.population_size < 4:
            raise ValueError(f"a population of {self.population_size}: the tournament takes multiples of 4")


@dataclass(frozen=True, kw_only=True)
class Nsga2State(DrawnState):
    """The survivors in the order of the last selection; empty before the first generation."""

    population: tuple[Member, ...] = ()


class Nsga2(DrawnSearch[Nsga2Params, Nsga2State]):
    """Parents and children compete for the `population_size` places.  `best` is the one of the highest fitness."""

    name: ClassVar[str] = "nsga2"
    params_type = Nsga2Params
    state_type = Nsga2State

    def init(self, params: Nsga2Params) -> Nsga2State:
        return Nsga2State()

    def drawn(self, state: Nsga2State, params: Nsga2Params) -> Plan:
        with use_rng(generator(params.seed, state.generation)):
            vectors = _bred(state, params) if state.population else _spread(params)
        candidates = tuple(Candidate(index, deltas) for index, deltas in enumerate(vectors))
        return Plan(plan_names(state.generation)[0], state.generation, candidates)

    def known(self, state: Nsga2State) -> dict[tuple[float, ...], Score]:
        """Those of the survivors as well, of which a child may be a copy."""
        survivors = {member.deltas: member.score for member in state.population if member.score is not None}
        return super().known(state) | survivors

    def tell(self, state: Nsga2State, params: Nsga2Params, plan: Plan, outcomes: Sequence[Outcome]) -> Nsga2State:
        whole, results = self.whole(state, params, plan, outcomes)
        best = state.best
        children = []
        for candidate, outcome in zip(whole.candidates, results, strict=True):
            best = better(best, candidate.deltas, outcome.scratchpad, outcome.pre)
            children.append(Member(candidate.deltas, "", outcome.pre))
        competing = list({member.deltas: member for member in (*state.population, *children)}.values())
        survivors = tools.selNSGA2([_individual(member) for member in competing], params.population_size)
        by_deltas = {member.deltas: member for member in competing}
        # Equal children count once, so fewer than population_size may be left: the first fill the gap.
        kept = [by_deltas[tuple(survivor)] for survivor in survivors]
        filled = (kept * params.population_size)[: params.population_size]
        corners = self.corners(state, params, plan, outcomes)
        after = replace(state, generation=state.generation + 1, best=best, corners=corners)
        return replace(after, population=tuple(filled))

    def members(self, state: Nsga2State) -> tuple[Genome, ...]:
        return tuple(Genome(deltas, "") for deltas in dict.fromkeys(member.deltas for member in state.population))

    def places(self, params: Nsga2Params) -> int:
        return 0

    def scored(self, state: Nsga2State) -> tuple[tuple[float, ...], ...]:
        members = (member.deltas for member in state.population)
        return tuple(dict.fromkeys((*super().scored(state), *members)))

    def rescored(self, state: Nsga2State, scores: Mapping[tuple[float, ...], Score]) -> Nsga2State:
        state = super().rescored(state, scores)
        best = state.best
        for deltas, score in scores.items():
            best = better(best, deltas, "", score)
        population = tuple(replace(member, score=scores[member.deltas]) for member in state.population)
        return replace(state, best=best, population=population)

    def problem(self, state: Nsga2State, params: Nsga2Params) -> str:
        if state.population and len(state.population) != params.population_size:
            return f"it holds {len(state.population)} individuals, the population is {params.population_size}"
        if any(member.score is None for member in state.population):
            return "an individual has no score"
        return ""


def _spread(params: Nsga2Params) -> list[tuple[float, ...]]:
    """The vectors of the start and draws around them, from the module's generator."""
    vectors = [one.deltas for one in params.start]
    for number in range(len(vectors), params.population_size):
        near = params.start[number % len(params.start)].deltas
        drawn = [clip(random.gauss(near[position], params.sigma), params.bound) for position in params.free]
        vectors.append(_whole(drawn, params))
    return vectors


def _bred(state: Nsga2State, params: Nsga2Params) -> list[tuple[float, ...]]:
    """Children of the survivors, drawn from the module's generator as DEAP's operators are."""
    # Selection assigns the crowding distances that the tournament reads.
    ranked = tools.selNSGA2([_individual(member) for member in state.population], params.population_size)
    parents = tools.selTournamentDCD(ranked, params.population_size)
    vectors = []
    for a, b in zip(parents[::2], parents[1::2], strict=True):
        pair = [[parent[position] for position in params.free] for parent in (a, b)]
        if random.random() < params.crossover_probability:
            tools.cxSimulatedBinaryBounded(*pair, params.eta, -params.bound, params.bound)
        for child in pair:
            tools.mutPolynomialBounded(child, params.eta, -params.bound, params.bound, 1 / len(child))
            vectors.append(_whole(child, params))
    return vectors


def _individual(member: Member) -> Any:
    individual = creator.TwoObjectives(member.deltas)
    if member.score is not None:
        individual.fitness.values = (member.score.mean_tokens, member.score.correctness)
    return individual


def _whole(free: Sequence[float], params: Nsga2Params) -> tuple[float, ...]:
    deltas = list(params.initial_deltas)
    for position, value in zip(params.free, free, strict=True):
        deltas[position] = float(value)
    return tuple(deltas)
