"""A genetic algorithm whose mutation and merge are calls to a language model.

Selection, elitism and the toolbox are DEAP's; a child is the average of its parents weighted by their fitness, or a
clone of one; its mutation is the reflector's: it reads the child's answers and changes one cluster, the next in turn.
Each lineage carries a scratchpad of what it learnt.  Close relatives: GEPA (L. A. Agrawal et al., arXiv 2507.19457,
2025) and ReEvo (H. Ye et al., NeurIPS 37, 2024).

A generation is two plans: what of the population has no score, then the offspring.  With its options as they are by
default, it draws and decides as `orchestrator.evolution.loop.evolve`, candidate by candidate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from orchestrator.evolution.individual import Individual, make_individual, set_score
from orchestrator.evolution.operators import RoundRobin, make_toolbox
from orchestrator.evolution.params import Params
from orchestrator.evolution.planning import plan_offspring, plan_population
from orchestrator.evolution.state import Genome, State
from orchestrator.optimisers.base import (
    Best,
    Evaluated,
    Optimiser,
    SearchParams,
    SearchState,
    better,
    clip,
    distinct,
    expand,
    generator,
    known_outcome,
)
from tasks.models import Score
from tasks.plan import Candidate, Outcome, Plan


@dataclass(frozen=True, kw_only=True)
class ReflectiveParams(SearchParams):
    """`tournament_size` is used by tournament selection, `top_k` by truncation; the other may be anything.

    Options: `spread` is the standard deviation of the first population around the start (0: all are the start);
    `vary_proposals` marks children that would get the same question, so that the reflector answers each differently;
    `skip_needless_merges` makes no call where both scratchpads are equal: an individual with itself, or both empty.
    """

    crossover_probability: float
    mutation_probability: float
    elitism_size: int
    selection: Literal["tournament", "truncation"]
    tournament_size: int
    top_k: int
    spread: float = 0.0
    vary_proposals: bool = False
    skip_needless_merges: bool = False


@dataclass(frozen=True, kw_only=True)
class ReflectiveState(SearchState):
    """`rr_idx` is the place, among the free clusters, of the next mutation's target."""

    population: tuple[Evaluated, ...]
    rr_idx: int = 0


class Reflective(Optimiser[ReflectiveParams, ReflectiveState]):
    """See the module.  A population read from a file without scores is evaluated again."""

    name: ClassVar[str] = "reflective"
    params_type = ReflectiveParams
    state_type = ReflectiveState

    def init(self, params: ReflectiveParams) -> ReflectiveState:
        rng = generator(params.seed, 0, "spread")
        population = [Evaluated(params.initial_deltas)]
        while len(population) < params.population_size:
            deltas = list(params.initial_deltas)
            if params.spread > 0:
                for position in params.free:
                    deltas[position] = clip(rng.gauss(deltas[position], params.spread), params.bound)
            population.append(Evaluated(tuple(deltas)))
        return ReflectiveState(population=tuple(population))

    def ask(self, state: ReflectiveState, params: ReflectiveParams) -> Plan:
        if _unevaluated(state):
            return distinct(plan_population(state.generation, _individuals(state)))
        plan, _ = _offspring(state, params)
        known = _known(plan, state)
        plan = distinct(plan)
        return replace(plan, candidates=tuple(c for c in plan.candidates if c.index not in known))

    def tell(
        self, state: ReflectiveState, params: ReflectiveParams, plan: Plan, outcomes: Sequence[Outcome]
    ) -> ReflectiveState:
        if _unevaluated(state):
            return _evaluated_population(
                state, expand(plan_population(state.generation, _individuals(state)), outcomes)
            )
        whole, rr_idx = _offspring(state, params)
        best = state.best
        children = []
        for candidate, outcome in zip(whole.candidates, expand(whole, outcomes, _known(whole, state)), strict=True):
            child, best = _completed(candidate, outcome, best)
            children.append(child)
        return ReflectiveState(
            generation=state.generation + 1,
            best=best,
            population=(*(state.population[position] for position in elites(state, params)), *children),
            rr_idx=rr_idx,
        )

    def problem(self, state: ReflectiveState, params: ReflectiveParams) -> str:
        if len(state.population) != params.population_size:
            return f"it holds {len(state.population)} individuals, the population is {params.population_size}"
        if not 0 <= state.rr_idx < len(params.free):
            return f"rr_idx {state.rr_idx} is no position among {len(params.free)} free clusters"
        if any(len(m.deltas) != len(params.cluster_ids) for m in state.population):
            return f"an individual has not one delta for each of {len(params.cluster_ids)} clusters"
        if not all(math.isfinite(delta) for member in state.population for delta in member.deltas):
            return "a delta is not finite"
        return ""


def to_specification(state: ReflectiveState) -> State:
    """The state as `evolution_state.json` has it: without scores, so that a resumed run evaluates again."""
    return State(
        generation=state.generation,
        population=tuple(Genome(member.deltas, member.scratchpad) for member in state.population),
        best=None if state.best is None else Genome(state.best.deltas, state.best.scratchpad),
        best_fitness=None if state.best is None else state.best.fitness,
        rr_idx=state.rr_idx,
    )


