"""Racing against full evaluation: answered questions until the best is as good on validation, on simulated questions.

    python -m benchmarks.racing [--seeds 3] [--optimiser cma] [--population 16] [--generations 10] [--questions 200]

The questions differ in length and difficulty.  A vector of deltas changes the length of an answer, each question's a
little differently, and what is too far from the start makes answers wrong.  Both searches draw from the same seed; the
goal is nine tenths of the gain (in logarithms) that the search with full evaluation had in the end, and each is charged
the answers until its best first reached it.  The searches see the training questions; the goal is on others.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from orchestrator.optimisers import make_optimiser
from orchestrator.optimisers.base import SearchState
from orchestrator.optimisers.racing import Partial
from orchestrator.runs.racing import Racing, search_race
from orchestrator.runs.search import Search
from tasks.models import Constrained
from tasks.objective import fitness_of, score_answers
from tasks.plan import Evaluations, Outcome, Plan

CLUSTERS = 12
GOAL = 0.9  # of the logarithm of the last fitness; that of the start is 0


class Questions:
    """Simulated questions: `answers` gives the tokens [n] and verdicts [n] of a vector."""

    def __init__(self, seed: int, count: int) -> None:
        truth, own = np.random.default_rng(seed), np.random.default_rng((seed, count))
        self.useful = truth.normal(0, 0.06, CLUSTERS)
        self.harmful = truth.normal(0, 0.08, CLUSTERS)
        self.length = own.lognormal(4.3, 0.6, count)
        self.slack = own.normal(0.5, 0.6, count)
        self.reaction = own.normal(1, 0.35, (count, CLUSTERS))
        self.risk = own.normal(0, 0.15, (count, CLUSTERS))

    def answers(self, deltas: Sequence[float]) -> Partial:
        moved = np.array(deltas)
        tokens = self.length * np.exp(np.clip((self.reaction * self.useful) @ moved, -3, 1))
        strain = (self.risk + self.harmful) @ moved + 0.01 * float(moved @ moved)
        # The same vector and question give the same answer: the noise is a function of both.
        noise = np.sin(1e3 * (moved @ np.arange(1, CLUSTERS + 1) + np.arange(len(self.length))))
        drawn: NDArray[np.float64] = np.maximum(1, np.round(tokens * (1 + 0.3 * noise)))
        return Partial(tuple(drawn.tolist()), tuple((self.slack - strain > 0).tolist()))


@dataclass
class Counted:
    """Evaluates plans on simulated questions; an answer that was asked before is not counted again."""

    questions: Questions
    objective: Constrained
    asked: dict[tuple[float, ...], int] = field(default_factory=dict)

    @property
    def answered(self) -> int:
        return sum(self.asked.values())

    def __call__(self, plan: Plan) -> list[Outcome]:
        outcomes = []
        for candidate in plan.candidates:
            partial = self.partials(plan)[candidate.index]
            before = self.asked.get(candidate.deltas, 0)
            self.asked[candidate.deltas] = max(before, len(partial))
            score = score_answers(partial.tokens, partial.correct, self.objective)
            outcomes.append(Outcome(candidate.index, "", score, None, "", None, {}, evaluations=Evaluations(1)))
        return outcomes

    def partials(self, plan: Plan) -> Mapping[int, Partial]:
        found = {}
        for candidate in plan.candidates:
            whole = self.questions.answers(candidate.deltas)
            count = candidate.questions or len(whole)
            found[candidate.index] = Partial(whole.tokens[:count], whole.correct[:count])
        return found


def curve(
    name: str, seed: int, population: int, generations: int, count: int, *, raced: bool
) -> list[tuple[int, float]]:
    """After each generation: the questions that were answered, and the fitness of the best on the validation set."""
    training, validation = Questions(seed, count), Questions(seed, 4 * count)
    zero = (0.0,) * CLUSTERS
    optimiser = make_optimiser(name)
    params = optimiser.params_type(
        seed=seed, cluster_ids=tuple(map(str, range(CLUSTERS))), initial_deltas=zero, generations=generations,
        population_size=population,
    )  # fmt: skip
    search = Search(optimiser, params)
    counted = Counted(training, baseline(training))
    racing = Racing(counted, counted.partials, search_race(count), optimiser.places(params), counted.objective)
    points = []
    for finished in search.generations(
        search.init(), counted, lambda generation, best: None, racing=racing if raced else None
    ):
        points.append((counted.answered, on_validation(finished.state, validation)))
    return points


def baseline(questions: Questions) -> Constrained:
    whole = questions.answers((0.0,) * CLUSTERS)
    return Constrained(*whole.means(len(whole)))


def on_validation(state: SearchState, validation: Questions) -> float:
    assert state.best is not None
    whole = validation.answers(state.best.deltas)
    return fitness_of(*whole.means(len(whole)), baseline(validation))


def until(points: Sequence[tuple[int, float]], goal: float) -> float:
    """The answers until the goal was reached; infinite where it was not."""
    return next((answered for answered, fitness in points if fitness >= goal), math.inf)


def compare(full: Sequence[tuple[int, float]], raced: Sequence[tuple[int, float]]) -> dict[str, float]:
    """The goal, the answers of each search until it had it, and the ratios: of these, and in the generations of both.

    full, raced: after each generation the answers so far and the fitness on validation.  Raises: ValueError where full
    evaluation gained nothing, so that there is no goal.
    """
    if full[-1][1] <= 1:
        raise ValueError(f"full evaluation gained nothing on validation: its fitness is {full[-1][1]:.2f}")
    goal = full[-1][1] ** GOAL
    last = min(len(full), len(raced)) - 1
    spent, saved = until(full, goal), until(raced, goal)
    return {
        "goal": goal,
        "full": spent,
        "raced": saved,
        "ratio": saved / spent,
        "same": raced[last][0] / full[last][0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--optimiser", default="cma")
    parser.add_argument("--population", type=int, default=16)
    parser.add_argument("--generations", type=int, default=10)
    parser.add_argument("--questions", type=int, default=200)
    given = parser.parse_args()
    print("seed  goal   full evaluation   racing   ratio   best of racing   answers of all generations")
    ratios = []
    for seed in range(given.seeds):
        sizes = (given.population, given.generations, given.questions)
        full = curve(given.optimiser, seed, *sizes, raced=False)
        # Racing is cheaper, so it may have more generations; only the answers count.
        raced = curve(given.optimiser, seed, sizes[0], 2 * sizes[1], sizes[2], raced=True)
        found = compare(full, raced)
        best = max(fitness for _, fitness in raced)
        ratios.append(found["ratio"])
        print(
            f"{seed:4}  {found['goal']:.3f}  {found['full']:15.0f}  {found['raced']:7.0f}  {found['ratio']:6.2f}   "
            f"{best:14.3f}   {found['same']:.2f}"
        )
    print(f"median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
