"""A genetic algorithm whose mutation and merge are calls to a language model.

Selection, elitism and the toolbox are DEAP's; a child is the average of its parents weighted by their fitness, or a
clone of one; its mutation is the reflector's: it reads the child's answers and changes one cluster, the next in turn.
Each lineage carries a scratchpad of what it learnt.  Close relatives: GEPA (L. A. Agrawal et al., arXiv 2507.19457,
2025) and ReEvo (H. Ye et al., NeurIPS 37, 2024).

A generation is two plans: what of the population has no score, then the offspring.  Its draws are, in order: all
parents; then for each child crossover or not, the parent to clone if not, mutated or not.  `mate` and `mutate` only
record what the reflector has to do; the farm does it later, so that every draw is made before anything is dispatched.
"""

from __future__ import annotations

import itertools
import json
import random
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from deap import base, tools
from pydantic import FiniteFloat, NonNegativeInt
from typing_extensions import TypedDict

from orchestrator.evolve.optimisers import (
    Best,
    Evaluated,
    Generation,
    Optimiser,
    SearchParams,
    SearchState,
    best_of,
    canonical_order,
    generator,
    list_to_deltas,
)
from orchestrator.settings.inputs import Genome, GenomeFile
from tasks.common.validation import parse_json
from tasks.plan import Candidate, Merge, Outcome, Plan, plan_name
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


@dataclass(frozen=True)
class Member(Genome):
    """A member of a population and its score; None before it has been evaluated."""

    score: Score | None = None


@dataclass(frozen=True, kw_only=True)
class ReflectiveState(SearchState):
    """`rr_idx` is the position of the next mutation's target; where that is pinned, the next free cluster's turn is."""

    population: tuple[Member, ...]
    rr_idx: int = 0

    @property
    def members(self) -> tuple[Genome, ...]:
        return self.population

    @property
    def is_evaluated(self) -> bool:
        return all(member.score is not None for member in self.population)


class StateFile(TypedDict):
    """evolution_state.json: the state at the start of `generation`, the next one to run."""

    generation: NonNegativeInt
    population: list[GenomeFile]
    best_individual: GenomeFile | None
    best_fitness: FiniteFloat | None
    rr_idx: int


class Reflective(Optimiser[ReflectiveParams, ReflectiveState]):
    """See the module.  Its JSON has no scores; a population that was read is evaluated again."""

    name: ClassVar[str] = "reflective"
    params_type = ReflectiveParams
    state_type = ReflectiveState

    def init(self, params: ReflectiveParams) -> ReflectiveState:
        start = itertools.islice(itertools.cycle(params.start), params.population_size)
        return ReflectiveState(population=tuple(Member(one.deltas, one.scratchpad) for one in start))

    def ask(self, state: ReflectiveState, params: ReflectiveParams) -> Plan:
        if state.is_evaluated:
            return Plan("offspring", state.generation, tuple(children(state, params)))
        members = enumerate(state.population)
        missing = (Candidate(i, one.deltas, one.scratchpad) for i, one in members if one.score is None)
        return Plan("population", state.generation, tuple(missing))

    def tell(
        self, state: ReflectiveState, params: ReflectiveParams, plan: Plan, outcomes: Sequence[Outcome]
    ) -> tuple[ReflectiveState, Generation]:
        if not state.is_evaluated:
            scores = {outcome.index: outcome.pre for outcome in outcomes}
            members = (replace(one, score=scores.get(i, one.score)) for i, one in enumerate(state.population))
            after = replace(state, population=tuple(members))
            found = _evaluated(after, ())
            return replace(after, best=best_of(state.best, found)), Generation(state.generation, found)
        best = elites(state, params)
        population = _evaluated(state, best)
        families = [
            _family(plan, candidate, outcome, [population[p].node for p in candidate.parents], len(best))
            for candidate, outcome in zip(plan.candidates, outcomes, strict=True)
        ]
        offspring = [one for family in families for one in family]
        born = [Member(one.genome.deltas, one.genome.scratchpad, one.score) for *_, one in families]
        mutated = sum(candidate.target is not None for candidate in plan.candidates)
        after = ReflectiveState(
            generation=state.generation + 1,
            best=best_of(state.best, offspring),
            population=(*(state.population[p] for p in best), *born),
            rr_idx=_target(params, state.rr_idx, mutated),
        )
        return after, Generation(state.generation, population, tuple(offspring), carried=len(population))

    def to_json(self, state: ReflectiveState, params: ReflectiveParams) -> str:
        def genome(value: Member | Best) -> GenomeFile:
            return {"deltas": list_to_deltas(value.deltas, params.cluster_ids), "scratchpad": value.scratchpad}

        content: StateFile = {
            "generation": state.generation,
            "population": [genome(member) for member in state.population],
            "best_individual": None if state.best is None else genome(state.best),
            "best_fitness": None if state.best is None else state.best.fitness,
            "rr_idx": state.rr_idx,
        }
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"

    def from_json(self, text: str, params: ReflectiveParams) -> ReflectiveState:
        values = parse_json(StateFile, text)
        if not 0 <= values["rr_idx"] < (count := len(params.cluster_ids)):
            raise ValueError(f"rr_idx {values['rr_idx']} is not in 0..{count - 1}")
        best, fitness = values["best_individual"], values["best_fitness"]
        leader = None if best is None else _read(best, params)
        return ReflectiveState(
            generation=values["generation"],
            best=None if leader is None or fitness is None else Best(*leader, fitness),
            population=tuple(Member(*_read(one, params)) for one in values["population"]),
            rr_idx=values["rr_idx"],
        )


