"""Names beside the points of a plot: off the markers and each other, with a line to what is far."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from tasks.cpu.plots import style
from tasks.cpu.plots.label_texts import Label, draw_labels, fix_layout, line_boxes, marker_box, pixel


@pytest.fixture
def axes() -> Iterator[Axes]:
    figure = Figure(figsize=(6, 4), dpi=style.DPI, layout="constrained")
    drawn = figure.add_subplot()
    drawn.set(xlim=(0, 1), ylim=(0, 1))
    fix_layout(figure)
    yield drawn


def label(text: str, x: float, y: float) -> Label:
    return Label(text, x, y, 5.0, "#000000")


def test_names_of_close_points_cover_no_name_and_no_marker(axes: Axes) -> None:
    labels = [label(f"point {n}", 0.4 + 0.03 * n, 0.5) for n in range(6)]
    draw_labels(axes, labels, [], [])
    found = [text.get_window_extent() for text in axes.texts]
    assert [text.get_text() for text in axes.texts] == [one.text for one in labels]
    assert not any(Bbox.intersection(one, other) for one, other in combinations(found, 2))
    for one in labels:
        box = marker_box(axes, one.x, one.y, one.diameter)
        marker = Bbox.from_extents(box.left, box.bottom, box.right, box.top)
        assert not any(Bbox.intersection(marker, name) for name in found)
    # not all have room beside their point: lines lead to those that are far
    assert axes.lines


def test_a_name_with_room_needs_no_line(axes: Axes) -> None:
    draw_labels(axes, [label("alone", 0.5, 0.5)], [], [])
    assert not axes.lines


def test_boxes_lie_along_a_line_and_around_a_marker(axes: Axes) -> None:
    boxes = line_boxes(axes, [(0.2, 0.2), (0.8, 0.8)])
    start, end = pixel(axes, 0.2, 0.2), pixel(axes, 0.8, 0.8)
    assert boxes[0].left < start[0] < boxes[0].right and boxes[-1].left < end[0] < boxes[-1].right
    gaps = [later.left - earlier.left for earlier, later in pairwise(boxes)]
    assert max(gaps) <= 6.5  # pixels: no name fits between two of them
    square = marker_box(axes, 0.5, 0.5, 7.2)
    assert square.right - square.left == pytest.approx(7.2 * style.DPI / 72)
