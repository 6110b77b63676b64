"""Which system wins on the validation set: the start, unless a finalist is shown to be better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from measured_systems import PLAIN, system

from orchestrator.report.inference import LEVEL
from orchestrator.report.systems import MeasuredSystem, Measurement
from orchestrator.runs.superiority import Answered, share_better
from orchestrator.runs.winner import choose_winner
from tasks.models import Constrained

REFERENCE = PLAIN.validation
assert REFERENCE is not None
OBJECTIVE = Constrained(REFERENCE.mean_tokens, REFERENCE.right / len(REFERENCE.correct))
START = system("start", "evolved", 0.5, seed=7)


def winner(finalists: list[MeasuredSystem], start: MeasuredSystem | None) -> MeasuredSystem:
    assert REFERENCE is not None
    return choose_winner(finalists, start, REFERENCE, OBJECTIVE, seed=1)


def share(one: MeasuredSystem, other: MeasuredSystem) -> float:
    """In which share of the resamples the first system is the better one."""

    def answered(given: Sequence[Measurement | None]) -> Answered:
        assert REFERENCE is not None
        ordered = [measured.on(REFERENCE.examples) for measured in given if measured is not None]
        return Answered.of([(measured.tokens, measured.correct) for measured in ordered])

    ours, theirs = (answered((system.validation, *system.repeats)) for system in (one, other))
    return share_better(ours, theirs, answered([REFERENCE]), OBJECTIVE, seed=1)


def test_a_finalist_that_is_surely_better_wins_over_the_start() -> None:
    good = system("b", "evolved", 0.4, seed=8)
    assert share(good, START) > 0.999
    assert winner([system("a", "evolved", 0.45), good], START) is good


def test_a_finalist_that_may_only_have_been_lucky_does_not() -> None:
    # given a finalist with a higher fitness: two more right answers, of which it has lost and gained many
    lucky = system("lucky", "evolved", 0.5, lost=20, gained=22, seed=7)
    assert lucky.validation is not None and START.validation is not None
    assert lucky.validation.fitness > START.validation.fitness
    # when and then
    assert 0.5 < share(lucky, START) < LEVEL
    assert winner([lucky], START) is START
    assert winner([lucky], None) is lucky


def test_a_finalist_that_equals_the_start_leaves_it_the_start() -> None:
    assert winner([replace(START, name="g0_pop0")], START) is START


def test_of_more_finalists_one_is_sooner_lucky() -> None:
    # given a finalist that is better in a share of resamples that is enough for one, and not for the best of eight
    found = next(
        one
        for one in (system(f"{n}", "evolved", 0.5, lost=20, gained=20 + n, seed=7) for n in range(2, 60))
        if LEVEL < share(one, START) < 1 - (1 - LEVEL) / 8
    )
    others = [system(f"worse {i}", "evolved", 0.9, lost=60) for i in range(7)]
    assert winner([found], START) is found
    assert winner([found, *others], START) is START


def test_measurements_are_paired_by_question_and_repeats_are_averaged() -> None:
    good = system("b", "evolved", 0.4, seed=8)
    turned = replace(good, validation=reversed_order(good.validation))
    assert share(turned, START) == share(good, START)
    # given a finalist that is short once, and long when it is measured again
    assert good.validation is not None
    long = system("long", "evolved", 0.9).validation
    assert long is not None
    assert share(replace(good, repeats=(long, long)), START) < 0.01


def reversed_order(given: Measurement | None) -> Measurement:
    assert given is not None
    return given.on(given.examples[::-1])
