"""Whether one system is shown to be better than another: the paired bootstrap of their fitness."""

from __future__ import annotations

from orchestrator.runs.superiority import Answered, is_shown_better, share_better
from tasks.models import Constrained

OBJECTIVE = Constrained(1, 0)
COUNT = 40


def answered(tokens: float, wrong: int = 0) -> Answered:
    """Answers of one length, of which the first are wrong."""
    return Answered.of([([tokens] * COUNT, [number >= wrong for number in range(COUNT)])])


PLAIN = answered(100)


def test_shorter_answers_that_are_all_right_are_better_in_each_resample() -> None:
    assert share_better(answered(50), answered(60), PLAIN, OBJECTIVE, seed=1) == 1
    assert share_better(answered(60), answered(50), PLAIN, OBJECTIVE, seed=1) == 0
    # and equals are never better
    assert share_better(answered(50), answered(50), PLAIN, OBJECTIVE, seed=1) == 0


def test_answers_to_the_same_questions_are_paired() -> None:
    """Both are wrong on the same questions: whichever are drawn, the shorter one is better."""
    assert share_better(answered(50, wrong=20), answered(60, wrong=20), PLAIN, OBJECTIVE, seed=1) == 1


def test_where_right_answers_are_lost_the_share_says_how_surely() -> None:
    # one answer of 40 lost for a quarter fewer tokens: resamples that draw it more than once find this worse
    assert 0.7 < share_better(answered(45, wrong=1), answered(60), PLAIN, OBJECTIVE, seed=1) < 0.77


def test_fitness_is_relative_to_the_plain_model_in_each_resample() -> None:
    """The plain model is wrong where both are: nothing is lost, whatever the run's baseline says."""
    theirs, plain = answered(60, wrong=30), answered(100, wrong=30)
    assert share_better(answered(59, wrong=30), theirs, plain, OBJECTIVE, seed=1) == 1


def test_the_level_is_corrected_for_the_systems_that_were_tried() -> None:
    # one answer of 40 lost for a third of the tokens: resamples that draw it more than three times find this worse
    ours, theirs = answered(20, wrong=1), answered(60)
    assert 0.97 < share_better(ours, theirs, PLAIN, OBJECTIVE, seed=1) < 0.99
    assert is_shown_better(ours, theirs, PLAIN, OBJECTIVE, seed=1)
    assert not is_shown_better(ours, theirs, PLAIN, OBJECTIVE, seed=1, tried=10)
