"""Which system wins: Pareto Testing (Laufer-Goldshtein, Fisch, Barzilay and Jaakkola 2023, arXiv 2210.07913).

Members of the front are put in order by training questions that no fitness used.  Then they are tested one after the
other on the validation questions, each against the plain model: is a loss of correct answers of `margin` or more
excluded (Tango's score test, one-sided 95 %)?  Testing stops at the first member for which it is not.  So the
probability that any member passes that truly loses the margin or more is at most 5 %, asymptotically, whatever the
number of members, and any choice among those that passed is valid (fixed-sequence testing, as in Learn then Test:
Angelopoulos et al. 2021, arXiv 2110.01052).  This holds for an order that no validation answer has influenced.

Shares of correct answers are from 0 to 1 throughout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, Protocol

from orchestrator.report.inference import (
    LEVEL,
    CorrectnessChange,
    NonInferiority,
    correctness_change,
    non_inferiority,
    questions_needed,
)

Goal = Literal["shortest", "most_right"]

_NORMAL = NormalDist()
_LEAST_P = 1e-12  # smaller ones have no finite normal quantile in floats


class Answered(Protocol):
    """The answers of one system: tokens [n] and whether each is correct [n], of the same questions in one order."""

    @property
    def tokens(self) -> Sequence[int]: ...
    @property
    def correct(self) -> Sequence[bool]: ...


@dataclass(frozen=True)
class Member:
    """What the ordering questions show of a system.

    `correct` is a share; `bound` the lower end, one-sided 95 %, of its change against the plain model; `prospect` the
    estimated probability that the validation questions exclude a loss of the margin.
    """

    name: str
    mean_tokens: float
    correct: float
    bound: float
    prospect: float


@dataclass(frozen=True)
class MemberTest:
    """The test of one member on the validation questions."""

    name: str
    change: CorrectnessChange
    result: NonInferiority


@dataclass(frozen=True)
class Promising:
    """The first member of the order, which was not shown; `bound` is from the validation questions.

    `questions` is how many would show with a chance of 80 % what was observed; None where the observed loss is the
    margin or more.
    """

    name: str
    bound: float
    questions: int | None


def order_members(
    members: Mapping[str, Answered], plain: Answered, margin: float, goal: Goal, most: int, questions: int
) -> tuple[Member, ...]:
    """The sequence of at most `most` members to test on `questions` validation questions.

    All have answered the same ordering questions.  Members that another beats in the goal with as large a prospect, or
    that are longer than the plain model, are not worth a test.  Of the others those stay whose sequence promises most:
    the expected gain, where a member passes only together with those before it.
    """
    found = [_member(name, answered, plain, margin, questions) for name, answered in members.items()]
    tokens, correct = _mean(plain.tokens), _mean(plain.correct)

    def gain(member: Member) -> float:
        """In the goal's unit, above what the plain model or a failure gives."""
        return tokens - member.mean_tokens if goal == "shortest" else member.correct - correct + margin

    worth = [one for one in found if one.mean_tokens <= tokens and gain(one) > 0]
    ranked = sorted(worth, key=lambda one: (-one.prospect, -gain(one), one.mean_tokens))
    chain: list[Member] = []
    for one in ranked:
        if not chain or gain(one) > gain(chain[-1]):
            chain.append(one)
    return _thinned(chain, [gain(one) for one in chain], most)


def _member(name: str, answered: Answered, plain: Answered, margin: float, questions: int) -> Member:
    change = correctness_change(plain.correct, answered.correct)
    result = non_inferiority(change, margin)
    p = min(max(result.p, _LEAST_P), 1 - _LEAST_P)
    # The statistic of the validation questions, predicted from that of the ordering questions: both vary.
    ratio = questions / change.count
    shift = _NORMAL.inv_cdf(1 - p) * math.sqrt(ratio) - _NORMAL.inv_cdf(LEVEL)
    prospect = _NORMAL.cdf(shift / math.sqrt(1 + ratio))
    return Member(name, _mean(answered.tokens), change.after / change.count, result.bound, prospect)


def _thinned(chain: Sequence[Member], gains: Sequence[float], most: int) -> tuple[Member, ...]:
    """The part of at most `most` of the chain (prospects fall, gains rise) with the largest expected gain.

    The members are measured on the same questions against the same answers.  So a member that passes has mostly let
    those before it pass, and the expected gain is the area below the steps of prospect over gain.
    """
    best: list[tuple[float, tuple[Member, ...]]] = [
        (gain * one.prospect, (one,)) for one, gain in zip(chain, gains, strict=True)
    ]
    for _ in range(most - 1):
        best = [
            max(
                [best[j]] + [(best[i][0] + (gains[j] - gains[i]) * one.prospect, (*best[i][1], one)) for i in range(j)],
                key=lambda found: found[0],
            )
            for j, one in enumerate(chain)
        ]
    return max(best, key=lambda found: found[0], default=(0.0, ()))[1]


def test_members(
    order: Sequence[Member], plain: Sequence[bool], verdicts: Callable[[str], Sequence[bool]], margin: float
) -> tuple[MemberTest, ...]:
    """The tests in order, up to the first member that is not shown to lose less than `margin`.

    plain: [n] whether the plain model's answers to the validation questions are correct.  `verdicts` gives those of the
    member of a name; it is called for one member at a time, so none need exist before the order does.
    """
    tests: list[MemberTest] = []
    for member in order:
        change = correctness_change(plain, verdicts(member.name))
        tests.append(MemberTest(member.name, change, non_inferiority(change, margin)))
        if not tests[-1].result.is_shown:
            break
    return tuple(tests)


def passed(order: Sequence[Member], tests: Sequence[MemberTest]) -> tuple[Member, ...]:
    """The members that were shown to lose less than the margin."""
    shown = {test.name for test in tests if test.result.is_shown}
    return tuple(member for member in order if member.name in shown)


def choose(members: Sequence[Member], goal: Goal) -> Member | None:
    """The winner among the members that passed, by what the ordering questions show; None where the plain model wins.

    "shortest" is the one with the fewest tokens; "most_right" the one with the most correct answers, then with the
    fewest tokens.
    """
    if goal == "shortest":
        return min(members, key=lambda member: (member.mean_tokens, -member.correct), default=None)
    return min(members, key=lambda member: (-member.correct, member.mean_tokens), default=None)


def most_promising(tests: Sequence[MemberTest]) -> Promising | None:
    """The member to name where none passed; None where one did, or where none was worth a test."""
    if not tests or tests[0].result.is_shown:
        return None
    change, result = tests[0].change, tests[0].result
    distance = result.margin + change.difference.value
    discordant = (change.gained + change.lost) / change.count
    return Promising(tests[0].name, result.bound, questions_needed(distance, discordant) if distance > 0 else None)


def _mean(values: Sequence[int] | Sequence[bool]) -> float:
    return sum(values) / len(values)
