"""System prompts that ask for short answers: measured before the search, which can start from the best of them.

All are asked the validation set without steering.  With successive halving (K. Jamieson and A. Talwalkar,
"Non-stochastic Best Arm Identification and Hyperparameter Optimization", AISTATS 2016) the worse half stops after an
eighth of the questions, and again after a quarter and after a half.  The plain prompt always answers all questions,
since everything is compared with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.report.systems import MeasuredSystem
from orchestrator.runs.measuring import Answers, Measurer, baseline_score, measured
from orchestrator.settings.brevity import PLAIN, BrevityPrompt
from tasks.models import Constrained, Objective
from tasks.objective import additive_fitness_of
from tasks.plan import Candidate, ExampleSet

PLAN = "prompts"
LEAST_ANSWERS = 5
"""Fewer say too little to stop a prompt."""


@dataclass(frozen=True)
class PromptRace:
    """Which questions the prompts are asked, and when they stop.

    margin: the share of right answers that a prompt may lose against the plain one and still count as losing none.
    is_raced: whether the worse prompts stop early; else all are asked all questions.
    """

    base: str  # the system prompt to which each sentence is appended
    prompts: Sequence[BrevityPrompt]
    examples: ExampleSet
    margin: float
    is_raced: bool

    def candidate(self, prompt: BrevityPrompt, questions: int = 0) -> Candidate:
        system = prompt.system_prompt(self.base)
        return Candidate(0, (), examples=self.examples, system_prompt=system, questions=questions)


def measure_prompts(measurer: Measurer, race: PromptRace) -> dict[str, Answers]:
    """The graded answers of each prompt, by its name; of a prompt that was stopped, to the first questions only.

    Raises: Parked.
    """
    count = len(measurer.examples[race.examples])
    rungs = halving_rungs(count) if race.is_raced else (count,)
    running = list(race.prompts)
    found: dict[str, Answers] = {}
    for number, rung in enumerate(rungs):
        candidates = [race.candidate(prompt, 0 if rung >= count else rung) for prompt in running]
        answers = measurer.answers(f"{PLAN}{number}_", 0, candidates)
        found |= {prompt.name: given for prompt, given in zip(running, answers, strict=True)}
        if rung < count:
            running = _better_half(running, found, race.margin)
    return found


def halving_rungs(count: int) -> tuple[int, ...]:
    """How many questions have been asked when the worse half stops; the last is all of them."""
    parts = sorted({math.ceil(count / 8), math.ceil(count / 4), math.ceil(count / 2)})
    return (*(part for part in parts if LEAST_ANSWERS <= part < count), count)


def _better_half(running: list[BrevityPrompt], found: dict[str, Answers], margin: float) -> list[BrevityPrompt]:
    """The plain prompt, and of the others the half with the higher fitness relative to it."""
    plain = baseline_score(found[PLAIN])
    objective = Constrained(max(plain.mean_tokens, 1.0), plain.correctness, margin)

    def value(prompt: BrevityPrompt) -> float:
        score = baseline_score(found[prompt.name])
        return additive_fitness_of(score.mean_tokens, score.correctness, objective)

    others = sorted((prompt for prompt in running if prompt.name != PLAIN), key=value, reverse=True)
    kept = {prompt.name for prompt in others[: math.ceil(len(others) / 2)]} | {PLAIN}
    return [prompt for prompt in running if prompt.name in kept]


def prompt_systems(race: PromptRace, answers: dict[str, Answers], objective: Objective) -> tuple[MeasuredSystem, ...]:
    """What the report compares, in the order of the file."""
    count = len(answers[PLAIN])
    return tuple(
        MeasuredSystem(
            name=prompt.name,
            kind="plain" if prompt.name == PLAIN else "prompt",
            system_prompt=prompt.system_prompt(race.base),
            validation=measured(answers[prompt.name], objective),
            is_stopped=len(answers[prompt.name]) < count,
        )
        for prompt in race.prompts
    )


def best_prompt(systems: Sequence[MeasuredSystem], margin: float) -> MeasuredSystem:
    """The one with the shortest answers, of those that answered all questions and lose no more than the margin.

    The plain prompt is always among these.
    """
    [plain] = [system for system in systems if system.kind == "plain"]
    assert plain.validation is not None
    enough = plain.validation.right - margin * len(plain.validation.correct)
    eligible = [s for s in systems if not s.is_stopped and s.validation and s.validation.right >= enough - 1e-9]
    return min(eligible, key=lambda system: system.validation.mean_tokens if system.validation else 0.0)
