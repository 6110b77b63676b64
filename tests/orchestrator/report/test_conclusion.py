"""What a report may claim: the vector wins only where the figures support it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from concluded_systems import MARGIN, concluded
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_systems import EVOLVED, ONE_SENTENCE, PLAIN, SHORT_BUT_WRONG, system

from orchestrator.report.conclusion import conclude
from orchestrator.report.inference import noise_floor
from orchestrator.report.systems import Measurement


def test_a_shorter_vector_that_loses_nothing_wins() -> None:
    conclusion = concluded(EVOLVED, [ONE_SENTENCE, SHORT_BUT_WRONG])

    assert (conclusion.outcome, conclusion.rival) == ("win", None)
    assert conclusion.headline.startswith("The evolved vector shortens the answers by 60")
    assert "on 300 test questions and loses less than 3 points" in conclusion.headline
    assert [pair.is_better for pair in conclusion.pairs] == [True, True, False]
    assert '"final answer only" is shorter still, but not shown to keep as many right' in " ".join(conclusion.sentences)
    assert "beats 1 of 2 rivals" in " ".join(conclusion.sentences)


def test_a_prompt_that_loses_right_answers_takes_nothing_away() -> None:
    assert concluded(EVOLVED, [SHORT_BUT_WRONG]).outcome == "win"


def test_where_a_loss_is_excluded_nothing_is_said_of_losses_that_go_unseen() -> None:
    conclusion = concluded(system("evolved 1", "evolved", 0.6))
    assert conclusion.outcome == "win"
    assert not any("unseen" in sentence for sentence in conclusion.sentences)


def test_without_a_test_set_the_conclusion_says_that_the_choice_was_made_by_the_same_questions() -> None:
    plain, best = replace(PLAIN, test=None), replace(EVOLVED, test=None)
    conclusion = concluded(best, [ONE_SENTENCE], plain)
    assert conclusion.measured_on == "validation"
    assert "on 300 validation questions" in conclusion.headline
    assert any("chosen by these same questions" in sentence for sentence in conclusion.sentences)
    assert not any("these same questions" in sentence for sentence in concluded(EVOLVED, [ONE_SENTENCE]).sentences)


def test_a_saving_within_the_noise_is_said_to_be_within_it() -> None:
    noise = noise_floor([[100, 200], [110, 240], [80, 190]], [[True, True], [True, False], [True, True]])
    loud = conclude(PLAIN, system("evolved 1", "evolved", 0.95), [], MARGIN, seed=7, noise=noise)
    assert loud.sentences[-1].endswith("the difference in tokens is within that.")
    calm = conclude(PLAIN, EVOLVED, [], MARGIN, seed=7, noise=noise)
    assert calm.sentences[-1].endswith("the difference in tokens is above that.")


def test_a_much_longer_prompt_does_not_do_as_well_by_having_more_right() -> None:
    conclusion = concluded(EVOLVED, [system("show the steps", "prompt", 0.95, gained=20, seed=5)])
    assert conclusion.outcome == "win"
    assert not conclusion.pairs[1].is_better


def test_many_rivals_raise_what_has_to_be_shown_against_each_of_them_but_not_against_the_plain_model() -> None:
    best = system("evolved 1", "evolved", 0.4, lost=2)
    alone = concluded(best, [ONE_SENTENCE])
    crowd = [system(f"prompt {i}", "prompt", 0.95, seed=10 + i) for i in range(20)]
    among_many = concluded(best, [ONE_SENTENCE, *crowd])
    assert among_many.pairs[0] == alone.pairs[0]
    assert among_many.pairs[1].better_p > alone.pairs[1].better_p


def test_systems_without_a_common_question_or_set_are_refused() -> None:
    other = replace(EVOLVED, test=Measurement(("elsewhere",), (1,), (True,), 1.0))
    with pytest.raises(ValueError, match="not asked one question in common"):
        concluded(other)
    with pytest.raises(ValueError, match="not measured on the same set"):
        concluded(replace(EVOLVED, validation=None, test=None))


def test_a_prompt_of_the_same_length_that_is_right_less_often_does_not_do_as_well() -> None:
    # given a prompt that is shorter by a hair, which is not shown, and loses nothing
    more_right = system("evolved 1", "evolved", 0.6, gained=20, seed=4)
    against_sentence = concluded(more_right, [ONE_SENTENCE]).pairs[1]
    assert not against_sentence.is_shorter and against_sentence.is_more_right
    assert concluded(more_right, [ONE_SENTENCE]).outcome == "not_shown"
    # when its answers are exactly as long, then the vector wins by its right answers
    equal = system("one sentence", "prompt", 0.6, seed=4)
    assert concluded(more_right, [equal]).outcome == "win"


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
        assert conclusion.headline.startswith("The evolved vector shortens")
    elif conclusion.outcome == "prompt_suffices":
        assert conclusion.headline.startswith("A sentence is enough")
    else:
        assert "shortens the answers" not in conclusion.headline


def test_with_a_margin_of_nothing_a_vector_wins_by_more_right_answers_alone() -> None:
    as_right = conclude(PLAIN, EVOLVED, [], 0.0, seed=7)
    assert as_right.outcome == "not_shown"
    assert "any loss is not excluded" in as_right.sentences[1]
    assert "With a margin of 0 a win needs more right answers than the plain model has." in as_right.sentences
    better = conclude(PLAIN, system("evolved 1", "evolved", 0.4, gained=30), [], 0.0, seed=7)
    assert better.outcome == "win"
    assert better.headline.endswith("and loses no right answers.")
    assert conclude(PLAIN, EVOLVED, [], 1.0, seed=7).outcome == "not_shown"