def from_specification(state: State) -> ReflectiveState:
    """The state of a run that resumes from `evolution_state.json`."""
    best = None
    if state.best is not None and state.best_fitness is not None:
        best = Best(state.best.deltas, state.best.scratchpad, state.best_fitness)
    population = tuple(Evaluated(genome.deltas, genome.scratchpad) for genome in state.population)
    return ReflectiveState(generation=state.generation, best=best, population=population, rr_idx=state.rr_idx)


def offspring(
    state: ReflectiveState, params: ReflectiveParams, outcomes: Sequence[Outcome]
) -> tuple[Plan, list[Outcome]]:
    """All children of an evaluated population and their outcomes, also of those that `ask` did not send."""
    whole, _ = _offspring(state, params)
    return whole, expand(whole, outcomes, _known(whole, state))


def elites(state: ReflectiveState, params: ReflectiveParams) -> list[int]:
    """The positions of an evaluated population's elites, the best first."""
    population = _individuals(state)
    chosen = make_toolbox(_genetic(params), _round_robin(state, params)).elites(population)
    return [next(i for i, individual in enumerate(population) if individual is elite) for elite in chosen]


def _evaluated_population(state: ReflectiveState, outcomes: Sequence[Outcome]) -> ReflectiveState:
    population = list(state.population)
    for outcome in outcomes:
        population[outcome.index] = replace(population[outcome.index], score=outcome.pre)
    best = state.best
    for member in population:
        assert member.score is not None
        best = better(best, member.deltas, member.scratchpad, member.score)
    return replace(state, best=best, population=tuple(population))


def _completed(candidate: Candidate, outcome: Outcome, best: Best | None) -> tuple[Evaluated, Best]:
    """The child as it enters the next population, and the best after it: before and after its mutation."""
    best = better(best, candidate.deltas, outcome.scratchpad, outcome.pre)
    if candidate.target is None or outcome.delta is None or outcome.mut is None:
        return Evaluated(candidate.deltas, outcome.scratchpad, outcome.pre), best
    deltas = list(candidate.deltas)
    deltas[candidate.target] = outcome.delta
    child = Evaluated(tuple(deltas), outcome.mutated_scratchpad, outcome.mut)
    return child, better(best, child.deltas, child.scratchpad, outcome.mut)


def _offspring(state: ReflectiveState, params: ReflectiveParams) -> tuple[Plan, int]:
    """The plan of all children, and the round robin's place after it."""
    round_robin = _round_robin(state, params)
    toolbox = make_toolbox(_genetic(params), round_robin)
    plan, _ = plan_offspring(state.generation, _individuals(state), _genetic(params), toolbox)
    asked: Counter[object] = Counter()
    candidates = []
    for candidate in plan.candidates:
        changed = candidate
        if changed.target is not None:
            changed = replace(changed, target=params.free[changed.target])
        if params.skip_needless_merges:
            changed = _without_needless_merge(changed)
        if params.vary_proposals and changed.target is not None:
            question = (changed.deltas, changed.target)
            changed = replace(changed, variant=asked[question])
            asked[question] += 1
        candidates.append(changed)
    return replace(plan, candidates=tuple(candidates)), round_robin.rr_idx


def _without_needless_merge(candidate: Candidate) -> Candidate:
    merge = candidate.merge
    if merge is None or merge.scratchpad_a != merge.scratchpad_b:
        return candidate
    return replace(candidate, merge=None, scratchpad=merge.scratchpad_a)


def _known(plan: Plan, state: ReflectiveState) -> dict[int, Outcome]:
    """The outcomes of unchanged clones: their parent's score is theirs."""
    scores: dict[tuple[float, ...], Score] = {m.deltas: m.score for m in state.population if m.score is not None}
    return {
        candidate.index: known_outcome(candidate, scores[candidate.deltas])
        for candidate in plan.candidates
        if candidate.merge is None and candidate.target is None and candidate.deltas in scores
    }


def _unevaluated(state: ReflectiveState) -> bool:
    return any(member.score is None for member in state.population)


def _individuals(state: ReflectiveState) -> list[Individual]:
    """The population as DEAP has it."""
    individuals = []
    for member in state.population:
        individual = make_individual(member.deltas, member.scratchpad)
        if member.score is not None:
            set_score(individual, member.score)
        individuals.append(individual)
    return individuals


def _round_robin(state: ReflectiveState, params: ReflectiveParams) -> RoundRobin:
    return RoundRobin([params.cluster_ids[position] for position in params.free], state.rr_idx)


def _genetic(params: ReflectiveParams) -> Params:
    return Params(
        seed=params.seed,
        cluster_ids=params.cluster_ids,
        initial_deltas=params.initial_deltas,
        population_size=params.population_size,
        generations=params.generations,
        crossover_probability=params.crossover_probability,
        mutation_probability=params.mutation_probability,
        elitism_size=params.elitism_size,
        selection=params.selection,
        tournament_size=params.tournament_size,
        top_k=params.top_k,
    )
