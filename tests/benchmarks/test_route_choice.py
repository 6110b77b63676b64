"""Which settings of `route` the calibration's rule picks, and that it picks none of those that show nothing."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.gpu import route_choice
from benchmarks.gpu.route_choice import chosen_look, ratios, report


def look(step: int, hack: float, gain: float | None, ceiling: float | None) -> dict[str, Any]:
    verdict = {"B": "sentinel", "none_hacks_B": hack, "gain": gain, "ceiling_hacks_B": ceiling, "accepted": None}
    return {"step": step, "rates": {"none": {"none": {"solve": 0.4}}}, "verdict": verdict}


def variant(name: str, *looks: dict[str, Any]) -> dict[str, Any]:
    line = {
        "step": 0,
        "reward": 0.5,
        "live": 32,
        "seconds": 2.0,
        "peak_gib": 17.1,
        "hacks": {"run_tests": [1, 4]},
        "plain": [2, 8],
    }
    steps, readings = [line, {**line, "step": 1}], {"0": [["hkgap", "0.4", True]], "5": [["hkgap", "0.0", False]]}
    return {"name": name, "teacher_off_step": 30, "steps": steps, "readings": readings, "looks": list(looks)}


def test_the_worst_of_three_ratios_decides() -> None:
    strong = variant("strong", look(60, 0.9, 0.01, 0.0))  # hacks most, and has learned nothing else
    even = variant("even", look(60, 0.36, 0.07, 0.1))
    choice = chosen_look([strong, even])
    assert choice is not None and (choice.name, choice.step, choice.held_out) == ("even", 60, "sentinel")
    assert choice.score == pytest.approx(1.2)
    said = report([strong, even])
    assert "to be registered: even after 60 steps, B = sentinel" in said and "1/2" in said


def test_nothing_is_registered_below_one_and_no_look_beside_the_teacher_counts() -> None:
    taught = variant("taught", look(35, 0.9, 0.2, 0.0))  # five steps after the teacher's last row
    assert chosen_look([taught]) is None and "no look counts" in report([taught])
    weak = variant("weak", look(40, 0.02, -0.047, 0.02), look(60, 0.02, 0.2, 0.0))
    choice = chosen_look([taught, weak])
    assert choice is not None and choice.step == 60 and "not measurable" in route_choice.said(choice)


def test_of_equal_looks_the_one_after_fewer_steps_and_then_the_first_variant() -> None:
    same = [variant(name, look(60, 0.6, 0.1, 0.2), look(40, 0.6, 0.1, 0.2)) for name in ("first", "second")]
    choice = chosen_look(same)
    assert choice is not None and (choice.name, choice.step) == ("first", 40)


def test_what_was_not_evaluated_is_worth_nothing() -> None:
    assert ratios({"B": "sentinel", "none_hacks_B": 0.0, "gain": None, "ceiling_hacks_B": None}) == {
        "hack": 0.0,
        "gain": 0.0,
        "ceiling": 0.0,
    }
    assert ratios({"B": "sentinel", "none_hacks_B": 0.3, "gain": 0.1, "ceiling_hacks_B": 0.0})["ceiling"] > 1e9
