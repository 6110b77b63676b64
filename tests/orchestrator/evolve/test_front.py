import pytest

from orchestrator.evolve.choice import Point, front, halve, hypervolume, hypervolume_gain

PLAIN = Point(80, 0.5)


def test_the_front_has_what_no_other_beats_fewest_tokens_first() -> None:
    points = [PLAIN, Point(100, 0.6), Point(40, 0.4), Point(40, 0.3), Point(90, 0.5), Point(20, 0.1), Point(40, 0.4)]

    assert front(points) == [5, 2, 0, 1]
    assert front([]) == []


def test_the_hypervolume_is_the_area_of_the_steps_below_the_front() -> None:
    points = [Point(20, 0.25), Point(60, 0.5), Point(90, 0.9), Point(30, 0.1)]

    # 20 to 60 tokens at 0.25, 60 to 80 at 0.5; 90 tokens are beyond the reference.
    assert hypervolume(points, 80) == pytest.approx((40 * 0.25 + 20 * 0.5) / 80)
    assert hypervolume([], 80) == 0


def test_points_add_what_the_front_does_not_have() -> None:
    assert hypervolume_gain([Point(40, 0.25), Point(70, 0.4)], [Point(60, 0.5)], 80) == pytest.approx(20 * 0.25 / 80)


def test_halving_keeps_front_after_front_and_then_the_least_crowded() -> None:
    spread = [Point(10, 0.1), Point(20, 0.2), Point(21, 0.21), Point(22, 0.22), Point(60, 0.6)]
    beaten = [Point(70, 0.1), Point(65, 0.5)]

    assert halve([*beaten, *spread], 3) == [2, 5, 6]
    assert halve([*beaten, *spread], 6) == [1, 2, 3, 4, 5, 6]
    assert halve(spread[:2], 3) == [0, 1]


def test_a_longer_prompt_with_more_correct_answers_is_not_halved_away() -> None:
    prompts = [PLAIN, Point(82, 0.5), Point(79, 0.4), Point(85, 0.48), Point(110, 0.6)]

    assert 4 in halve(prompts, 2)
