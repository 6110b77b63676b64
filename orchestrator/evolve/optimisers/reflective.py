"""A genetic algorithm whose mutation and merge are calls to a language model.

Selection, elitism and the toolbox are DEAP's; a child is the average of its parents weighted by their fitness, or a
clone of one; its mutation is the reflector's: it reads the child's answers and changes one cluster, the next in turn.
Each lineage carries a scratchpad of what it learnt.  Close relatives: GEPA (L. A. Agrawal et al., arXiv 2507.19457,
2025) and ReEvo (H. Ye et al., NeurIPS 37, 2024).

A generation is two plans: what of the population has no score, then the offspring.  Its draws are, in order: all
parents; then for each child crossover or not, the parent to clone if not, mutated or not.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from orchestrator.evolve.optimisers.base import (
    EVALUATION,
    MUTATION,
    Member,
    Optimiser,
    SearchParams,
    SearchState,
    better,
)
from orchestrator.evolve.optimisers.generation import Evaluated, Generation, Genome, as_evaluated
from orchestrator.evolve.optimisers.individual import Individual, make_individual, set_score
from orchestrator.evolve.optimisers.operators import RoundRobin, make_toolbox, use_rng
from orchestrator.evolve.optimisers.planning import distinct_candidates, expand, generator, known_outcome, plan_names
from orchestrator.evolve.optimisers.specification import parse_state, state_to_json
from tasks.plan import Candidate, Outcome, Plan
from tasks.records import Score


@dataclass(frozen=True, kw_only=True)
class ReflectiveParams(SearchParams):
    """`tournament_size` is used by tournament selection, `top_k` by truncation; the other may be anything."""

    crossover_probability: float
    mutation_probability: float
    elitism_size: int
    selection: Literal["tournament", "truncation"]
    tournament_size: int
    top_k: int

    @property
    def offspring_size(self) -> int:
        return self.population_size - self.elitism_size


@dataclass(frozen=True, kw_only=True)
class ReflectiveState(SearchState):
    """`rr_idx` is the place, among the free clusters, of the next mutation's target."""

    population: tuple[Member, ...]
    rr_idx: int = 0


class Reflective(Optimiser[ReflectiveParams, ReflectiveState]):
    """See the module.  Its JSON has no scores; a population that was read is evaluated again."""

    name: ClassVar[str] = "reflective"
    params_type = ReflectiveParams
    state_type = ReflectiveState

    def init(self, params: ReflectiveParams) -> ReflectiveState:
        start = itertools.islice(itertools.cycle(params.start), params.population_size)
        return ReflectiveState(population=tuple(Member(one.deltas, one.scratchpad) for one in start))

    def ask(self, state: ReflectiveState, params: ReflectiveParams) -> Plan:
        if _is_unevaluated(state):
            return distinct_candidates(_population_plan(state))
        plan, _ = _offspring_plan(state, params)
        known = _known(plan, state)
        plan = distinct_candidates(plan)
        return replace(plan, candidates=tuple(c for c in plan.candidates if c.index not in known))

    def tell(
        self, state: ReflectiveState, params: ReflectiveParams, plan: Plan, outcomes: Sequence[Outcome]
    ) -> ReflectiveState:
        _, results = self.completed(state, params, plan, outcomes)
        if _is_unevaluated(state):
            return _evaluated_population(state, results)
        children_plan, rr_idx = _offspring_plan(state, params)
        best = state.best
        children = []
        for outcome in results:
            for evaluated in as_evaluated(children_plan, outcome):
                genome = evaluated.genome
                best = better(best, genome.deltas, genome.scratchpad, evaluated.score)
            children.append(Member(genome.deltas, genome.scratchpad, evaluated.score))
        return ReflectiveState(
            generation=state.generation + 1,
            best=best,
            population=(*(state.population[position] for position in elites(state, params)), *children),
            rr_idx=rr_idx,
        )

    def completed(
        self, state: ReflectiveState, params: ReflectiveParams, plan: Plan, outcomes: Sequence[Outcome]
    ) -> tuple[Plan, list[Outcome]]:
        """With equal members of the population, and with clones that nothing changes."""
        if _is_unevaluated(state):
            drawn = _population_plan(state)
            return drawn, expand(drawn, outcomes)
        drawn, _ = _offspring_plan(state, params)
        return drawn, expand(drawn, outcomes, _known(drawn, state))

    def generation(
        self, state: ReflectiveState, params: ReflectiveParams, plan: Plan, outcomes: Sequence[Outcome]
    ) -> Generation:
        drawn, results = self.completed(state, params, plan, outcomes)
        if _is_unevaluated(state):
            return Generation(state.generation, _population(_evaluated_population(state, results), ()))
        best = elites(state, params)
        population = _population(state, best)
        families = [
            as_evaluated(drawn, outcome, [population[p].node for p in drawn.candidate(outcome.index).parents])
            for outcome in results
        ]
        return Generation(
            number=state.generation,
            population=population,
            offspring=tuple(evaluated for family in families for evaluated in family),
            survivors=(*(population[p].node for p in best), *(family[-1].node for family in families)),
            carried=len(population),
        )

    def members(self, state: ReflectiveState) -> tuple[Genome, ...]:
        return tuple(Genome(member.deltas, member.scratchpad) for member in state.population)

    def ends_generation(self, plan: Plan) -> bool:
        return plan.name == plan_names(plan.generation)[1]

    def stages_of_a_generation(self, params: ReflectiveParams) -> float:
        stages = EVALUATION + MUTATION * params.mutation_probability + params.crossover_probability
        return params.offspring_size * stages

    def to_json(self, state: ReflectiveState, params: ReflectiveParams) -> str:
        return state_to_json(state, params.cluster_ids)

    def from_json(self, text: str, params: ReflectiveParams) -> ReflectiveState:
        return ReflectiveState(**parse_state(text, params.cluster_ids))


