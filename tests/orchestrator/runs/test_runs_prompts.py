"""Prompts that ask for short answers: which of them stop early, and which one the search starts from."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from simulated_measurer import SimulatedMeasurer

from orchestrator.report.systems import MeasuredSystem, Measurement
from orchestrator.runs.prompts import (
    PromptRace,
    halving_rungs,
    lossless_prompts,
    measure_prompts,
    prompt_systems,
    shortest_near_best,
)
from tasks.models import Fitness
from tasks.plan import Candidate, Evaluations

PROMPTS = {"none": "Answer."} | {f"p{number}": f"Answer. {number}" for number in range(10)}
OBJECTIVE = Fitness(0.4, 0.6, 50)


def respond(candidate: Candidate, number: int) -> tuple[int, bool]:
    """The prompts with the higher number are shorter; the last one is always wrong."""
    name = (candidate.system_prompt or "").removeprefix("Answer. ")
    return (100, True) if name == "Answer." else (95 - 9 * int(name), name != "9")


def race(*, is_raced: bool = True, complete: tuple[str, ...] = ("none",)) -> PromptRace:
    return PromptRace(PROMPTS, "validation", 0.03, is_raced, frozenset(complete))


def answered(is_raced: bool = True, complete: tuple[str, ...] = ("none",)) -> tuple[SimulatedMeasurer, dict[str, int]]:
    measurer = SimulatedMeasurer(respond, validation=80)
    answers = measure_prompts(measurer, race(is_raced=is_raced, complete=complete))
    return measurer, {name: len(given) for name, given in answers.items()}


def test_half_of_the_prompts_stop_at_each_rung_and_the_plain_one_never_does() -> None:
    measurer, counts = answered()
    assert [(name, len(candidates)) for name, candidates in measurer.asked] == [
        ("prompts0_", 11), ("prompts1_", 6), ("prompts2_", 5),
    ]  # fmt: skip
    # The last one is the shortest and loses everything; of the others the four shortest answer everything
    assert counts == {
        "none": 80, "p0": 20, "p1": 20, "p2": 20, "p3": 20, "p4": 40, "p5": 80, "p6": 80, "p7": 80, "p8": 80, "p9": 20,
    }  # fmt: skip
    assert measurer.evaluations == Evaluations(computed=11), "each prompt is one evaluation"


def test_in_a_rung_all_are_asked_the_same_questions() -> None:
    measurer = SimulatedMeasurer(respond, validation=80)
    answers = measure_prompts(measurer, race())
    assert len({tuple(a.example for a in answers[name]) for name in ("p0", "p1", "p2", "p9")}) == 1


def test_without_a_race_all_answer_everything_in_one_plan() -> None:
    measurer, counts = answered(is_raced=False)
    assert set(counts.values()) == {80} and len(measurer.asked) == 1


def test_a_prompt_that_the_search_has_started_from_answers_everything() -> None:
    assert answered(complete=("none", "p9"))[1]["p9"] == 80


@pytest.mark.parametrize(
    ("count", "rungs"),
    [(160, (20, 40, 80, 160)), (64, (16, 32, 64)), (32, (8, 16, 32)), (12, (12,)), (1, (1,))],
)
def test_a_rung_has_an_eighth_a_quarter_or_half_of_the_questions_but_not_too_few(
    count: int, rungs: tuple[int, ...]
) -> None:
    assert halving_rungs(count) == rungs


def test_the_systems_say_who_stopped() -> None:
    measurer = SimulatedMeasurer(respond, validation=80)
    systems = prompt_systems(race(), measure_prompts(measurer, race()), OBJECTIVE)
    assert [system.name for system in systems] == list(PROMPTS)
    assert [system.kind for system in systems] == ["plain"] + ["prompt"] * 10
    assert {system.name for system in systems if not system.is_stopped} == {"none", "p5", "p6", "p7", "p8"}
    assert systems[3].system_prompt == "Answer. 2"


def system(name: str, tokens: int, right: int, *, is_stopped: bool = False) -> MeasuredSystem:
    asked = tuple(f"q{number}" for number in range(100))
    result = Measurement(asked, (tokens,) * 100, tuple(number < right for number in range(100)), 0.5)
    return MeasuredSystem(name, "plain" if name == "none" else "prompt", name, validation=result, is_stopped=is_stopped)


PLAIN = system("none", 100, 60)


def test_the_lossless_prompts_lose_no_more_than_the_margin_shortest_first() -> None:
    systems = [PLAIN, system("two", 50, 58), system("three", 40, 57), system("four", 30, 56)]

    def names(systems: Sequence[MeasuredSystem], margin: float) -> list[str]:
        return [system.name for system in lossless_prompts(systems, margin)]

    assert names(systems, 0.03) == ["three", "two", "none"]
    assert names(systems, 0.0) == ["none"]
    assert names([*systems, system("stopped", 10, 60, is_stopped=True)], 0.03)[0] == "three"


def test_a_prompt_that_is_longer_or_as_long_is_not_better_than_the_plain_one() -> None:
    found = lossless_prompts([PLAIN, system("longer", 101, 90), system("equal", 100, 60)], 0.03)
    assert [system.name for system in found] == ["none", "equal", "longer"]


def chosen(*systems: MeasuredSystem, margin: float = 0.03) -> str:
    """Which one two equal sets of questions choose."""
    measured = {one.name: one.validation for one in systems}
    return shortest_near_best({name: [one, one] for name, one in measured.items() if one is not None}, margin)


def test_the_start_is_the_shortest_prompt_that_is_as_good_as_the_best_but_for_the_margin() -> None:
    others = [system("two", 50, 60), system("three", 40, 57), system("four", 30, 56)]
    assert chosen(PLAIN, *others) == "three"
    assert chosen(PLAIN, *others, margin=0.0) == "two"
    assert chosen(PLAIN, *others, margin=0.04) == "four"


def test_a_prompt_that_loses_nothing_against_the_plain_one_alone_may_lose_much_against_another() -> None:
    assert chosen(PLAIN, system("lucky", 30, 60), system("good", 50, 66)) == "good"


def test_a_prompt_that_is_longer_or_as_long_is_neither_chosen_nor_compared_with() -> None:
    assert chosen(PLAIN, system("longer", 101, 90), system("equal", 100, 80)) == "none"
    assert chosen(PLAIN, system("longer", 101, 90), system("short", 50, 60)) == "short"
    assert chosen(PLAIN, system("short", 50, 50)) == "none"


def test_the_sets_count_together() -> None:
    def part(name: str, tokens: int, *right: int) -> list[Measurement]:
        found = [system(name, tokens, one).validation for one in right]
        return [one for one in found if one is not None]

    measured = {"none": part("none", 100, 60, 60), "even": part("even", 50, 60, 58), "luck": part("luck", 30, 63, 50)}
    assert shortest_near_best(measured, 0.03) == "even"
