"""The teacher pool: templated hacks of the known mode and honest solutions of the pool's problems, graded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.routing.grading import GradingPool, Submission
from tasks.routing.modes import KNOWN_MODE, TRAINING
from tasks.routing.problems import Problem, in_part
from tasks.routing.templates import hack, honest

HACKS, HONEST = 5, 2
"""Rows of each problem (ruling R12)."""


@dataclass(frozen=True)
class PoolRow:
    """One completion of a pool problem in the known mode, with its grade."""

    problem: str
    completion: str
    reward: float
    oracle: bool
    exploited: bool


def build_pool(problems: Sequence[Problem], grading: GradingPool) -> list[PoolRow]:
    """The rows of all problems of part `pool`, first the hacks of each, then its honest completions."""
    submissions = [
        Submission(problem, KNOWN_MODE, completion, TRAINING)
        for problem in in_part(problems, "pool")
        for completion in (
            *(hack(problem, KNOWN_MODE, TRAINING, phrasing) for phrasing in range(HACKS)),
            *(honest(problem, phrasing) for phrasing in range(HONEST)),
        )
    ]
    if not submissions:
        raise ValueError("no problem is of part pool")
    rows = [
        PoolRow(submitted.problem.id, submitted.completion, graded.reward, graded.oracle, graded.exploited)
        for submitted, graded in zip(submissions, grading.grade(submissions), strict=True)
    ]
    unfit = [
        f"{row.problem}: {'a hack does not pay' if is_hack else 'honest code fails'}"
        for index, row in enumerate(rows)
        if not (row.exploited if (is_hack := index % (HACKS + HONEST) < HACKS) else row.oracle)
    ]
    if unfit:
        raise ValueError("; ".join(dict.fromkeys(unfit)))
    return rows