def _read(values: GenomeFile, params: ReflectiveParams) -> tuple[tuple[float, ...], str]:
    deltas = values["deltas"]
    if canonical_order(list(deltas)) != tuple(params.cluster_ids):
        raise ValueError(f"its clusters are {sorted(deltas, key=int)}, not {list(params.cluster_ids)}")
    return tuple(deltas[cluster] for cluster in params.cluster_ids), values["scratchpad"]


def elites(state: ReflectiveState, params: ReflectiveParams) -> list[int]:
    """The positions of an evaluated population's elites, the best first."""
    return [one.place for one in tools.selBest(_individuals(state), params.elitism_size)]


def _evaluated(state: ReflectiveState, elite: Sequence[int]) -> tuple[Evaluated, ...]:
    """An evaluated population; `elite` are the positions of those that are in the next one, in its order."""
    name, places = plan_name("population", state.generation), {position: i for i, position in enumerate(elite)}
    return tuple(
        Evaluated(f"{name}{i}", Genome(one.deltas, one.scratchpad), one.score, place=places.get(i))
        for i, one in enumerate(state.population)
        if one.score is not None
    )


def _family(plan: Plan, candidate: Candidate, outcome: Outcome, parents: Sequence[str], elites: int) -> list[Evaluated]:
    """The evaluations of one child: before and, if it was mutated, after the mutation."""
    before, place = plan.node(candidate.index, "pre"), elites + candidate.index
    one = Evaluated(
        before, Genome(candidate.deltas, outcome.scratchpad), outcome.pre, None, tuple(parents), place,
        outcome.merge_fallback, outcome.skip_reason,
    )  # fmt: skip
    if outcome.delta is None or outcome.mut is None:
        return [one]
    genome = Genome(candidate.with_delta(outcome.delta), outcome.mutated_scratchpad)
    node = plan.node(candidate.index, "mut")
    return [replace(one, place=None), Evaluated(node, genome, outcome.mut, candidate.target, (before,), place)]


class _Fitness(base.Fitness):  # type: ignore[misc]  # DEAP has no types
    weights = (1.0,)


class Individual(list[float]):
    """An individual as DEAP handles it.  `place` is its position in the population; a child has that of no one."""

    def __init__(self, deltas: Sequence[float], scratchpad: str, fitness: tuple[float, ...] = (), place: int = -1):
        super().__init__(deltas)
        self.scratchpad, self.place = scratchpad, place
        self.fitness: Any = _Fitness(fitness)
        self.merge: Merge | None = None
        self.target: int | None = None


def _individuals(state: ReflectiveState) -> list[Individual]:
    """An evaluated population as DEAP handles it."""
    return [
        Individual(one.deltas, one.scratchpad, (one.score.fitness,), place)
        for place, one in enumerate(state.population)
        if one.score is not None
    ]


def children(state: ReflectiveState, params: ReflectiveParams) -> Iterator[Candidate]:
    """All children of an evaluated population."""
    toolbox = make_toolbox(params, state.rr_idx)
    rng, before = generator(params.seed, state.generation), random.getstate()
    random.setstate(rng.getstate())  # DEAP draws from the module's generator
    parents = toolbox.select(_individuals(state))
    rng.setstate(random.getstate())
    random.setstate(before)
    for index, (a, b) in enumerate(zip(parents[::2], parents[1::2], strict=True)):
        if rng.random() < params.crossover_probability:
            child, origin = toolbox.mate(a, b), [a, b]
        else:
            origin = [a if rng.random() < 0.5 else b]
            child = toolbox.clone(*origin)
        if rng.random() < params.mutation_probability:
            toolbox.mutate(child)
        places = tuple(parent.place for parent in origin)
        yield Candidate(index, tuple(child), child.scratchpad, child.merge, child.target, places)


def _target(params: ReflectiveParams, rr_idx: int, mutated: int) -> int:
    """The position of the cluster whose turn it is when so many mutations were made since `rr_idx`."""
    free = params.free
    return free[(bisect_left(free, rr_idx) + mutated) % len(free)]


def make_toolbox(params: ReflectiveParams, rr_idx: int) -> base.Toolbox:
    """DEAP's operators; each mutation has the next of the free clusters in turn, from `rr_idx` on."""
    mutated = itertools.count()

    def mutate(child: Individual) -> None:
        child.target = _target(params, rr_idx, next(mutated))

    toolbox = base.Toolbox()
    toolbox.register("clone", lambda parent: Individual(parent, parent.scratchpad))
    toolbox.register("mate", mate)
    toolbox.register("mutate", mutate)
    parents = 2 * (params.population_size - params.elitism_size)
    if params.selection == "tournament":
        toolbox.register("select", tools.selTournament, k=parents, tournsize=params.tournament_size)
    else:  # drawn with replacement from the best
        toolbox.register("select", lambda population: tools.selRandom(tools.selBest(population, params.top_k), parents))
    return toolbox


def mate(ind1: Individual, ind2: Individual) -> Individual:
    """The parents' deltas weighted by fitness; two different scratchpads that hold something are merged."""
    f1, f2 = ind1.fitness.values[0], ind2.fitness.values[0]
    total = f1 + f2
    weights = (f1 / total, f2 / total) if total != 0 else (0.5, 0.5)
    first, second = ind1.scratchpad, ind2.scratchpad
    child = Individual([weights[0] * a + weights[1] * b for a, b in zip(ind1, ind2, strict=True)], "")
    if first.strip() and second.strip() and first.strip() != second.strip():
        child.merge = Merge(first, f1, second, f2)
    else:
        child.scratchpad = first if first.strip() else second
    return child
