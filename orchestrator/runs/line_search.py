"""A line search: the best of a few vectors under one system prompt, on the training and the validation set together.

One of the two sets alone is so small that two answers decide.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from orchestrator.report.inference import LEVEL
from orchestrator.runs.measuring import Answers, Measurer, baseline_score, measurement_of
from orchestrator.runs.superiority import Answered, is_shown_better
from tasks.objective import relative_to
from tasks.plan import Candidate, ExampleSet
from tasks.validation import Delta

PLAN = "lines"
SEARCHED_ON: tuple[ExampleSet, ...] = ("training", "validation")
"""The sets on which a line is searched, as far as a run has them."""

Deltas = tuple[Delta, ...]


@dataclass(frozen=True)
class Found:
    """The best vector of a line, its fitness and its answers, and the plain model's answers to the same questions."""

    deltas: Deltas
    fitness: float
    answers: Answers
    plain: Answers


@dataclass(frozen=True)
class LineSearch:
    """`plain_prompt` is the whole system prompt of the plain model, which the objective is relative to."""

    measurer: Measurer
    plain_prompt: str

    def best_of(self, line: Sequence[Deltas], system_prompt: str) -> Found:
        """The vector of the highest fitness by the run's objective, of equals the first."""
        run = self.measurer.store.run(self.measurer.run_id)
        vectors = [Candidate(0, deltas, system_prompt=system_prompt) for deltas in line]
        plain, *answers = self._answers([Candidate(0, (), system_prompt=self.plain_prompt), *vectors])
        reference = baseline_score(plain)
        here = relative_to(run.objective, reference.mean_tokens, reference.correctness)
        fitness = [measurement_of(given, here).fitness for given in answers]
        found = [Found(*one, plain) for one in zip(line, fitness, answers, strict=True)]
        return max(found, key=lambda one: one.fitness)

    def is_shown_better(self, ours: Found, theirs: Found, tried: int) -> bool:
        """Whether `ours` is shown to have the higher fitness on all questions, which both answered.

        `tried` is the number of vectors that were tried beside `theirs`.  Of so few questions that all of them may be
        shorter by chance, nothing is shown.
        """
        run = self.measurer.store.run(self.measurer.run_id)
        plain = _answered(ours.plain)
        answers = _answered(ours.answers), _answered(theirs.answers)
        if 0.5 ** len(plain.tokens) * tried > 1 - LEVEL:
            return False
        return is_shown_better(*answers, plain, run.objective, run.seed, tried)

    def _answers(self, candidates: Sequence[Candidate]) -> list[Answers]:
        """The answers of each candidate to the questions of each set, joined; each set is one evaluation."""
        sets = [which for which in SEARCHED_ON if self.measurer.examples.get(which)]
        asked = [dataclasses.replace(candidate, examples=which) for candidate in candidates for which in sets]
        found = self.measurer.answers(PLAN, 0, asked)
        return [tuple(chain(*found[i : i + len(sets)])) for i in range(0, len(found), len(sets))]


def _answered(answers: Answers) -> Answered:
    return Answered.of([([answer.tokens for answer in answers], [answer.is_correct for answer in answers])])
