"""What a report may claim: the outcome of each case, and a win only where the figures support it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from concluded_systems import MARGIN, concluded
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_systems import EVOLVED, ONE_SENTENCE, PLAIN, SHORT_BUT_WRONG, measurement, system

from orchestrator.report.conclusion import conclude
from orchestrator.report.systems import MeasuredSystem, Measurement

EQUAL = system("evolved 1", "evolved", 0.6)
WORSE = system("evolved 1", "evolved", 0.6, lost=40)
RAISED = replace(system("end of turn alone", "vector", 0.4), deltas=(11.0, 0.0))
NOT_BETTER = replace(system("log-odds alone", "vector", 0.4, lost=9, gained=4), deltas=(0.5, -1.0))
LONGER = system("show the steps", "prompt", 0.95, gained=20, seed=5)
PROMPT_WON = replace(ONE_SENTENCE, deltas=(0.0, 0.0))
SHORTER = replace(ONE_SENTENCE, test=measurement(0.3, seed=2))


@pytest.mark.parametrize(
    ("best", "rivals", "outcome", "rival"),
    [
        (EVOLVED, [ONE_SENTENCE, SHORT_BUT_WRONG], "win", None),
        (EVOLVED, [SHORT_BUT_WRONG], "win", None),
        (EVOLVED, [LONGER], "win", None),  # more right answers, bought with more tokens
        (EQUAL, [ONE_SENTENCE], "prompt_suffices", "one sentence"),
        (EVOLVED, [system("end of turn alone", "vector", 0.3, seed=4)], "vector_suffices", "end of turn alone"),
        (RAISED, [ONE_SENTENCE, RAISED], "vector_suffices", None),  # the start itself has won
        (RAISED, [SHORTER, RAISED], "prompt_suffices", "one sentence"),
        (replace(RAISED, name="g0_pop0", kind="evolved"), [ONE_SENTENCE, RAISED], "vector_suffices", None),
        (PROMPT_WON, [PROMPT_WON], "prompt_suffices", None),
        (NOT_BETTER, [NOT_BETTER], "not_shown", None),
        (system("evolved 1", "evolved", 0.4, lost=9, gained=4), [], "not_shown", None),
        (system("evolved 1", "evolved", 1.0, seed=4), [system("no filler", "prompt", 1.01, seed=5)], "not_shown", None),
        (WORSE, [], "worse", None),
        (WORSE, [ONE_SENTENCE, SHORT_BUT_WRONG], "worse", None),
        (system("evolved 1", "evolved", 1.2), [], "worse", None),
    ],
)
def test_outcomes(best: MeasuredSystem, rivals: list[MeasuredSystem], outcome: str, rival: str | None) -> None:
    conclusion = concluded(best, rivals)
    assert conclusion.outcome == outcome
    assert rival is None or conclusion.rival == rival
    assert conclusion.rival is None or conclusion.rival in conclusion.headline


def test_a_winner_is_not_compared_with_itself() -> None:
    for best in (RAISED, replace(RAISED, name="g0_pop0", kind="evolved")):
        pairs = concluded(best, [ONE_SENTENCE, RAISED]).pairs
        assert [pair.against for pair in pairs] == ["none", "one sentence"]


def test_without_a_test_set_the_validation_set_is_used_and_the_conclusion_says_so() -> None:
    conclusion = concluded(replace(EVOLVED, test=None), [ONE_SENTENCE], replace(PLAIN, test=None))
    assert conclusion.measured_on == "validation"
    assert any("these same questions" in sentence for sentence in conclusion.sentences)
    assert not any("these same questions" in sentence for sentence in concluded(EVOLVED, [ONE_SENTENCE]).sentences)


def test_many_rivals_raise_what_has_to_be_shown_against_each_of_them_but_not_against_the_plain_model() -> None:
    best = system("evolved 1", "evolved", 0.4, lost=2)
    alone = concluded(best, [ONE_SENTENCE])
    crowd = [system(f"prompt {i}", "prompt", 0.95, seed=10 + i) for i in range(20)]
    among_many = concluded(best, [ONE_SENTENCE, *crowd])
    assert among_many.pairs[0] == alone.pairs[0]
    assert among_many.pairs[1].better_p > alone.pairs[1].better_p


def test_a_prompt_of_the_same_length_that_is_right_less_often_does_not_do_as_well() -> None:
    # given a prompt that is shorter by a hair, which is not shown, and loses nothing
    more_right = system("evolved 1", "evolved", 0.6, gained=20, seed=4)
    against_sentence = concluded(more_right, [ONE_SENTENCE]).pairs[1]
    assert not against_sentence.is_shorter and against_sentence.is_more_right
    assert concluded(more_right, [ONE_SENTENCE]).outcome == "not_shown"
    # when its answers are exactly as long, then the vector wins by its right answers
    assert concluded(more_right, [system("one sentence", "prompt", 0.6, seed=4)]).outcome == "win"


def test_too_few_questions_show_nothing() -> None:
    for count in (1, 4, 16):
        plain = system("none", "plain", 1.0, seed=0, count=count)
        for factor in (0.3, 3.0) if count < 16 else (0.4,):
            best = system("evolved 1", "evolved", factor, seed=4, count=count)
            conclusion = concluded(best, [replace(best, name="concise", kind="prompt", deltas=())], plain)
            assert conclusion.outcome == "not_shown" and conclusion.smallest_visible_loss > 0.3


def test_a_shorter_prompt_is_not_beaten_because_its_harmlessness_could_not_be_shown() -> None:
    # given 100 questions, on which one lost answer and one gained are too many to exclude a loss of 3 points
    plain, best = system("none", "plain", 1.0, seed=0, count=100), system("evolved 1", "evolved", 0.6, count=100)
    prompt = system("one sentence", "prompt", 0.55, lost=1, seed=2, count=100)
    assert concluded(best, [], plain).outcome == "win"
    conclusion = concluded(best, [prompt], plain)
    assert (conclusion.outcome, conclusion.rival) == ("not_shown", "one sentence")


@pytest.mark.parametrize("right", [0, 3])
def test_a_model_that_is_hardly_ever_right_has_nothing_by_which_a_vector_could_win(right: int) -> None:
    # given a plain model with so few right answers that a vector may lose all of them within the margin
    examples = tuple(f"q{index}" for index in range(600))
    verbose = Measurement(examples, (50,) * 600, tuple(index < right for index in range(600)), 0.4)
    empty = Measurement(examples, (0,) * 600, (False,) * 600, 0.6)
    plain = MeasuredSystem("none", "plain", "", (), verbose, verbose)
    best = MeasuredSystem("evolved 1", "evolved", "", (1.0,), empty, empty)
    conclusion = concluded(best, [MeasuredSystem("end of turn alone", "vector", "", (6.0,), empty, empty)], plain)
    assert conclusion.outcome == "not_shown"
    # and where the vector is longer, no rival is recommended for losing nothing
    long = replace(verbose, tokens=(90,) * 600)
    worse = concluded(replace(best, validation=long, test=long), [replace(best, name="eot", kind="vector")], plain)
    assert worse.outcome == "worse" and not any("is better than the plain" in one for one in worse.sentences[1:])


def test_with_a_margin_of_nothing_a_vector_wins_by_more_right_answers_alone() -> None:
    assert conclude(PLAIN, EVOLVED, [], 0.0, seed=7).outcome == "not_shown"
    assert conclude(PLAIN, system("evolved 1", "evolved", 0.4, gained=30), [], 0.0, seed=7).outcome == "win"
    assert conclude(PLAIN, EVOLVED, [], 1.0, seed=7).outcome == "not_shown"


@settings(deadline=None, max_examples=40)
@given(
    saved=st.floats(0.0, 1.3),
    lost=st.integers(0, 30),
    gained=st.integers(0, 30),
    rivals=st.lists(st.tuples(st.floats(0.2, 1.3), st.integers(0, 30)), max_size=3),
    seed=st.integers(0, 1000),
)
def test_no_win_is_claimed_where_an_interval_includes_no_gain_or_the_margin(
    saved: float, lost: int, gained: int, rivals: list[tuple[float, int]], seed: int
) -> None:
    rng = random.Random(seed)
    count = rng.choice([20, 100])
    plain = system("none", "plain", 1.0, seed=0, count=count)
    best = system("evolved 1", "evolved", 0.3 + saved, min(lost, count // 3), min(gained, count // 3), seed, count)
    others = [
        system(f"prompt {i}", "prompt", factor, min(wrong, count // 3), seed=seed + i, count=count)
        for i, (factor, wrong) in enumerate(rivals)
    ]
    conclusion = concluded(best, others, plain)
    against_plain, *pairs = conclusion.pairs
    if conclusion.outcome == "win":
        assert against_plain.ratio.ratio.high < 1 and against_plain.change.difference.value > -MARGIN
        assert against_plain.non_inferiority.bound > -MARGIN
        assert not any(pair.is_dominated for pair in pairs)
    else:
        assert "shortens the answers" not in conclusion.headline
