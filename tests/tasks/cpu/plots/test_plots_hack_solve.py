"""The plot of what a `route` run deploys: every name can be read, and what matters is found at once."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from tasks.cpu.plots import style
from tasks.cpu.plots.hack_solve import hack_solve_figure, hack_solve_png
from tasks.cpu.plots.labels import Box


def rate(deployed: str, solve: float, hack: float, trajectory: str = "shared", quarantine: str = "off") -> dict:
    return {
        "trajectory": trajectory, "deployed": deployed, "quarantine": quarantine, "solve": solve, "hack": hack,
    }  # fmt: skip


RANDOM = [
    rate(f"random_{number}", solve, hack)
    for number, (solve, hack) in enumerate([
        (0.349, 0.419), (0.375, 0.427), (0.344, 0.411), (0.346, 0.430),
        (0.346, 0.414), (0.336, 0.362), (0.365, 0.372), (0.331, 0.427),
    ])
]  # fmt: skip
# The rates of a run of 60 steps and three seeds, where many points are close together.
RATES = [
    rate("real", 0.482, 0.042, "ablated"), rate("real", 0.354, 0.586, "ablated", "on"),
    rate("erase", 0.354, 0.419, "erase"), rate("none", 0.542, 0.026, "plain"), rate("activations", 0.461, 0.0),
    rate("advantage_free", 0.422, 0.297), rate("band_random", 0.378, 0.365), rate("ceiling", 0.448, 0.0),
    rate("none", 0.359, 0.458), rate("permuted", 0.315, 0.375), rate("placebo", 0.391, 0.076),
    rate("pooled", 0.443, 0.312), *RANDOM, rate("real", 0.430, 0.089), rate("scaled_0.25", 0.406, 0.057),
    rate("scaled_0.5", 0.411, 0.229), rate("scaled_0.75", 0.419, 0.349), rate("uniform", 0.372, 0.432),
    rate("untrained", 0.378, 0.018),
]  # fmt: skip
AT_ONE_PLACE = [row | {"solve": 0.0, "hack": 0.0} for row in RATES]


def drawn(rates: list[dict[str, Any]]) -> Axes:
    figure = hack_solve_figure(rates, "sentinel")
    figure.draw_without_rendering()
    return figure.axes[0]


def label_boxes(axes: Axes) -> dict[str, Box]:
    return {text.get_text(): Box(*text.get_window_extent().extents) for text in axes.texts}


def markers(axes: Axes) -> list[Box]:
    found = []
    for line in axes.lines:
        if line.get_marker() in ("None", ""):
            continue
        half = line.get_markersize() * style.DPI / 72 / 2
        for x, y in axes.transData.transform(line.get_xydata()):
            found.append(Box(x - half, y - half, x + half, y + half))
    return found


def line_named(axes: Axes, word: str) -> Line2D:
    [line] = [line for line in axes.lines if word in str(line.get_label())]
    return line


@pytest.mark.parametrize("rates", [RATES, AT_ONE_PLACE], ids=["a real run", "all at one place"])
def test_no_name_covers_another_or_a_point(rates: list[dict[str, Any]]) -> None:
    axes = drawn(rates)
    boxes = label_boxes(axes)
    assert len(boxes) == len(rates) - len(RANDOM)
    assert len(markers(axes)) == len(rates)
    overlapping = [pair for pair in itertools.combinations(boxes, 2) if boxes[pair[0]].overlap(boxes[pair[1]]) > 0]
    assert overlapping == []
    assert [name for name, box in boxes.items() for marker in markers(axes) if box.overlap(marker) > 0] == []


def test_the_random_directions_are_one_group_that_is_named_once() -> None:
    axes = drawn(RATES)
    group = line_named(axes, "random_N")
    assert "8" in str(group.get_label())
    assert sorted(map(tuple, group.get_xydata())) == sorted((row["solve"], row["hack"]) for row in RANDOM)
    assert not any(name.startswith("random_") for name in label_boxes(axes))
    assert "band_random" in label_boxes(axes)


def test_the_line_of_the_unrouted_adapter_goes_by_its_scale() -> None:
    solve = line_named(drawn(RATES), "unrouted").get_xdata()
    assert list(solve) == [0.378, 0.406, 0.411, 0.419, 0.359]


def test_equal_rates_give_equal_pictures_and_other_rates_others() -> None:
    few = RATES[-6:]
    png = hack_solve_png(few, "B")
    assert png.startswith(b"\x89PNG") and png == hack_solve_png(few, "B")
    assert png != hack_solve_png([*few[1:], rate("real", 0.5, 0.3)], "B")
