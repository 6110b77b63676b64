"""Which evaluated vectors are asked the validation set after the search.

The search ranks on the training set and so has used its luck; the validation set has chosen only what it started from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.optimisers.base import Best
from orchestrator.report.systems import MeasuredSystem
from orchestrator.runs.individuals import read_individuals
from orchestrator.runs.measuring import Measurer, measurement_of
from tasks.models import Objective
from tasks.plan import Candidate, ExampleSet

PLAN = "finalists"
FINALISTS = 4
"""How many vectors are asked the validation set."""


@dataclass(frozen=True)
class Evaluation:
    """An evaluated vector: where it stands in the tree, and what the training set has shown."""

    node: str
    generation: int
    deltas: tuple[float, ...]
    fitness: float
    mean_tokens: float
    correctness: float


def read_evaluations(path: Path) -> list[Evaluation]:
    """All evaluations of `individuals.jsonl`, in its order; none where the file has been lost."""
    return [
        Evaluation(
            record["node"],
            record["generation"],
            _vector(record["deltas"]),
            record["fitness"],
            record["mean_tokens"],
            record["correctness"],
        )
        for record in read_individuals(path)
    ]


def _vector(deltas: Mapping[str, float]) -> tuple[float, ...]:
    return tuple(float(deltas[cluster]) for cluster in sorted(deltas, key=int))


def pareto_front(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Those that no other beats in tokens without having fewer right, shortest first; of equal vectors the first."""
    distinct = list({evaluation.deltas: evaluation for evaluation in reversed(evaluations)}.values())[::-1]
    ordered = sorted(distinct, key=lambda one: (one.mean_tokens, -one.correctness))
    found: list[Evaluation] = []
    for one in ordered:
        if not found or one.correctness > found[-1].correctness:
            found.append(one)
    return found


def with_best(evaluations: Sequence[Evaluation], best: Best, generation: int) -> list[Evaluation]:
    """The evaluations with the search's own best, which the state alone may know.

    Its line is lost where only the state of a folder is left.
    """
    if any(one.deltas == best.deltas for one in evaluations):
        return list(evaluations)
    # Of its tokens and right answers nothing is known, so it puts no other off the front.
    return [*evaluations, Evaluation("best so far", generation, best.deltas, best.fitness, math.inf, 0.0)]


def finalists(evaluations: Sequence[Evaluation], best: tuple[float, ...]) -> list[Evaluation]:
    """At most FINALISTS vectors: the search's own best, those of the front, then all others, each group by fitness."""
    distinct = list({evaluation.deltas: evaluation for evaluation in reversed(evaluations)}.values())[::-1]
    on_front = {one.deltas for one in pareto_front(evaluations)}
    return sorted(distinct, key=lambda one: (one.deltas != best, one.deltas not in on_front, -one.fitness))[:FINALISTS]


def measure_finalists(
    measurer: Measurer,
    chosen: Sequence[Evaluation],
    held_out: ExampleSet,
    objective: Objective,
    generation: int,
    repeats: int = 0,
) -> tuple[MeasuredSystem, ...]:
    """What the validation set shows of each, measured once and `repeats` times more, with other seeds."""
    times = 1 + repeats
    candidates = [Candidate(0, one.deltas, examples=held_out, repeat=i) for one in chosen for i in range(times)]
    answers = [measurement_of(given, objective) for given in measurer.answers(PLAN, generation, candidates)]
    by_finalist = [answers[i : i + times] for i in range(0, len(answers), times)]
    prompt = measurer.store.run(measurer.run_id).target.system_prompt
    return tuple(
        MeasuredSystem(one.node, "evolved", prompt, one.deltas, validation=first, repeats=tuple(others))
        for one, (first, *others) in zip(chosen, by_finalist, strict=True)
    )
