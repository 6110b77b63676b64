"""The pictures of a `route` run."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.cpu.plots.routed import bands_png, hack_solve_png


def rate(deployed: str, solve: float, hack: float, trajectory: str = "shared") -> dict[str, Any]:
    return {"trajectory": trajectory, "deployed": deployed, "quarantine": "off", "solve": solve, "hack": hack}


RATES = [rate("none", 0.1, 0.9), rate("untrained", 0.4, 0.1), rate("real", 0.5, 0.1), rate("erase", 0.3, 0.2, "erase")]
BAND = {"lower": -0.2, "upper": 0.4}
ROWS = [
    {"step": 0, "splits": {"real": {**BAND, "x_p10": -0.1, "x_p50": 0.0, "x_p90": 0.3}}},
    {"step": 1, "splits": {"real": {"x_p10": -0.1, "x_p50": None, "x_p90": 0.2}}},
]


@pytest.mark.parametrize("draw", [lambda: hack_solve_png(RATES, "B"), lambda: bands_png({"shared_seed0": ROWS})])
def test_equal_data_give_equal_pictures(draw: Any) -> None:
    assert draw().startswith(b"\x89PNG") and draw() == draw()


def test_other_data_give_other_pictures() -> None:
    assert hack_solve_png(RATES, "B") != hack_solve_png([*RATES[:2], rate("real", 0.5, 0.3)], "B")
    assert bands_png({"a": ROWS}) != bands_png({"a": ROWS[:1]})


def test_a_run_without_figures_has_pictures_that_say_so() -> None:
    for data in (
        hack_solve_png([], "B"),
        bands_png({}),
        bands_png({"a": []}),
        bands_png({"a": [{"step": 0, "splits": {}}]}),
    ):
        assert data.startswith(b"\x89PNG")
