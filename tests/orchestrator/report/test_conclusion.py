"""What a report may claim: the vector wins only where the figures support it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_systems import EVOLVED, ONE_SENTENCE, PLAIN, SHORT_BUT_WRONG, measurement, system

from orchestrator.report.conclusion import Conclusion, conclude
from orchestrator.report.inference import noise_floor
from orchestrator.report.systems import MeasuredSystem, Measurement

MARGIN = 0.03


def concluded(best: MeasuredSystem, rivals: Sequence[MeasuredSystem] = (), plain: MeasuredSystem = PLAIN) -> Conclusion:
    return conclude(plain, best, rivals, MARGIN, seed=7)


def test_a_shorter_vector_that_loses_nothing_wins() -> None:
    conclusion = concluded(EVOLVED, [ONE_SENTENCE, SHORT_BUT_WRONG])

    assert (conclusion.outcome, conclusion.rival) == ("win", None)
    assert conclusion.headline.startswith("The evolved vector shortens the answers by 60")
    assert "on 300 test questions and loses less than 3 points" in conclusion.headline
    assert [pair.is_better for pair in conclusion.pairs] == [True, True, False]
    assert '"final answer only" is shorter still, but not shown to keep as many right' in " ".join(conclusion.sentences)
    assert "beats 1 of 2 rivals" in " ".join(conclusion.sentences)


def test_a_prompt_that_does_as_well_is_named_in_the_first_sentence() -> None:
    conclusion = concluded(system("evolved 1", "evolved", 0.6), [ONE_SENTENCE])

    assert (conclusion.outcome, conclusion.rival) == ("prompt_suffices", "one sentence")
    assert conclusion.headline.startswith('A sentence is enough: the system prompt "one sentence" does as well')


def test_a_vector_without_search_takes_the_win_as_well() -> None:
    conclusion = concluded(EVOLVED, [system("end of turn alone", "vector", 0.3, seed=4)])
    assert conclusion.outcome == "vector_suffices"
    assert conclusion.headline.startswith('A search is not needed: "end of turn alone"')


def test_a_prompt_that_loses_right_answers_takes_nothing_away() -> None:
    assert concluded(EVOLVED, [SHORT_BUT_WRONG]).outcome == "win"


def test_a_vector_that_loses_a_few_right_answers_has_shown_nothing() -> None:
    best = system("evolved 1", "evolved", 0.4, lost=9, gained=4)
    conclusion = concluded(best)

    assert conclusion.outcome == "not_shown"
    assert conclusion.headline.startswith("It is not shown that the evolved vector is better than the plain model: ")
    assert "200 -> 195 of 300 right on the test set" in conclusion.headline
    assert "a loss of 3 points is not excluded" in conclusion.sentences[1]
    assert any("questions are needed" in sentence for sentence in conclusion.sentences)


def test_a_winner_that_is_worse_than_the_plain_model_is_said_to_be_so_first() -> None:
    conclusion = concluded(system("evolved 1", "evolved", 0.6, lost=40))
    assert conclusion.outcome == "worse"
    assert conclusion.headline.startswith("The evolved vector is worse than the plain model: ")
    assert conclusion.headline.endswith("200 -> 160 of 300 right on the test set.")

    longer = concluded(system("evolved 1", "evolved", 1.2))
    assert longer.outcome == "worse"


def test_where_the_vector_is_worse_a_prompt_that_is_better_is_recommended() -> None:
    conclusion = concluded(system("evolved 1", "evolved", 0.6, lost=40), [ONE_SENTENCE, SHORT_BUT_WRONG])
    assert conclusion.outcome == "worse"
    assert conclusion.sentences[1].startswith('The system prompt "one sentence" is better than the plain model')


def test_a_sentence_with_as_few_tokens_and_as_many_right_is_named_first_even_where_nothing_is_shown() -> None:
    # given so few questions that no loss can be excluded, and a prompt that equals the vector
    plain = system("none", "plain", 1.0, seed=0, count=16)
    best = system("evolved 1", "evolved", 0.5, count=16, seed=4)
    prompt = replace(best, name="concise", kind="prompt", deltas=())
    # when and then
    conclusion = concluded(best, [prompt], plain)
    assert conclusion.outcome == "not_shown"
    assert conclusion.headline.startswith('A sentence, the system prompt "concise", does as well as the evolved vector')
    assert "It is not shown that the evolved vector is better than the plain model." in conclusion.headline


def test_a_vector_without_search_that_has_won_itself_is_said_to_have_won() -> None:
    # given a winner that is what the search started from
    raised = replace(system("end of turn alone", "vector", 0.4), deltas=(11.0, 0.0))
    # when
    conclusion = concluded(raised, [ONE_SENTENCE, raised])
    # then
    assert (conclusion.outcome, conclusion.rival) == ("vector_suffices", None)
    assert conclusion.headline.startswith(
        'A search is not needed: "end of turn alone" (raised by 11) won: no evolved vector was shown to be better '
        "on the validation set (against the plain model 192.3 -> 76.5 tokens, 200 -> 200 of 300 right on the test set)."
    )
    assert "the evolved vector" not in " ".join(conclusion.sentences)
    # and it is not counted among its own rivals
    assert [pair.against for pair in conclusion.pairs] == ["none", "one sentence"]
    assert "It beats 1 of 1 rivals" in " ".join(conclusion.sentences)
    # when a shorter prompt does as well, then that is said first
    shorter = replace(ONE_SENTENCE, test=measurement(0.3, seed=2))
    conclusion = concluded(raised, [shorter, raised])
    assert (conclusion.outcome, conclusion.rival) == ("prompt_suffices", "one sentence")
    assert conclusion.headline.startswith(
        'A sentence is enough: the system prompt "one sentence" does as well as the winner'
    )


def test_an_evolved_vector_that_is_one_without_search_is_not_compared_with_that_one() -> None:
    raised = replace(system("end of turn alone", "vector", 0.4), deltas=(11.0, 0.0))
    conclusion = concluded(replace(raised, name="g0_pop0", kind="evolved"), [ONE_SENTENCE, raised])
    assert [pair.against for pair in conclusion.pairs] == ["none", "one sentence"]
    assert conclusion.headline.startswith('A search is not needed: "end of turn alone" (raised by 11) won')


def test_a_start_that_has_won_and_is_not_shown_to_be_better_than_the_plain_model_is_said_to_have_won() -> None:
    raised = replace(system("log-odds alone", "vector", 0.4, lost=9, gained=4), deltas=(0.5, -1.0))
    conclusion = concluded(raised, [raised])
    assert conclusion.outcome == "not_shown"
    won, shown = conclusion.headline.split(". ", 1)
    assert won == '"log-odds alone" won: no evolved vector was shown to be better on the validation set'
    assert shown.startswith("Nor is it shown to be better than the plain model: ")
    assert conclusion.headline.endswith("200 -> 195 of 300 right on the test set.")


def test_a_prompt_from_which_the_search_started_and_which_has_won_is_a_sentence_that_is_enough() -> None:
    winner = replace(ONE_SENTENCE, deltas=(0.0, 0.0))
    conclusion = concluded(winner, [winner])
    assert (conclusion.outcome, conclusion.rival) == ("prompt_suffices", None)
    assert conclusion.headline.startswith('A sentence is enough: the system prompt "one sentence" won: no evolved')


def test_a_start_that_has_won_and_is_worse_is_named_in_the_second_sentence() -> None:
    raised = replace(system("end of turn alone", "vector", 0.6, lost=40), deltas=(0.0, 4.0))
    conclusion = concluded(raised, [raised])
    assert conclusion.headline.startswith("The winner is worse than the plain model: ")
    assert conclusion.sentences[1].startswith(
        'The winner is "end of turn alone" (raised by 4): no evolved vector was shown to be better on the validation'
    )


def test_the_plain_model_that_has_won_is_named() -> None:
    winner = replace(PLAIN, deltas=(0.0, 0.0))
    conclusion = concluded(winner, plain=winner)
    assert conclusion.headline.startswith("It is not shown that the winner is better than the plain model: ")
    assert conclusion.sentences[1].startswith("The winner is the plain model: no evolved vector was shown to be better")


def test_a_prompt_that_saves_nothing_is_not_said_to_be_enough() -> None:
    # given a vector that changes nothing, beside a prompt that changes nothing
    best = system("evolved 1", "evolved", 1.0, seed=4)
    conclusion = concluded(best, [system("no filler", "prompt", 1.01, seed=5)])
    assert conclusion.outcome == "not_shown"
    assert "A sentence is enough" not in conclusion.headline


def test_too_few_questions_show_nothing_though_nothing_was_lost() -> None:
    few = system("none", "plain", 1.0, seed=0, count=16), system("evolved 1", "evolved", 0.4, count=16)
    conclusion = concluded(few[1], [], few[0])
    assert conclusion.outcome == "not_shown"
    assert conclusion.smallest_visible_loss > 0.3
    assert "With 16 questions, a true loss under 3" in conclusion.sentences[-1]


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


def test_a_prompt_that_was_stopped_is_compared_on_the_questions_that_it_was_asked() -> None:
    part = measurement(0.6, lost=12, count=40)
    stopped = MeasuredSystem("50 words", "prompt", "Use at most 50 words.", validation=part, is_stopped=True)
    plain, best = replace(PLAIN, test=None), replace(EVOLVED, test=None)
    conclusion = concluded(best, [stopped, ONE_SENTENCE], plain)
    assert [pair.change.count for pair in conclusion.pairs] == [300, 40, 300]
    # and it is not a rival on a test set that it was not asked
    assert [pair.against for pair in concluded(EVOLVED, [stopped, ONE_SENTENCE]).pairs] == ["none", "one sentence"]


def test_a_stopped_prompt_takes_no_win_away_by_a_lucky_start() -> None:
    lucky = MeasuredSystem("lucky", "prompt", "", validation=measurement(0.1, gained=2, count=12), is_stopped=True)
    plain, best = replace(PLAIN, test=None), replace(EVOLVED, test=None)
    assert concluded(best, [lucky], plain).outcome == "win"


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


def test_a_shorter_prompt_is_not_beaten_because_its_harmlessness_could_not_be_shown() -> None:
    # given 100 questions, on which one lost answer and one gained are too many to exclude a loss of 3 points
    plain, best = system("none", "plain", 1.0, seed=0, count=100), system("evolved 1", "evolved", 0.6, count=100)
    prompt = system("one sentence", "prompt", 0.55, lost=1, seed=2, count=100)
    assert concluded(best, [], plain).outcome == "win"
    # when and then
    conclusion = concluded(best, [prompt], plain)
    assert conclusion.outcome == "not_shown"
    assert conclusion.headline.startswith(
        'It is not shown that the evolved vector is better than the system prompt "one sentence"'
    )


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


@pytest.mark.parametrize("right", [0, 3])
def test_a_model_that_is_hardly_ever_right_has_nothing_by_which_a_vector_could_win(right: int) -> None:
    # given a plain model with so few right answers that a vector may lose all of them within the margin
    examples = tuple(f"q{index}" for index in range(600))
    verbose = Measurement(examples, (50,) * 600, tuple(index < right for index in range(600)), 0.4)
    empty = Measurement(examples, (0,) * 600, (False,) * 600, 0.6)
    plain = MeasuredSystem("none", "plain", "", (), verbose, verbose)
    best = MeasuredSystem("evolved 1", "evolved", "", (1.0,), empty, empty)
    # when
    conclusion = concluded(best, [MeasuredSystem("end of turn alone", "vector", "", (6.0,), empty, empty)], plain)
    # then
    assert conclusion.outcome == "not_shown"
    assert conclusion.headline.startswith(f"The plain model has {right} of 600 right on the test set, no more than the")
    # and where the vector is longer, no rival is recommended for losing nothing
    long = replace(verbose, tokens=(90,) * 600)
    worse = concluded(replace(best, validation=long, test=long), [replace(best, name="eot", kind="vector")], plain)
    assert worse.outcome == "worse" and not any("is better than the plain" in one for one in worse.sentences[1:])


@pytest.mark.parametrize("count", [1, 4])
def test_a_handful_of_questions_shows_neither_a_win_nor_that_the_vector_is_worse(count: int) -> None:
    plain = system("none", "plain", 1.0, seed=0, count=count)
    for factor in (0.3, 3.0):
        conclusion = concluded(system("evolved 1", "evolved", factor, seed=4, count=count), [], plain)
        assert conclusion.outcome == "not_shown"


def test_with_a_margin_of_nothing_a_vector_wins_by_more_right_answers_alone() -> None:
    as_right = conclude(PLAIN, EVOLVED, [], 0.0, seed=7)
    assert as_right.outcome == "not_shown"
    assert "any loss is not excluded" in as_right.sentences[1]
    assert "With a margin of 0 a win needs more right answers than the plain model has." in as_right.sentences
    better = conclude(PLAIN, system("evolved 1", "evolved", 0.4, gained=30), [], 0.0, seed=7)
    assert better.outcome == "win"
    assert better.headline.endswith("and loses no right answers.")
    assert conclude(PLAIN, EVOLVED, [], 1.0, seed=7).outcome == "not_shown"
