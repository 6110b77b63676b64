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
from tasks.plan import Evaluations, Outcome, Plan

Evaluate = Callable[[Plan], Sequence[Outcome]]


@dataclass(frozen=True)
class Evaluated:
    """One evaluation: its node id, what was evaluated, and its score.

    `target` is the mutated cluster, or None.  `merge_fallback` and `skip_reason` say why no reply of the reflector was
    usable: for the merge before this evaluation, and for the mutation that should have followed it.
    """

    node: str
    genome: Genome
    score: Score
    target: str | None = None
    merge_fallback: str = ""
    skip_reason: str = ""


@dataclass(frozen=True)
class Generation:
    """The result of one generation: the evaluated population, its offspring, and the next state.

    `offspring` holds every evaluation of a child: before its mutation and, if it was mutated, after it.
    """

    generation: int
    population: tuple[Evaluated, ...]
    offspring: tuple[Evaluated, ...]
    seconds: dict[str, float]
    evaluations: Evaluations
    leader: Genome  # the best of the population
    state: State


class HallOfFame:
    """The best individual of all evaluations so far; of equal ones the first."""

    def __init__(self, genome: Genome | None, fitness: float | None) -> None:
        self.genome = genome
        self.fitness = fitness

    def update(self, genome: Genome, score: Score) -> None:
        if self.fitness is None or score.fitness > self.fitness:
            self.genome, self.fitness = genome, score.fitness


def evolve(state: State, params: Params, evaluate: Evaluate, lineage: Lineage) -> Iterator[Generation]:
    """Run the remaining generations, one at a time; the caller saves each before it asks for the next.

    The population of `state` has no fitness, in a new run and in a resumed one, and is evaluated first; in later
    generations elites and offspring keep theirs.  So is the best individual of `state` when `best_fitness` is None,
    because another judge has scored it.
    """
    round_robin = RoundRobin(params.cluster_ids, state.rr_idx)
    toolbox = make_toolbox(params, round_robin)
    best = HallOfFame(state.best, state.best_fitness)
    population = [make_individual(genome.deltas, genome.scratchpad) for genome in state.population]
    for generation in range(state.generation, params.generations):
        seconds: Counter[str] = Counter()
        counts = _evaluate_population(generation, population, evaluate, best, seconds)
        chosen = toolbox.elites(population)
        elites = [toolbox.clone(elite) for elite in chosen]
        lineage.add_population(generation, population, chosen)
        plan, children = plan_offspring(generation, population, params, toolbox)
        offspring: list[Evaluated] = []
        survivors = [f"g{generation}_pop{_position(elite, population)}" for elite in chosen]
        for outcome in _in_order(evaluate(plan)):
            evaluations = _apply_outcome(plan, outcome, children[outcome.index], params)
            for evaluated in evaluations:
                best.update(evaluated.genome, evaluated.score)
            offspring += evaluations
            survivors.append(lineage.add_child(plan, outcome, evaluations[-1].target))
            seconds.update(outcome.seconds)
            counts += outcome.evaluations
        lineage.add_survivors(generation, survivors)

        leader = _genome(max(population, key=lambda individual: individual.fitness))
        evaluated_population = tuple(
            Evaluated(f"g{generation}_pop{i}", _genome(individual), individual.score)
            for i, individual in enumerate(population)
        )
        population = [*elites, *children]
        yield Generation(
            generation=generation,
            population=evaluated_population,
            offspring=tuple(offspring),
            seconds=dict(seconds),
            evaluations=counts,
            leader=leader,
            state=State(
                generation=generation + 1,
                population=tuple(map(_genome, population)),
                best=best.genome,
                best_fitness=best.fitness,
                rr_idx=round_robin.rr_idx,
            ),
        )


def _evaluate_population(
    generation: int, population: list[Individual], evaluate: Evaluate, best: HallOfFame, seconds: Counter[str]
) -> Evaluations:
    """Evaluate the individuals without fitness, and the best one so far if its fitness is not known."""
    plan = plan_population(generation, population, best.genome if best.fitness is None else None)
    counts = Evaluations(carried=sum(individual.fitness.valid for individual in population))
    for outcome in _in_order(evaluate(plan) if plan.candidates else ()):
        if outcome.index < len(population):
            set_score(population[outcome.index], outcome.pre)
        elif best.genome is not None:
            best.update(best.genome, outcome.pre)
        seconds.update(outcome.seconds)
        counts += outcome.evaluations
    for individual in population:
        best.update(_genome(individual), individual.score)
    return counts


def _apply_outcome(plan: Plan, outcome: Outcome, child: Individual, params: Params) -> list[Evaluated]:
    """Complete a child: merged scratchpad, score, mutation in place, second score.  Returns its evaluations."""
    target = plan.candidate(outcome.index).target
    child.scratchpad = outcome.scratchpad
    set_score(child, outcome.pre)
    node, reasons = plan.node(outcome.index, "pre"), (outcome.merge_fallback, outcome.skip_reason)
    evaluations = [Evaluated(node, _genome(child), outcome.pre, None, *reasons)]
    if target is not None and outcome.delta is not None and outcome.mut is not None:
        child[target] = outcome.delta
        child.scratchpad = outcome.mutated_scratchpad
        invalidate(child)
        set_score(child, outcome.mut)
        node = plan.node(outcome.index, "mut")
        evaluations.append(Evaluated(node, _genome(child), outcome.mut, params.cluster_ids[target]))
    return evaluations


def _genome(individual: Individual) -> Genome:
    return Genome(tuple(individual), individual.scratchpad)


def _position(individual: Individual, population: Sequence[Individual]) -> int:
    """The position of this very individual; equal ones are not it."""
    return next(i for i, other in enumerate(population) if other is individual)


def _in_order(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """By position, so that nothing depends on the order in which tasks ended."""
    return sorted(outcomes, key=lambda outcome: outcome.index)
