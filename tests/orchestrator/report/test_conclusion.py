"""What a report may claim: the vector wins only where the figures support it."""

from __future__ import annotations

import random

import pytest

from orchestrator.report.conclusion import Kind, Measured, conclude
from orchestrator.report.inference import noise_floor

COUNT = 300
RIGHT = tuple(index % 3 > 0 for index in range(COUNT))


def measured(name: str, kind: Kind, factor: float, lost: int = 0, seed: int = 1) -> Measured:
    """`factor` times the plain model's tokens, give or take; the first `lost` right answers are wrong."""
    rng = random.Random(seed)
    base = [60 + 7 * (index % 40) for index in range(COUNT)]
    tokens = tuple(round(factor * value * rng.uniform(0.9, 1.1)) for value in base)
    remaining = lost
    correct = []
    for is_right in RIGHT:
        correct.append(is_right and remaining <= 0)
        remaining -= is_right
    return Measured(name, kind, tokens, tuple(correct))


PLAIN = measured("plain", "plain", 1.0, seed=0)
ONE_SENTENCE = measured("one sentence", "prompt", 0.6, seed=2)
SHORT_BUT_WRONG = measured("final answer only", "prompt", 0.1, lost=60, seed=3)


def test_a_shorter_vector_that_loses_nothing_wins() -> None:
    conclusion = conclude(PLAIN, measured("evolved", "vector", 0.4), [ONE_SENTENCE, SHORT_BUT_WRONG], 0.03, seed=7)

    assert conclusion.outcome == "win"
    assert conclusion.headline.startswith("The evolved vector shortens the answers by 60")
    assert [pair.is_beaten for pair in conclusion.pairs] == [True, True, False]
    assert '"final answer only" is shorter still, but not shown to keep as many right' in " ".join(conclusion.sentences)
    assert "beats 1 of 2 rivals" in " ".join(conclusion.sentences)


def test_a_prompt_that_does_as_well_is_named_in_the_first_sentence() -> None:
    conclusion = conclude(PLAIN, measured("evolved", "vector", 0.6), [ONE_SENTENCE], 0.03, seed=7)

    assert conclusion.outcome == "prompt_suffices"
    assert conclusion.headline.startswith('A sentence is enough: the system prompt "one sentence" does as well')


def test_a_vector_without_search_takes_the_win_as_well() -> None:
    ends = measured("end of turn alone", "vector", 0.3, seed=4)
    conclusion = conclude(PLAIN, measured("evolved", "vector", 0.4), [ends], 0.03, seed=7)
    assert conclusion.outcome == "vector_suffices"
    assert "end of turn alone" in conclusion.headline


def test_a_prompt_that_loses_right_answers_takes_nothing_away() -> None:
    conclusion = conclude(PLAIN, measured("evolved", "vector", 0.4), [SHORT_BUT_WRONG], 0.03, seed=7)
    assert conclusion.outcome == "win"


def test_a_vector_that_loses_right_answers_has_shown_nothing() -> None:
    conclusion = conclude(PLAIN, measured("evolved", "vector", 0.4, lost=12), [], 0.03, seed=7)

    assert conclusion.outcome == "not_shown"
    assert "a loss of 3 points is not excluded" in conclusion.sentences[1]
    assert any("questions are needed" in sentence for sentence in conclusion.sentences)


def test_too_few_questions_show_nothing_though_nothing_was_lost() -> None:
    def first(system: Measured) -> Measured:
        return Measured(system.name, system.kind, system.tokens[:16], system.correct[:16])

    conclusion = conclude(first(PLAIN), first(measured("evolved", "vector", 0.4)), [], 0.03, seed=7)
    assert conclusion.outcome == "not_shown"
    assert conclusion.smallest_visible_loss > 0.3
    assert "With 16 questions, a loss under 3" in conclusion.sentences[-1]


def test_a_saving_within_the_noise_is_said_to_be_within_it() -> None:
    noise = noise_floor([[100, 200], [110, 240], [80, 190]], [[True, True], [True, False], [True, True]])
    loud = conclude(PLAIN, measured("evolved", "vector", 0.95), [], 0.03, seed=7, noise=noise)
    assert loud.sentences[-1].endswith("the difference in tokens is within that.")
    calm = conclude(PLAIN, measured("evolved", "vector", 0.4), [], 0.03, seed=7, noise=noise)
    assert calm.sentences[-1].endswith("the difference in tokens is above that.")


def test_a_much_longer_prompt_does_not_do_as_well_by_having_more_right() -> None:
    gains = measured("show the steps", "prompt", 0.95, seed=5)
    more_right = Measured(gains.name, gains.kind, gains.tokens, tuple(i % 3 > 0 or i < 60 for i in range(COUNT)))
    conclusion = conclude(PLAIN, measured("evolved", "vector", 0.4), [more_right], 0.03, seed=7)
    assert conclusion.outcome == "win"
    assert not conclusion.pairs[1].is_beaten


def test_many_rivals_raise_what_has_to_be_shown_against_each_of_them_but_not_against_the_plain_model() -> None:
    best = measured("evolved", "vector", 0.4, lost=2)
    alone = conclude(PLAIN, best, [ONE_SENTENCE], 0.03, seed=7)
    crowd = [measured(f"prompt {i}", "prompt", 0.95, seed=10 + i) for i in range(20)]
    among_many = conclude(PLAIN, best, [ONE_SENTENCE, *crowd], 0.03, seed=7)
    assert among_many.pairs[0] == alone.pairs[0]
    assert among_many.pairs[1].better_p > alone.pairs[1].better_p


def test_systems_that_were_asked_other_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        conclude(PLAIN, Measured("evolved", "vector", (1, 2), (True, True)), [], 0.03, seed=7)
