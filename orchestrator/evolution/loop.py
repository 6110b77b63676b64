"""The generation loop (genetic_evolution_plan.md section 1, "canonical flow").

Evaluate the population; take the elites; select, cross, mutate and evaluate the offspring; replace.  Whoever
evaluates is passed in: the farm in a run, a formula in a test.
"""

from __future__ import annotations

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
    """What one generation came to: the evaluated population, its offspring, and the state that follows.

    `offspring` holds every evaluation of a child: its node id, the target cluster behind it, if any, and its score.
    """

    generation: int
    population: tuple[tuple[str, Score], ...]
    offspring: tuple[tuple[str, str | None, Score], ...]
    seconds: dict[str, float]
    leader: Genome  # the best of the population that was evaluated at the start of the generation
    state: State


class HallOfFame:
    """The best individual of all that were evaluated; the first of equals stays."""

    def __init__(self, genome: Genome | None, fitness: float | None) -> None:
        self.genome = genome
        self.fitness = fitness

    def see(self, deltas: Sequence[float], scratchpad: str, score: Score) -> None:
        if self.fitness is None or score.fitness > self.fitness:
            self.genome, self.fitness = Genome(tuple(deltas), scratchpad), score.fitness


def evolve(state: State, params: Params, evaluate: Evaluate, tree: Lineage) -> Iterator[Generation]:
    """Run the generations that are left, one at a time; the caller saves each before it asks for the next.

    The population of `state` has no fitness, whether the run is new or resumed, and so is evaluated first
    (spec/README.md, ruling 7); after that, elites and offspring carry theirs along.
    """
    rr_state = RoundRobin(params.cluster_ids, state.rr_idx)
    toolbox = make_toolbox(params, rr_state)
    best = HallOfFame(state.best, state.best_fitness)
    population = [make_individual(genome.deltas, genome.scratchpad) for genome in state.population]
    for generation in range(state.generation, params.generations):
        seconds: dict[str, float] = {}
        fresh = plan_population(generation, population)
        for outcome in _in_order(evaluate(fresh) if fresh.candidates else ()):
            set_score(population[outcome.index], outcome.pre)
            _add(seconds, outcome)
        for individual in population:
            best.see(individual, individual.scratchpad, individual.score)
        chosen = toolbox.elites(population)
        elites = [toolbox.clone(elite) for elite in chosen]
        tree.add_population(generation, population, chosen)

        plan, children = plan_offspring(generation, population, params, toolbox)
        offspring: list[tuple[str, str | None, Score]] = []
        finals = []
        for outcome in _in_order(evaluate(plan)):
            child, candidate = children[outcome.index], plan.candidate(outcome.index)
            _complete(child, candidate.target, outcome, best)
            _add(seconds, outcome)
            target = None if outcome.mut is None or candidate.target is None else params.cluster_ids[candidate.target]
            offspring.append((plan.node(outcome.index, "pre"), None, outcome.pre))
            if outcome.mut is not None:
                offspring.append((plan.node(outcome.index, "mut"), target, outcome.mut))
            finals.append(tree.add_child(plan, outcome, target))
        positions = [next(i for i, p in enumerate(population) if p is elite) for elite in chosen]
        tree.add_survivors(generation, [*(f"g{generation}_pop{i}" for i in positions), *finals])

        leader = max(population, key=lambda individual: individual.fitness)
        scored = tuple((f"g{generation}_pop{i}", p.score) for i, p in enumerate(population))
        population = [*elites, *children]
        yield Generation(
            generation=generation,
            population=scored,
            offspring=tuple(offspring),
            seconds=seconds,
            leader=Genome(tuple(leader), leader.scratchpad),
            state=State(
                generation=generation + 1,
                population=tuple(Genome(tuple(p), p.scratchpad) for p in population),
                best=best.genome,
                best_fitness=best.fitness,
                rr_idx=rr_state.rr_idx,
            ),
        )


def _complete(child: Individual, target: int | None, outcome: Outcome, best: HallOfFame) -> None:
    """Bring a child to where the farm took it: merged scratchpad, first score, mutation in place, second score."""
    child.scratchpad = outcome.scratchpad
    set_score(child, outcome.pre)
    best.see(child, child.scratchpad, outcome.pre)
    if target is not None and outcome.delta is not None and outcome.mut is not None:
        child[target] = outcome.delta
        child.scratchpad = outcome.mutated_scratchpad
        invalidate(child)
        set_score(child, outcome.mut)
        best.see(child, child.scratchpad, outcome.mut)


def _in_order(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """By position, so that nothing depends on the order in which tasks finished."""
    return sorted(outcomes, key=lambda outcome: outcome.index)


def _add(seconds: dict[str, float], outcome: Outcome) -> None:
    for stage, value in outcome.seconds.items():
        seconds[stage] = seconds.get(stage, 0.0) + value
