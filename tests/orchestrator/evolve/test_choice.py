"""Fronts of systems, the order in which they are tested, and the winner."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from orchestrator.evolve import choice
from orchestrator.evolve.choice import (
    Point,
    choose,
    halve,
    hypervolume,
    hypervolume_gain,
    order_members,
    questions_to_show,
)
from orchestrator.report.statistics import Measurement

MARGIN = 0.05


def measured(tokens: int, correct: Sequence[bool]) -> Measurement:
    count = len(correct)
    return Measurement(("",) * count, (tokens,) * count, tuple(correct), (True,) * count, (False,) * count)


def answers(tokens: int, lost: int = 0, gained: int = 0, count: int = 200) -> Measurement:
    """Of an even number of questions the plain model answers the first half; the first `lost` of them are lost."""
    half = count // 2
    correct = [False] * lost + [True] * (half - lost) + [True] * gained + [False] * (half - gained)
    return measured(tokens, correct)


PLAIN = answers(80)
FROM_THE_SUREST_TO_THE_BOLDEST = {
    "short and lossy": answers(20, lost=12, gained=4),
    "better": answers(60, lost=2, gained=14),
    "as good": answers(40, lost=5, gained=5),
    "beaten by as good": answers(45, lost=7, gained=5),
    "longer": answers(81, gained=30),
}
NO_TEST_FOR_HARDLY_MORE = {
    "saves hardly anything": answers(78, gained=24),
    "surest": answers(70, gained=20),
    "saves hardly more": answers(68, gained=10),
    "saves more": answers(60, lost=2, gained=10),
    "beyond the number of tests": answers(30, lost=11, gained=6),
}
NONE_LONGER_THAN_PLAIN = {
    "longer": answers(90, lost=0, gained=30),
    "better": answers(70, lost=4, gained=18),
    "short": answers(30, lost=2, gained=2),
    "less sure, as right": answers(50, lost=14, gained=28),
    "as right, longer": answers(75, lost=4, gained=18),
}


@pytest.mark.parametrize(
    ("members", "goal", "most", "order"),
    [
        (FROM_THE_SUREST_TO_THE_BOLDEST, "shortest", 5, ["better", "as good", "short and lossy"]),
        (NO_TEST_FOR_HARDLY_MORE, "shortest", 2, ["surest", "saves more"]),
        (NONE_LONGER_THAN_PLAIN, "most_right", 5, ["better"]),
    ],
)
def test_the_order_of_the_tests(members: Mapping[str, Measurement], goal: str, most: int, order: list[str]) -> None:
    found = order_members(members, PLAIN, MARGIN, goal, most)
    assert [member.name for member in found] == order
    assert [member.bound for member in found] == sorted((member.bound for member in found), reverse=True)
    assert all(member.correct == sum(members[member.name].correct) / 200 for member in found)


def test_testing_stops_at_the_first_that_is_not_shown() -> None:
    members = {"a": answers(60, gained=20), "b": answers(50, lost=2, gained=10), "c": answers(40, lost=3, gained=3)}
    validation = {"a": answers(60, gained=10), "b": answers(50, lost=14), "c": answers(40, gained=20)}
    order = order_members(members, PLAIN, MARGIN, "shortest", 5)
    asked: list[str] = []

    def verdicts(name: str) -> Sequence[bool]:
        asked.append(name)
        return validation[name].correct

    tests = choice.test_members(order, PLAIN.correct, verdicts, MARGIN)
    assert asked == ["a", "b"]
    assert [test.result.is_shown for test in tests] == [True, False]
    winner = choose(order, tests, "shortest")
    assert winner is not None and winner.name == "a"


def test_of_those_that_passed_the_goal_decides() -> None:
    members = {"short": answers(60, gained=20), "right": answers(70, lost=20, gained=44)}
    order = order_members(members, PLAIN, MARGIN, "most_right", 5)
    tests = choice.test_members(order, PLAIN.correct, lambda _: answers(60, gained=10).correct, MARGIN)
    winners = [choose(order, tests, goal) for goal in ("shortest", "most_right")]
    assert [one and one.name for one in winners] == ["short", "right"]


def test_where_nothing_passes_the_plain_model_wins_and_it_is_said_how_many_questions_would_decide() -> None:
    order = order_members({"a": answers(60)}, PLAIN, MARGIN, "shortest", 5)
    assert order[0].bound == pytest.approx(-0.0133, abs=1e-4)
    near = choice.test_members(order, PLAIN.correct, lambda _: answers(60, lost=16, gained=12).correct, MARGIN)
    beyond = choice.test_members(order, PLAIN.correct, lambda _: answers(60, lost=16, gained=4).correct, MARGIN)
    assert choose(order, near, "shortest") is None
    assert questions_to_show(near[0]) == pytest.approx(960, abs=30)
    assert near[0].result.bound == pytest.approx(-0.065, abs=0.002)
    assert questions_to_show(beyond[0]) is None


def test_members_that_truly_lose_the_margin_pass_in_at_most_one_run_of_twenty() -> None:
    """Twenty systems, each loses just the margin; ordered by luck on 100 questions, tested on 200 others, 400 times."""
    rng = np.random.default_rng(1)
    errors = sum(someone_passes(rng) for _ in range(400))
    assert 4 <= errors <= 30  # 20 are expected, with a standard deviation of 4.4


def someone_passes(rng: np.random.Generator) -> bool:
    right = rng.random(300) < 0.5
    # 15 % of the answers change sides: 10 % are lost and 5 % gained.
    correct = np.where(right, rng.random((20, 300)) > 0.2, rng.random((20, 300)) < 0.1)
    members = {str(i): measured(70 - i, row) for i, row in enumerate(correct[:, :100].tolist())}
    order = order_members(members, measured(75, right[:100].tolist()), MARGIN, "shortest", 5)
    tests = choice.test_members(order, right[100:].tolist(), lambda name: correct[int(name), 100:].tolist(), MARGIN)
    return any(test.result.is_shown for test in tests)


POINT = Point(80, 0.5)


def test_the_hypervolume_is_the_area_of_the_steps_below_the_front() -> None:
    points = [Point(20, 0.25), Point(60, 0.5), Point(90, 0.9), Point(30, 0.1)]
    # 20 to 60 tokens at 0.25, 60 to 80 at 0.5; 90 tokens are beyond the reference.
    assert hypervolume(points, 80) == pytest.approx((40 * 0.25 + 20 * 0.5) / 80)
    assert hypervolume([], 80) == 0
    # and what points add to a front is what it does not have
    assert hypervolume_gain([Point(40, 0.25), Point(70, 0.4)], [Point(60, 0.5)], 80) == pytest.approx(20 * 0.25 / 80)


def test_halving_keeps_front_after_front_and_then_the_least_crowded() -> None:
    spread = [Point(10, 0.1), Point(20, 0.2), Point(21, 0.21), Point(22, 0.22), Point(60, 0.6)]
    beaten = [Point(70, 0.1), Point(65, 0.5)]
    assert halve([*beaten, *spread], 3) == [2, 5, 6]
    assert halve([*beaten, *spread], 6) == [1, 2, 3, 4, 5, 6]
    assert halve(spread[:2], 3) == [0, 1]
    # A longer prompt with more correct answers is not halved away
    assert 4 in halve([POINT, Point(82, 0.5), Point(79, 0.4), Point(85, 0.48), Point(110, 0.6)], 2)
