"""The arms of a search: the system prompts in which deltas are searched, each with clusters and vectors of its own.

All prompts are asked a part of the training questions, and halved on the front of tokens against correct answers, so
that a prompt with longer and better answers stays as well.  The best few on the whole training set become arms.  The
clusters of an arm are made from its own answers (`wasted` tokens), and its vectors need no search: the negative
log-odds of each cluster, times one factor, with and without a raised end of turn.

With CONFIG_WHOLE=n there is one arm, the user's own system prompt, as in the specification: clusters of the run, and no
vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from orchestrator.evolve.choice import halve, least_correct
from orchestrator.evolve.setup import Examples
from orchestrator.evolve.systems import PLAIN, Answers, Arm, Book, Measurer, System, measurement_of
from orchestrator.report.statistics import JudgedAnswer
from orchestrator.settings import SettingsError
from orchestrator.settings.inputs import layout_of
from orchestrator.settings.options import Settings
from tasks.plan import ExampleSet
from tasks.records import ClusterFigures, Example, Sides

RUNGS: tuple[tuple[ExampleSet, int], ...] = (("quarter", 4), ("half", 2))
"""Parts of the training set on which prompts are halved: every fourth question, every second one."""
LEAST_RUNG = 12
"""Questions.  A smaller part says too little, and is left out."""
ARMS = 3
AT_CAP = 0.02
"""Of the plain model's answers to all training questions, the most that may reach the cap without a loop; or one."""
MOST_DOUBLINGS = 3
FACTORS = (0.5, 1.0, 2.0)
"""What the negative log-odds of each cluster are multiplied by."""

Answered = tuple[System, Answers]
Cluster = Callable[[Sides | None], tuple[str, ClusterFigures]]
"""Makes the clusters from two sets of answers, or the run's own from none; returns their content hash."""


def parts_of(training: Sequence[Example]) -> dict[str, list[Example]]:
    """The sets of RUNGS that are large enough."""
    parts = {name: list(training[::step]) for name, step in RUNGS}
    return {name: rows for name, rows in parts.items() if len(rows) >= LEAST_RUNG}


def prepare(
    settings: Settings, prompts: Mapping[str, str], measurer: Callable[[int], Measurer], cluster: Cluster
) -> tuple[Book, Examples]:
    """The arms of the run with all that was measured on the training set, and the questions that fit with its cap.

    prompts: by name, the plain one first; measurer: makes that of a cap, whose questions are those that fit with it.
    """
    plain, cap, measured_by = _plain(settings, prompts[PLAIN], measurer)
    rivals = [System(name, "prompt", text, arm=name) for name, text in prompts.items() if name != PLAIN]
    least = least_correct(plain[0])
    measured = [plain, *_halved(measured_by, rivals, least, whole=settings.whole)]
    chosen = halve([one.on("training").point for one, _ in measured], ARMS, least) if settings.whole else [0]
    golds = [example.gold for example in measured_by.examples["training"]]
    arms, vectors = list[Arm](), list[System]()
    for one, own in (measured[index] for index in chosen):
        others = [answer for other, given in measured if other is not one for answer in given]
        clustering, figures = cluster(sides_of(own, others, golds))
        arms.append(Arm(one.name, one.system_prompt, clustering))
        if settings.whole:
            vectors += vectors_of(arms[-1], figures, layout_of(settings).count, settings.delta_bound)
    vectors = measured_by.measure("vectors", vectors, "training")
    known = Book(cap=cap, arms=tuple(arms), systems=(*(one for one, _ in measured), *vectors))
    return known.with_systems([known.known(one) for one in rivals]), measured_by.examples


def _plain(
    settings: Settings, system_prompt: str, measurer: Callable[[int], Measurer]
) -> tuple[Answered, int, Measurer]:
    """The plain model on all training questions, and the cap that at most 2 % of its answers reach.

    A small cap would cut the plain model's answers, and make whatever is shorter seem right.  Answers that repeat
    themselves reach every cap, and are not counted here.
    """
    first = cap = settings.target_max_new_tokens
    plain = System(PLAIN, "plain", system_prompt)
    while True:
        asked = measurer(cap)
        sets: list[ExampleSet] = ["training", *(("ordering",) if asked.examples.get("ordering") else ())]
        found = asked.answers("plain", [plain.candidate(which) for which in sets])
        given = [one for answers in found for one in answers]
        cut = sum(one.tokens >= cap and not one.is_loop for one in given)
        if not settings.whole or cut <= max(1, AT_CAP * len(given)):
            for which, answers in zip(sets, found, strict=True):
                plain = plain.measured(which, measurement_of(answers))
            return (plain, found[0]), cap, asked
        if cap >= first * 2**MOST_DOUBLINGS:
            what = f"{cut} of {len(given)} answers of the plain model are cut at {cap} tokens"
            advice = f"raise it until at most {AT_CAP:.0%} are, or set CONFIG_WHOLE=n"
            raise SettingsError([f"CONFIG_TARGET_MAX_NEW_TOKENS: {what}; {advice}"])
        cap *= 2


def _halved(measurer: Measurer, prompts: Sequence[System], least: float, *, whole: bool) -> list[Answered]:
    """The prompts that stay when they are halved on each of RUNGS, measured on the whole training set.

    least: the share of correct answers that a prompt must have to stay.
    """
    left = list(prompts)
    for name, _ in RUNGS if whole else ():
        if name in measurer.examples and len(left) > ARMS:
            answers = measurer.answers("prompts", [one.candidate(name) for one in left])
            points = [measurement_of(given).point for given in answers]
            left = [left[i] for i in halve(points, (len(left) + 1) // 2, least)]
    return measurer.with_answers("prompts", left, "training")


def sides_of(own: Iterable[JudgedAnswer], others: Iterable[JudgedAnswer], golds: Sequence[str]) -> Sides:
    """The two sides of an arm's clusters: its own answers, and correct answers that are shorter.

    An answer of another prompt counts when it is correct and shorter than the arm's own to the same question.  The
    right answers of the data (`golds`) are added where fewer count than the arm has answers.
    """
    verbose = list(own)
    lengths = {answer.example: answer.tokens for answer in verbose}
    short = [a.text for a in others if a.is_right and a.is_whole and a.tokens < lengths[a.example]]
    if len(short) < len(verbose):
        short += golds
    return Sides(tuple(answer.text for answer in verbose), tuple(short))


def vectors_of(arm: Arm, figures: ClusterFigures, clusters: int, bound: float) -> list[System]:
    """The vectors of an arm that need no search; `bound` is the largest delta."""

    def system(name: str, deltas: Sequence[float]) -> System:
        return replace(plain, name=f"{arm.name}: {name}", deltas=tuple(min(bound, max(-bound, d)) for d in deltas))

    plain = System("", "vector", arm.system_prompt, arm=arm.name, clustering=arm.clustering)
    raised = [bound if i == figures.eos else 0.0 for i in range(clusters)]
    found = [system(f"end +{bound:g}", raised)]
    for factor in FACTORS if any(figures.log_odds) else ():
        scaled = [-factor * value for value in figures.log_odds]
        found.append(system(f"log-odds x{factor:g}", scaled))
        both = [bound if i == figures.eos else delta for i, delta in enumerate(scaled)]
        found.append(system(f"log-odds x{factor:g}, end +{bound:g}", both))
    return found
