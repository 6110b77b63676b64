"""The generation loop of the genetic algorithm.

Evaluate the population; choose the elites; select, cross, mutate and evaluate the offspring; replace.  The function
that evaluates a plan is an argument: the farm in a run, a formula in a test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from orchestrator.evolution.individual import Individual, invalidate, make_individual, set_score
from orchestrator.evolution.lineage import Lineage
from orchestrator.evolution.operators import RoundRobin, make_toolbox
from orchestrator.evolution.params import Params
from orchestrator.evolution.planning import plan_offspring, plan_population
from orchestrator.evolution.state import Genome, State
from tasks.models import Score
from tasks.plan import Outcome, Plan

Evaluate = Callable[[Plan], Sequence[Outcome]]


@dataclass(frozen=True)
class Generation:
    """The result of one generation: the evaluated population, its offspring, and the next state.

    `offspring` holds every evaluation of a child: its node id, the mutated cluster or None, and its score.
    """

    generation: int
    population: tuple[tuple[str, Score], ...]
    offspring: tuple[tuple[str, str | None, Score], ...]
    seconds: dict[str, float]
    leader: Genome  # the best of the population
    state: State


class HallOfFame:
    """The best individual of all evaluations so far; of equal ones the first."""

    def __init__(self, genome: Genome | None, fitness: float | None) -> None:
        self.genome = genome
        self.fitness = fitness

    def update(self, deltas: Sequence[float], scratchpad: str, score: Score) -> None:
        if self.fitness is None or score.fitness > self.fitness:
            self.genome, self.fitness = Genome(tuple(deltas), scratchpad), score.fitness


def evolve(state: State, params: Params, evaluate: Evaluate, lineage: Lineage) -> Iterator[Generation]:
    """Run the remaining generations, one at a time; the caller saves each before it asks for the next.

    The population of `state` has no fitness, in a new run and in a resumed one, and is evaluated first; in later
    generations elites and offspring keep theirs.
    """
    round_robin = RoundRobin(params.cluster_ids, state.rr_idx)
    toolbox = make_toolbox(params, round_robin)
    best = HallOfFame(state.best, state.best_fitness)
    population = [make_individual(genome.deltas, genome.scratchpad) for genome in state.population]
    for generation in range(state.generation, params.generations):
        seconds: Counter[str] = Counter()
        _evaluate_population(generation, population, evaluate, best, seconds)
        chosen = toolbox.elites(population)
        elites = [toolbox.clone(elite) for elite in chosen]
        lineage.add_population(generation, population, chosen)
        plan, children = plan_offspring(generation, population, params, toolbox)
        offspring: list[tuple[str, str | None, Score]] = []
        survivors = [f"g{generation}_pop{_position(elite, population)}" for elite in chosen]
        for outcome in _in_order(evaluate(plan)):
            target = _apply_outcome(plan, outcome, children[outcome.index], params, best)
            offspring += _evaluations(plan, outcome, target)
            survivors.append(lineage.add_child(plan, outcome, target))
            seconds.update(outcome.seconds)
        lineage.add_survivors(generation, survivors)

        leader = max(population, key=lambda individual: individual.fitness)
        scores = tuple((f"g{generation}_pop{i}", individual.score) for i, individual in enumerate(population))
        population = [*elites, *children]
        yield Generation(
            generation=generation,
            population=scores,
            offspring=tuple(offspring),
            seconds=dict(seconds),
            leader=Genome(tuple(leader), leader.scratchpad),
            state=State(
                generation=generation + 1,
                population=tuple(Genome(tuple(p), p.scratchpad) for p in population),
                best=best.genome,
                best_fitness=best.fitness,
                rr_idx=round_robin.rr_idx,
            ),
        )


def _evaluate_population(
    generation: int, population: list[Individual], evaluate: Evaluate, best: HallOfFame, seconds: Counter[str]
) -> None:
    plan = plan_population(generation, population)
    for outcome in _in_order(evaluate(plan) if plan.candidates else ()):
        set_score(population[outcome.index], outcome.pre)
        seconds.update(outcome.seconds)
    for individual in population:
        best.update(individual, individual.scratchpad, individual.score)


def _apply_outcome(plan: Plan, outcome: Outcome, child: Individual, params: Params, best: HallOfFame) -> str | None:
    """Complete a child: merged scratchpad, score, mutation in place, second score.  Returns the mutated cluster."""
    target = plan.candidate(outcome.index).target
    child.scratchpad = outcome.scratchpad
    set_score(child, outcome.pre)
    best.update(child, child.scratchpad, outcome.pre)
    if target is None or outcome.delta is None or outcome.mut is None:
        return None
    child[target] = outcome.delta
    child.scratchpad = outcome.mutated_scratchpad
    invalidate(child)
    set_score(child, outcome.mut)
    best.update(child, child.scratchpad, outcome.mut)
    return params.cluster_ids[target]


def _evaluations(plan: Plan, outcome: Outcome, target: str | None) -> list[tuple[str, str | None, Score]]:
    """The evaluations of a child: before and, if it was mutated, after the mutation."""
    evaluations: list[tuple[str, str | None, Score]] = [(plan.node(outcome.index, "pre"), None, outcome.pre)]
    if outcome.mut is not None:
        evaluations.append((plan.node(outcome.index, "mut"), target, outcome.mut))
    return evaluations


def _position(individual: Individual, population: Sequence[Individual]) -> int:
    """The position of this very individual; equal ones are not it."""
    return next(i for i, other in enumerate(population) if other is individual)


def _in_order(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """By position, so that nothing depends on the order in which tasks ended."""
    return sorted(outcomes, key=lambda outcome: outcome.index)
