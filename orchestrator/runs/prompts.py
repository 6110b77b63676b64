"""System prompts that ask for short answers: measured before the search, which can start from the best of them.

All are asked the whole validation set without steering.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.report.systems import MeasuredSystem, Measurement
from orchestrator.runs.measuring import Answers, Measurer, baseline_score, measurement_of
from orchestrator.settings.brevity import PLAIN
from tasks.models import Constrained, Objective
from tasks.objective import additive_fitness_of
from tasks.plan import Candidate, ExampleSet

PLAN = "prompts"
ROUNDING = 1e-9
"""Answers; a margin of 0.03 on 100 questions allows exactly 3 fewer."""


def measure_prompts(measurer: Measurer, prompts: Mapping[str, str], asked: ExampleSet) -> dict[str, Answers]:
    """The graded answers to the set `asked` under each whole system prompt, by its name."""
    candidates = [Candidate(0, (), examples=asked, system_prompt=text) for text in prompts.values()]
    return dict(zip(prompts, measurer.answers(PLAN, 0, candidates), strict=True))


def best_first(names: Sequence[str], found: Mapping[str, Answers], margin: float) -> list[str]:
    """The prompts by their fitness relative to the plain one, which has answered the same questions."""
    plain = baseline_score(found[PLAIN])
    objective = Constrained(max(plain.mean_tokens, 1.0), plain.correctness, margin)

    def value(name: str) -> float:
        score = baseline_score(found[name])
        return additive_fitness_of(score.mean_tokens, score.correctness, objective)

    return sorted(names, key=value, reverse=True)


def prompt_systems(
    prompts: Mapping[str, str], answers: Mapping[str, Answers], objective: Objective
) -> tuple[MeasuredSystem, ...]:
    """What the report compares, in the order of the prompts."""
    return tuple(
        MeasuredSystem(
            name=name,
            kind="plain" if name == PLAIN else "prompt",
            system_prompt=system_prompt,
            validation=measurement_of(answers[name], objective),
        )
        for name, system_prompt in prompts.items()
    )


def lossless_prompts(systems: Sequence[MeasuredSystem], margin: float) -> list[MeasuredSystem]:
    """Those that lose no more than the margin, the shortest answers first.  The plain prompt is always among these."""
    [plain] = [system for system in systems if system.kind == "plain"]
    assert plain.validation is not None
    least = plain.validation.right - margin * len(plain.validation.correct) - ROUNDING
    measured = [(s, s.validation) for s in systems if s.validation is not None]
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
