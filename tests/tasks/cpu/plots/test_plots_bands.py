"""The plot of live x against the band: the trainings that decide come first, and nothing is left out in silence."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from tasks.cpu.plots.bands import bands_figure, bands_png

BAND = {"lower": -0.2, "upper": 0.4}
LIVE = {"x_p10": -0.1, "x_p50": 0.0, "x_p90": 0.3}
ROWS = [
    {"step": 0, "splits": {"activations": {**BAND, **LIVE}, "real": {**BAND, **LIVE}}},
    {"step": 1, "splits": {"real": {"x_p10": -0.1, "x_p50": None, "x_p90": 0.2}}},
]
WITHOUT_X = [{"step": 0, "splits": {"erase": dict(BAND)}}, {"step": 1, "splits": {"erase": {}}}]
WITHOUT_SPLITS: list[dict[str, Any]] = [{"step": 0, "splits": {}}]


def titles(figure: Figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


def run(trajectories: dict[str, list[dict[str, Any]]], seeds: int) -> dict[str, list[dict[str, Any]]]:
    return {f"{name}_seed{seed}": rows for name, rows in trajectories.items() for seed in range(seeds)}


def test_shared_comes_first_and_then_the_order_of_the_run() -> None:
    figure = bands_figure(run({"own": ROWS, "erase": WITHOUT_X, "shared": ROWS, "ablated": ROWS}, 1))
    assert titles(figure) == ["shared_seed0: x of real", "own_seed0: x of real", "ablated_seed0: x of real"]


def test_trainings_without_a_live_x_are_left_out_and_counted() -> None:
    figure = bands_figure(run({"shared": ROWS, "plain": WITHOUT_SPLITS, "erase": WITHOUT_X}, 3))
    assert len(figure.axes) == 3
    assert figure.get_supxlabel() == "Not shown: 6 trainings without a live x (plain, erase)."


def test_equal_rows_give_equal_pictures_and_other_rows_others() -> None:
    png = bands_png({"shared_seed0": ROWS})
    assert png.startswith(b"\x89PNG") and png == bands_png({"shared_seed0": ROWS})
    assert png != bands_png({"shared_seed0": ROWS[:1]})
