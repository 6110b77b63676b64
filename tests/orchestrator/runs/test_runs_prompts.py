"""Prompts that ask for short answers: which one the search starts from."""

from __future__ import annotations

from collections.abc import Sequence

from simulated_measurer import SimulatedMeasurer

from orchestrator.report.systems import MeasuredSystem, Measurement
from orchestrator.runs.prompts import (
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


def test_each_prompt_answers_the_whole_set_in_one_plan() -> None:
    measurer = SimulatedMeasurer(respond, validation=80)
    systems = prompt_systems(PROMPTS, measure_prompts(measurer, PROMPTS, "validation"), OBJECTIVE)
    assert len(measurer.asked) == 1 and measurer.evaluations == Evaluations(computed=11)
    assert [system.name for system in systems] == list(PROMPTS)
    assert [system.kind for system in systems] == ["plain"] + ["prompt"] * 10
    assert {len(system.validation.examples) for system in systems if system.validation} == {80}


def system(name: str, tokens: int, right: int) -> MeasuredSystem:
    asked = tuple(f"q{number}" for number in range(100))
    result = Measurement(asked, (tokens,) * 100, tuple(number < right for number in range(100)), 0.5)
    return MeasuredSystem(name, "plain" if name == "none" else "prompt", name, validation=result)


PLAIN = system("none", 100, 60)


def test_the_lossless_prompts_lose_no_more_than_the_margin_shortest_first() -> None:
    systems = [PLAIN, system("two", 50, 58), system("three", 40, 57), system("four", 30, 56)]

    def names(systems: Sequence[MeasuredSystem], margin: float) -> list[str]:
        return [system.name for system in lossless_prompts(systems, margin)]

    assert names(systems, 0.03) == ["three", "two", "none"]
    assert names(systems, 0.0) == ["none"]


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
