"""System prompts that ask for short answers: measured before the search, which can start from the best of them.

All are asked the validation set without steering.  With successive halving (K. Jamieson and A. Talwalkar,
"Non-stochastic Best Arm Identification and Hyperparameter Optimization", AISTATS 2016) the worse half stops after an
eighth of the questions, and again after a quarter and after a half.  The plain prompt always answers all questions,
since everything is compared with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.report.systems import MeasuredSystem, Measurement
from orchestrator.runs.measuring import Answers, Measurer, baseline_score, measurement_of
from orchestrator.settings.brevity import PLAIN
from tasks.models import Constrained, Objective
from tasks.objective import additive_fitness_of
from tasks.plan import Candidate, ExampleSet

PLAN = "prompts"
RUNGS = ((8, 16), (4, 8), (2, 8))
"""The worse half stops after an eighth of the questions if these are at least 16, and after a quarter and after a half
if these are at least 8: fewer say too little."""
LEAST_PROMPTS = 4
"""How many go on to the end, the plain one aside: the shortest may turn out to lose too many right answers."""
ROUNDING = 1e-9
"""Answers; a margin of 0.03 on 100 questions allows exactly 3 fewer."""


@dataclass(frozen=True)
class PromptRace:
    """Which questions the prompts are asked, and when they stop.

    prompts: whole system prompts by name, the plain one first; margin: the share of right answers that a prompt may
    lose against the plain one and still count as losing none; is_raced: whether the worse prompts stop early, else all
    are asked all questions; complete: the names of those that never stop, the plain one among them.
    """

    prompts: Mapping[str, str]
    examples: ExampleSet
    margin: float
    is_raced: bool
    complete: frozenset[str] = frozenset({PLAIN})

    def candidate(self, name: str, questions: int = 0) -> Candidate:
        return Candidate(0, (), examples=self.examples, system_prompt=self.prompts[name], questions=questions)


def measure_prompts(measurer: Measurer, race: PromptRace) -> dict[str, Answers]:
    """The graded answers of each prompt, by its name; of a prompt that was stopped, to the first questions only.

    Each prompt counts as one evaluation.  Raises: Parked.
    """
    count = len(measurer.examples[race.examples])
    rungs = halving_rungs(count) if race.is_raced else (count,)
    running = list(race.prompts)
    found: dict[str, Answers] = {}
    for number, rung in enumerate(rungs):
        candidates = [race.candidate(name, 0 if rung >= count else rung) for name in running]
        answers = measurer.answers(f"{PLAN}{number}_", 0, candidates, is_counted=number == 0)
        found |= dict(zip(running, answers, strict=True))
        if rung < count:
            running = _better_half(running, found, race)
    return found


def halving_rungs(count: int) -> tuple[int, ...]:
    """How many questions have been asked when the worse half stops; the last is all of them."""
    parts = {math.ceil(count / part) for part, least in RUNGS if math.ceil(count / part) >= least}
    return (*sorted(parts - {count}), count)


def _better_half(running: Sequence[str], found: Mapping[str, Answers], race: PromptRace) -> list[str]:
    """Those that never stop, and of the others the better half.  All have answered the same questions so far."""
    others = best_first([name for name in running if name not in race.complete], found, race.margin)
    kept = race.complete.union(others[: max(LEAST_PROMPTS, math.ceil(len(others) / 2))])
    return [name for name in running if name in kept]


def best_first(names: Sequence[str], found: Mapping[str, Answers], margin: float) -> list[str]:
    """The prompts by their fitness relative to the plain one, which has answered the same questions."""
    plain = baseline_score(found[PLAIN])
    objective = Constrained(max(plain.mean_tokens, 1.0), plain.correctness, margin)

    def value(name: str) -> float:
        score = baseline_score(found[name])
        return additive_fitness_of(score.mean_tokens, score.correctness, objective)

    return sorted(names, key=value, reverse=True)


def prompt_systems(
    race: PromptRace, answers: Mapping[str, Answers], objective: Objective
) -> tuple[MeasuredSystem, ...]:
    """What the report compares, in the order of the prompts."""
    count = len(answers[PLAIN])
    return tuple(
        MeasuredSystem(
            name=name,
            kind="plain" if name == PLAIN else "prompt",
            system_prompt=system_prompt,
            validation=measurement_of(answers[name], objective),
            is_stopped=len(answers[name]) < count,
        )
        for name, system_prompt in race.prompts.items()
    )


def lossless_prompts(systems: Sequence[MeasuredSystem], margin: float) -> list[MeasuredSystem]:
    """Those that answered all questions and lose no more than the margin, the shortest answers first.

    The plain prompt is always among these.
    """
    [plain] = [system for system in systems if system.kind == "plain"]
    assert plain.validation is not None
    least = plain.validation.right - margin * len(plain.validation.correct) - ROUNDING
    measured = [(s, s.validation) for s in systems if not s.is_stopped and s.validation is not None]
    eligible = [(s, given) for s, given in measured if given.right >= least]
    return [system for system, _ in sorted(eligible, key=lambda one: one[1].mean_tokens)]


def shortest_near_best(measured: Mapping[str, Sequence[Measurement]], margin: float) -> str:
    """The prompt with the shortest answers of those that are as good as the best one but for the margin.

    measured: of each prompt, the plain one among them, what the same sets of questions show; margin: the share of right
    answers that may be fewer than the best one's.  A prompt whose answers are no shorter than the plain one's is
    neither chosen nor the best one.

    The best one, and not the plain one alone, is the measure: a few dozen questions say little, and where the plain
    model had bad luck on them, the shortest prompt seems to lose nothing.
    """
    tokens = {name: sum(sum(one.tokens) for one in sets) for name, sets in measured.items()}
    right = {name: sum(one.right for one in sets) for name, sets in measured.items()}
    names = [name for name in measured if name == PLAIN or tokens[name] < tokens[PLAIN]]
    count = sum(len(one.correct) for one in measured[PLAIN])
    least = max(right[name] for name in names) - margin * count - ROUNDING
    return min((name for name in names if right[name] >= least), key=tokens.__getitem__)
