"""Names beside the points of a plot, where they cover nothing: `labels.py` finds the places, this draws them.

The places are in pixels, so the layout of the figure is fixed first; nothing may move the axes after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from tasks.cpu.plots import style
from tasks.cpu.plots.labels import LEADER, Box, distance_to, nearest, place_labels

FONT_SIZE = 8.5
STUB = 6.0  # pixels; a shorter line between a marker and its label says nothing


class Label(NamedTuple):
    """The name of the point at (x, y), in the units of the axes; `diameter` of its marker in points."""

    text: str
    x: float
    y: float
    diameter: float
    colour: str
    is_bold: bool = False
    alpha: float = 1.0


def fix_layout(figure: Figure) -> None:
    """Compute the layout and keep it: labels must not move the axes."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def draw_labels(axes: Axes, labels: Sequence[Label], unnamed: Sequence[Box], lines: Sequence[Box]) -> None:
    """Draw each label near its point, off all markers and the other labels; far ones with a line to the point.

    unnamed and lines: markers without a label, and lines, in pixels, as `marker_box` and `line_boxes` give them.
    """
    texts = [
        axes.text(
            0, 0, label.text, transform=None, fontsize=FONT_SIZE, color=label.colour, zorder=6,
            fontweight="bold" if label.is_bold else "normal", va="baseline", parse_math=False, alpha=label.alpha,
        )
        for label in labels
    ]  # fmt: skip
    for text in texts:
        # A white edge keeps a label readable on a line.
        text.set_path_effects([withStroke(linewidth=2.4, foreground=style.PAPER)])
    boxes = [text.get_window_extent() for text in texts]
    places = [pixel(axes, label.x, label.y) for label in labels]
    markers = [marker_box(axes, label.x, label.y, label.diameter) for label in labels]
    inside = axes.get_window_extent()
    bounds = Box(inside.x0, inside.y0, inside.x1, inside.y1)
    chosen = place_labels(places, [(box.width, box.height) for box in boxes], bounds, [*markers, *unnamed], lines)
    for text, measured, place, marker, box in zip(texts, boxes, places, markers, chosen, strict=True):
        text.set_position((box.left - measured.x0, box.bottom - measured.y0))
        if distance_to(box, place) > max(LEADER, marker.right - place[0] + STUB):
            end = nearest(box, place)
            axes.plot(
                [place[0], end[0]], [place[1], end[1]], transform=None, color=style.MUTED, linewidth=0.6, alpha=0.8,
                zorder=3,
            )  # fmt: skip


def pixel(axes: Axes, x: float, y: float) -> tuple[float, float]:
    left, bottom = axes.transData.transform((x, y))
    return float(left), float(bottom)


def marker_box(axes: Axes, x: float, y: float, diameter: float) -> Box:
    """The square around a marker of this diameter in points."""
    half = diameter * style.DPI / 72 / 2
    centre_x, centre_y = pixel(axes, x, y)
    return Box(centre_x - half, centre_y - half, centre_x + half, centre_y + half)


def line_boxes(axes: Axes, points: Sequence[tuple[float, float]]) -> list[Box]:
    """Small boxes along the line through these points."""
    boxes = []
    for (x0, y0), (x1, y1) in pairwise([pixel(axes, x, y) for x, y in points]):
        steps = max(1, round(max(abs(x1 - x0), abs(y1 - y0)) / 6))
        for step in range(steps + 1):
            x, y = x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps
            boxes.append(Box(x - 1, y - 1, x + 1, y + 1))
    return boxes
