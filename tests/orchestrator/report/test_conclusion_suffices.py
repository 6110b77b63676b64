"""What a report says where a sentence, or a vector without search, does as well as the evolved vector or has won."""

from __future__ import annotations

from dataclasses import replace

from concluded_systems import concluded
from measured_systems import EVOLVED, ONE_SENTENCE, PLAIN, measurement, system


def test_a_prompt_that_does_as_well_is_named_in_the_first_sentence() -> None:
    conclusion = concluded(system("evolved 1", "evolved", 0.6), [ONE_SENTENCE])

    assert (conclusion.outcome, conclusion.rival) == ("prompt_suffices", "one sentence")
    assert conclusion.headline.startswith('A sentence is enough: the system prompt "one sentence" does as well')


def test_a_vector_without_search_takes_the_win_as_well() -> None:
    conclusion = concluded(EVOLVED, [system("end of turn alone", "vector", 0.3, seed=4)])
    assert conclusion.outcome == "vector_suffices"
    assert conclusion.headline.startswith('A search is not needed: "end of turn alone"')


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
