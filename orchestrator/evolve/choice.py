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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from orchestrator.report.statistics import (
    CorrectnessChange,
    NonInferiority,
    correctness_change,
    non_inferiority,
    questions_needed,
)

Goal = Literal["shortest", "most_right"]

STEP = 0.04
"""By what share of the plain model's tokens a member must be shorter than the one tested before it."""


class Answered(Protocol):
    """The answers of one system: tokens [n] and whether each is correct [n], of the same questions in one order."""

    @property
    def tokens(self) -> Sequence[int]: ...
    @property
    def correct(self) -> Sequence[bool]: ...


@dataclass(frozen=True)
class Member:
    """What the ordering questions show of a system.

    `correct` is a share; `bound` the lower end, one-sided 95 %, of its change against the plain model.
    """

    name: str
    mean_tokens: float
    correct: float
    bound: float


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
    members: Mapping[str, Answered], plain: Answered, margin: float, goal: Goal, most: int
) -> tuple[Member, ...]:
    """The sequence of at most `most` members to test, the largest bound first.

    All have answered the same ordering questions.  Not worth a test are members longer than the plain model, and those
    that gain nothing in the goal over one with as large a bound; for "shortest" also those that save hardly more, so
    that the few tests reach from the surest to the boldest.
    """
    tokens, correct = _mean(plain.tokens), _mean(plain.correct)
    step = STEP * tokens if goal == "shortest" else 0.0

    def gain(member: Member) -> float:
        """Tokens saved, or how far the share of correct answers is above the margin."""
        return tokens - member.mean_tokens if goal == "shortest" else member.correct - correct + margin

    found = [_member(name, answered, plain) for name, answered in members.items()]
    order: list[Member] = []
    for member in sorted(found, key=lambda member: (-member.bound, -gain(member), member.mean_tokens)):
        reached = gain(order[-1]) + step if order else 0.0
        if member.mean_tokens <= tokens and gain(member) > reached:
            order.append(member)
    return tuple(order[:most])


def _member(name: str, answered: Answered, plain: Answered) -> Member:
    change = correctness_change(plain.correct, answered.correct)
    # The bound does not depend on the margin.
    bound = non_inferiority(change, 0.0).bound
    return Member(name, _mean(answered.tokens), change.after / change.count, bound)


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