def elites(state: ReflectiveState, params: ReflectiveParams) -> list[int]:
    """The positions of an evaluated population's elites, the best first."""
    population = _individuals(state)
    chosen = make_toolbox(params, RoundRobin(params.free)).elites(population)
    return [next(i for i, individual in enumerate(population) if individual is elite) for elite in chosen]


def _is_unevaluated(state: ReflectiveState) -> bool:
    return any(member.score is None for member in state.population)


def _evaluated_population(state: ReflectiveState, outcomes: Sequence[Outcome]) -> ReflectiveState:
    population = list(state.population)
    for outcome in outcomes:
        population[outcome.index] = replace(population[outcome.index], score=outcome.pre)
    best = state.best
    for member, score in _scored(population):
        best = better(best, member.deltas, member.scratchpad, score)
    return replace(state, best=best, population=tuple(population))


def _population(state: ReflectiveState, elite: Sequence[int]) -> tuple[Evaluated, ...]:
    """An evaluated population, for history and tree."""
    name, _ = plan_names(state.generation)
    return tuple(
        Evaluated(f"{name}{i}", Genome(member.deltas, member.scratchpad), score, is_elite=i in elite)
        for i, (member, score) in enumerate(_scored(state.population))
    )


def _population_plan(state: ReflectiveState) -> Plan:
    """The plan that evaluates the members without a score; candidates are numbered by position."""
    members = enumerate(state.population)
    candidates = (Candidate(i, member.deltas, member.scratchpad) for i, member in members if member.score is None)
    return Plan(plan_names(state.generation)[0], state.generation, tuple(candidates))


def _offspring_plan(state: ReflectiveState, params: ReflectiveParams) -> tuple[Plan, int]:
    """The plan of all children of an evaluated population, and the round robin's place after it."""
    round_robin = RoundRobin(params.free, state.rr_idx)
    toolbox = make_toolbox(params, round_robin)
    rng = generator(params.seed, state.generation)
    population = _individuals(state)
    positions = {id(individual): position for position, individual in enumerate(population)}
    with use_rng(rng):
        parents = toolbox.select(population)
    candidates = []
    for index, (a, b) in enumerate(zip(parents[::2], parents[1::2], strict=True)):
        if rng.random() < params.crossover_probability:
            child, origin = toolbox.mate(a, b), [a, b]
        else:
            parent = a if rng.random() < 0.5 else b
            child, origin = toolbox.clone(parent), [parent]
        if rng.random() < params.mutation_probability:
            toolbox.mutate(child)
        candidates.append(_candidate(index, child, tuple(positions[id(parent)] for parent in origin)))
    return Plan(plan_names(state.generation)[1], state.generation, tuple(candidates)), round_robin.rr_idx


def _candidate(index: int, child: Individual, parents: tuple[int, ...]) -> Candidate:
    return Candidate(
        index=index,
        deltas=tuple(child),
        scratchpad=child.scratchpad,
        merge=child.merge,
        target=child.target,
        parents=parents,
    )


def _known(plan: Plan, state: ReflectiveState) -> dict[int, Outcome]:
    """The outcomes of unchanged clones: their parent's score is theirs."""
    scores = {member.deltas: score for member, score in _scored(state.population)}
    return {
        candidate.index: known_outcome(candidate, scores[candidate.deltas])
        for candidate in plan.candidates
        if candidate.merge is None and candidate.target is None and candidate.deltas in scores
    }


def _scored(population: Sequence[Member]) -> Iterator[tuple[Member, Score]]:
    """The members that have been evaluated, with their scores."""
    return ((member, member.score) for member in population if member.score is not None)


def _individuals(state: ReflectiveState) -> list[Individual]:
    """The population as DEAP has it."""
    individuals = []
    for member in state.population:
        individual = make_individual(member.deltas, member.scratchpad)
        if member.score is not None:
            set_score(individual, member.score)
        individuals.append(individual)
    return individuals
