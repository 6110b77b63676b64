"""Which system wins on the validation set."""

from __future__ import annotations

from dataclasses import replace

from measured_systems import system

from orchestrator.runs.winner import choose_winner

START = system("start", "evolved", 0.5, seed=7)


def test_the_highest_fitness_wins() -> None:
    lossy, good = system("a", "evolved", 0.4, lost=90), system("b", "evolved", 0.4, seed=8)
    assert choose_winner([lossy, good], []) is good
    assert choose_winner([lossy, good], [START]) is good
    assert choose_winner([lossy], [system("long", "evolved", 0.9), START]) is START


def test_of_equals_no_vector_wins_and_else_the_start() -> None:
    zero = replace(START, name="zero", deltas=(0.0, 0.0))
    assert choose_winner([START, zero], []) is zero
    assert choose_winner([replace(START, name="g0_pop0")], [START]) is START


def test_repeats_are_averaged() -> None:
    # given a finalist that is short once, and long when it is measured again
    good, long = system("b", "evolved", 0.4, seed=8), system("long", "evolved", 0.9).validation
    assert long is not None
    assert choose_winner([replace(good, repeats=(long, long))], [START]) is START


def test_what_was_not_measured_does_not_win() -> None:
    assert choose_winner([replace(START, name="stopped", validation=None)], [START]) is START
