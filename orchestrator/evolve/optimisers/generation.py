"""What a generation has evaluated, in the same form for every optimiser: history, tree and files are made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tasks.plan import Outcome, Plan
from tasks.records import Score


@dataclass(frozen=True)
class Genome:
    """The heritable part of an individual: one delta a cluster, in canonical order, and the scratchpad."""

    deltas: tuple[float, ...]
    scratchpad: str


@dataclass(frozen=True)
class Evaluated:
    """One evaluation: its node in the evolution tree, what was evaluated, and its score.

    `target` is the position of the cluster that was mutated, or None.  `parents` are the nodes that it descends from.
    `merge_fallback` and `skip_reason` say why no reply of the reflector was usable: for the merge before this
    evaluation, and for the proposal that should have followed it.
    """

    node: str
    genome: Genome
    score: Score
    target: int | None = None
    parents: tuple[str, ...] = ()
    is_elite: bool = False
    merge_fallback: str = ""
    skip_reason: str = ""


@dataclass(frozen=True)
class Generation:
    """`offspring` are children of the population; an optimiser that has no children leaves it empty.

    `survivors` are the nodes whose individuals are the next population, in its order; empty where each generation is
    drawn anew.  `carried` members of the population have their score from the generation before.  The first individual
    of the first population is the start of the search.
    """

    number: int
    population: tuple[Evaluated, ...]
    offspring: tuple[Evaluated, ...] = ()
    survivors: tuple[str, ...] = ()
    carried: int = 0

    @property
    def leader(self) -> Evaluated:
        """The best of the population; of equal ones the first."""
        return max(self.population, key=lambda evaluated: evaluated.score.fitness)


def as_evaluated(plan: Plan, outcome: Outcome, parents: Sequence[str] = ()) -> list[Evaluated]:
    """The evaluations of one candidate: before and, if it was mutated, after the mutation.

    `parents` are the nodes that the candidate descends from.
    """
    candidate = plan.candidate(outcome.index)
    before = plan.node(candidate.index, "pre")
    evaluations = [
        Evaluated(
            node=before,
            genome=Genome(candidate.deltas, outcome.scratchpad),
            score=outcome.pre,
            parents=tuple(parents),
            merge_fallback=outcome.merge_fallback,
            skip_reason=outcome.skip_reason,
        )
    ]
    if candidate.target is not None and outcome.delta is not None and outcome.mut is not None:
        deltas = list(candidate.deltas)
        deltas[candidate.target] = outcome.delta
        genome = Genome(tuple(deltas), outcome.mutated_scratchpad)
        node = plan.node(candidate.index, "mut")
        evaluations.append(Evaluated(node, genome, outcome.mut, candidate.target, (before,)))
    return evaluations


def as_population(plan: Plan, outcomes: Sequence[Outcome]) -> tuple[Evaluated, ...]:
    """The evaluations of a plan, each vector once: the population of an optimiser that draws all candidates anew."""
    found: dict[tuple[float, ...], Evaluated] = {}
    for outcome in outcomes:
        before, *mutated = as_evaluated(plan, outcome)
        before = found.setdefault(before.genome.deltas, before)
        for evaluated in mutated:
            found.setdefault(evaluated.genome.deltas, replace(evaluated, parents=(before.node,)))
    return tuple(found.values())
