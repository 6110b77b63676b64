"""A line search: the best of a few vectors under one system prompt, on the training and the validation set together.

One of the two sets alone is so small that two answers decide.  With `raced`, the worse half of the vectors stops after
a part of the questions, as with the prompts (`orchestrator.runs.prompts`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from orchestrator.report.inference import LEVEL
from orchestrator.report.statistics import JudgedAnswer
from orchestrator.runs.measuring import Answers, Measurer, baseline_score, measurement_of
from orchestrator.runs.prompts import halving_rungs
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

    def best_of(self, line: Sequence[Deltas], system_prompt: str, *, raced: bool) -> Found:
        """The vector of the highest fitness by the run's objective, of equals the first.

        raced: by successive halving, else all are asked all questions.  A part of the questions may be harder than all
        of them: there the objective is relative to the plain model's answers to that part.  Raises: Parked.
        """
        run = self.measurer.store.run(self.measurer.run_id)
        sizes = {which: len(rows) for which in SEARCHED_ON if (rows := self.measurer.examples.get(which))}
        running, ranked = list(line), list[Found]()
        rungs = rungs_of_sets(tuple(sizes.values()))
        for number, rung in enumerate(rungs if raced else rungs[-1:]):
            parts = {which: asked if asked < sizes[which] else 0 for which, asked in zip(sizes, rung, strict=True)}
            vectors = [Candidate(0, deltas, system_prompt=system_prompt) for deltas in running]
            plain, *answers = self._answers(
                [Candidate(0, (), system_prompt=self.plain_prompt), *vectors], number, parts
            )
            reference = baseline_score(plain)
            here = relative_to(run.objective, reference.mean_tokens, reference.correctness)
            fitness = [measurement_of(given, here).fitness for given in answers]
            found = [Found(*one, plain) for one in zip(running, fitness, answers, strict=True)]
            ranked = sorted(found, key=lambda one: one.fitness, reverse=True)
            running = [one.deltas for one in ranked[: math.ceil(len(ranked) / 2)]]
        return ranked[0]

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

    def _answers(self, candidates: Sequence[Candidate], rung: int, parts: Mapping[ExampleSet, int]) -> list[Answers]:
        """The answers of each candidate to the first questions of each set, joined; 0 is all questions of a set.

        Each candidate counts as one evaluation of each set, in the first rung.
        """
        asked = [
            dataclasses.replace(candidate, examples=which, questions=count)
            for candidate in candidates
            for which, count in parts.items()
        ]
        found = self.measurer.answers(f"{PLAN}{rung}_", 0, asked, is_counted=rung == 0, every_sample=True)
        return [tuple(chain(*found[i : i + len(parts)])) for i in range(0, len(found), len(parts))]


def rungs_of_sets(sizes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """How many questions of each set have been asked when the worse half stops: of all sets the share of the first."""
    first = sizes[0]
    return tuple(tuple(math.ceil(rung * size / first) for size in sizes) for rung in halving_rungs(first))


def _answered(answers: Answers) -> Answered:
    """Means over the samples of a question, by question: resamples draw questions."""
    samples: dict[str, list[JudgedAnswer]] = {}
    for answer in answers:
        samples.setdefault(answer.example, []).append(answer)
    times = zip(*samples.values(), strict=True)
    return Answered.of([([a.tokens for a in one], [a.is_correct for a in one]) for one in times])
