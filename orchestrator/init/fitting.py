"""The largest run that stays within a budget: how many questions it asks, and how many generations it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.estimate import RunEstimate
from orchestrator.init.budget import RunBudget
from tasks.plan import ExampleSet

POPULATION = 10
MOST_GENERATIONS = 30
WANTED, LEAST = 6, 2
"""Generations: with fewer than wanted, fewer questions are asked; with fewer than the least it is no search."""
LADDER: Sequence[tuple[int, int, int]] = (
    (100, 200, 300), (60, 100, 200), (40, 60, 100), (24, 40, 40), (16, 20, 20), (10, 12, 12),
)  # fmt: skip
"""Questions to train on, to choose on and to test on."""
ON_CPU = LADDER[3:]

MARGIN = 1.5
"""By how much an estimate may be wrong (benchmarks/estimate.py)."""

Try = Callable[[Mapping[ExampleSet, int], int], RunEstimate]
"""The estimate of a run with so many questions in each set, and so many generations."""


class BudgetTooSmall(Exception):
    """Not even the smallest run stays within the budget; `smallest` is its estimate."""

    def __init__(self, smallest: RunEstimate) -> None:
        super().__init__("the smallest run takes more")
        self.smallest = smallest


@dataclass(frozen=True)
class FittedRun:
    """What fits, and what it takes."""

    sizes: Mapping[ExampleSet, int]
    generations: int
    estimate: RunEstimate


def fit(budget: RunBudget, available: Mapping[ExampleSet, int], attempt: Try, *, on_cpu: bool) -> FittedRun:
    """The run with the most questions of those that fit, and then with the most generations.

    Raises: BudgetTooSmall.
    """
    rungs = _rungs(available, ON_CPU if on_cpu else LADDER)
    if budget.unit == "evaluations":
        generations = int(budget.amount) // POPULATION
        if generations < 1:
            raise BudgetTooSmall(attempt(rungs[-1], 1))
        return FittedRun(rungs[0], generations, attempt(rungs[0], generations))
    for least in (WANTED, LEAST):
        for sizes in rungs:
            if found := _most_generations(budget, sizes, attempt, least):
                return found
    raise BudgetTooSmall(attempt(rungs[-1], LEAST))


def _rungs(available: Mapping[ExampleSet, int], ladder: Sequence[tuple[int, int, int]]) -> list[dict[ExampleSet, int]]:
    sets: tuple[ExampleSet, ...] = ("training", "validation", "test")
    rungs = [{which: min(size, available[which]) for which, size in zip(sets, rung, strict=True)} for rung in ladder]
    return [rung for number, rung in enumerate(rungs) if rung not in rungs[:number]]


def _most_generations(budget: RunBudget, sizes: Mapping[ExampleSet, int], attempt: Try, least: int) -> FittedRun | None:
    """None where not even the least number of generations fits."""
    low, high, best = least, MOST_GENERATIONS, None
    while low <= high:
        middle = (low + high) // 2
        estimate = attempt(sizes, middle)
        if is_within(estimate, budget):
            best, low = FittedRun(sizes, middle, estimate), middle + 1
        else:
            high = middle - 1
    return best


def is_within(estimate: RunEstimate, budget: RunBudget) -> bool:
    """Time counts as it is at most.  Money counts as expected, and half as much again: the run parks at the budget."""
    if budget.unit == "dollars":
        expected = estimate.expected.dollars
        return expected is not None and MARGIN * expected <= budget.amount
    return estimate.most.seconds <= 3600 * budget.amount
