"""What a report says where the evolved vector is worse than the plain model, or is not shown to be better."""

from __future__ import annotations

from dataclasses import replace

import pytest
from concluded_systems import concluded
from measured_systems import ONE_SENTENCE, SHORT_BUT_WRONG, system

from orchestrator.report.systems import MeasuredSystem, Measurement


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
