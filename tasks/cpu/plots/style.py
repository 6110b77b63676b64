"""What all plots share: one style, names beside points, and PNG bytes.

Only matplotlib's object interface is used, no pyplot, no current figure and no `rcParams`, so that threads may draw at
the same time and no figure stays in memory.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

INK, MUTED, GRID, AXIS, PAPER = "#1c2733", "#6b7785", "#e6e9ee", "#c3cad3", "#ffffff"
# Blue and vermilion of the palette of Okabe and Ito, which colour-blind people can tell apart.
BEST, RECORD = "#0068a8", "#cf4d08"
MEAN, BAND, DOT = "#5b6775", "#9db4cc", "#8ca3bb"
# For plots that tell more kinds apart.
GREEN, AMBER = "#4a7a2c", "#d99a00"
DPI = 130


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of `width` x `height` inches with a constrained layout."""
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor=PAPER, layout="constrained")
    FigureCanvasAgg(figure)  # one renderer measures all texts; without it each text gets one of its own, of 9 MB
    return figure


def style_axes(axes: Axes, title: str = "", xlabel: str = "", ylabel: str = "", grid: str = "y") -> None:
    """Apply the common style: a light grid, two spines, a title at the left."""
    axes.set_facecolor(PAPER)
    for axis in grid:
        axes.grid(True, axis=axis, color=GRID, linewidth=0.9)  # type: ignore[arg-type]  # "x" or "y"
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(AXIS)
    axes.tick_params(colors=MUTED, labelsize=9, length=3)
    if title:
        set_title(axes, title, 12)
    axes.set_xlabel(xlabel, fontsize=10, color=INK)
    axes.set_ylabel(ylabel, fontsize=10, color=INK)


def set_title(axes: Axes, title: str, pad: float) -> None:
    axes.set_title(title, loc="left", fontsize=12.5, fontweight="bold", color=INK, pad=pad)


def annotate(axes: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], **look: Any) -> None:
    """A text at `offset` points from a place in the units of the axes."""
    axes.annotate(text, at, xytext=offset, textcoords="offset points", **{"ha": "center", **look})


def draw_points(axes: Axes, x: Sequence[float], y: Sequence[float], marker: str, size: float, **look: Any) -> None:
    axes.plot(x, y, linestyle="", marker=marker, ms=size, **look)


def legend_below(figure: Figure, axes: Axes, columns: int, **look: Any) -> None:
    """The legend below the axes, where it hides no point; `handles` in place of what the axes have."""
    look = {"handles": axes.get_legend_handles_labels()[0], "fontsize": 9, "columnspacing": 1.8, **look}
    place = {"loc": "outside lower center", "ncols": columns, "frameon": False, "labelcolor": INK, "handlelength": 1.8}
    figure.legend(**place, **look)


def show_empty(axes: Axes, text: str) -> None:
    """Show a text in place of data."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=11, color=MUTED)


def to_png(figure: Figure) -> bytes:
    """PNG bytes that depend on the figure alone, not on the time or on matplotlib's version."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=figure.dpi, facecolor=PAPER, metadata={"Software": None})
    return buffer.getvalue()


# Names beside points.  Each tries places around its point, near ones first, and takes the one that costs least; several
# rounds let a name move away from those that were placed after it.  All figures are pixels.
FONT_SIZE = 8.5
DIRECTIONS = 16
DISTANCES = (7.0, 14.0, 24.0, 38.0, 56.0, 78.0, 104.0, 134.0)  # from the point to the nearest part of the name
ROUNDS = 6
PADDING = np.array([-2.0, -2.0, 2.0, 2.0])
# Costs for each square pixel that is covered, for each line that is covered, and for each pixel of distance.
ON_NAME, ON_POINT, OUTSIDE, ON_LINE, FAR = 10.0, 6.0, 40.0, 25.0, 0.6
LEADER = 12.0  # a name that is farther away has a line to its point,
STUB = 6.0  # unless that is shorter than this beyond the marker

Boxes = NDArray[np.floating[Any]]
"""Rectangles [n, 4]: left, bottom, right, top."""
Points = Sequence[tuple[float, float]]
"""In the units of the axes."""


class Name(NamedTuple):
    """The name of the point at (x, y), in the units of the axes; `diameter` of its marker in points."""

    text: str
    x: float
    y: float
    diameter: float
    colour: str
    is_bold: bool = False


def draw_names(
    figure: Figure,
    axes: Axes,
    names: Sequence[Name],
    unnamed: Sequence[tuple[float, float, float]] = (),
    lines: Sequence[Points] = (),
) -> None:
    """Draw each name near its point, off all markers, lines and the other names; far ones with a line to the point.

    unnamed: markers without a name, (x, y, diameter).  Afterwards the layout of the figure is fixed: nothing may move
    the axes.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    texts = [
        axes.text(
            0, 0, name.text, transform=None, fontsize=FONT_SIZE, color=name.colour, zorder=6,
            fontweight="bold" if name.is_bold else "normal", va="baseline", parse_math=False,
            path_effects=[withStroke(linewidth=2.4, foreground=PAPER)],  # readable on a line
        )
        for name in names
    ]  # fmt: skip
    markers = [*((name.x, name.y, name.diameter) for name in names), *unnamed]
    centres = _pixels(axes, [(x, y) for x, y, _ in markers])
    halves = np.array([diameter * DPI / 144 for *_, diameter in markers])[:, None]
    around = np.concatenate([centres - halves, centres + halves], axis=1)
    paths = np.reshape([box for line in lines for box in _along(_pixels(axes, line))], (-1, 4))
    extents = [text.get_window_extent() for text in texts]
    choices = [_around(at, box.width, box.height) for at, box in zip(centres, extents, strict=False)]
    placed = _place(choices, centres, np.array([axes.get_window_extent().extents]), around, paths)
    for text, extent, point, name, box in zip(texts, extents, centres, names, placed, strict=False):
        text.set_position((box[0] - extent.x0, box[1] - extent.y0))
        end = np.clip(point, box[:2], box[2:])
        if math.hypot(*(end - point)) > max(LEADER, name.diameter * DPI / 144 + STUB):
            axes.plot(*zip(point, end, strict=True), transform=None, color=MUTED, linewidth=0.6, alpha=0.8, zorder=3)


def _place(choices: Sequence[Boxes], points: Iterable[Boxes], inside: Boxes, markers: Boxes, lines: Boxes) -> Boxes:
    """One of the boxes of each name [names, 4]."""
    fixed = []
    for boxes, point in zip(choices, points, strict=False):
        gaps = np.clip(point, boxes[:, :2], boxes[:, 2:]) - point
        area = np.prod(boxes[0, 2:] - boxes[0, :2])
        fixed.append(
            ON_POINT * _overlaps(boxes, markers).sum(1)
            + ON_LINE * (_overlaps(boxes, lines) > 0).sum(1)
            + OUTSIDE * (area - _overlaps(boxes, inside)[:, 0])
            + FAR * np.hypot(*gaps.T)
        )
    placed = np.full((len(choices), 4), np.nan)
    for _ in range(ROUNDS):
        for index, boxes in enumerate(choices):
            others = np.delete(placed, index, axis=0)
            costs = fixed[index] + ON_NAME * np.nan_to_num(_overlaps(boxes + PADDING, others)).sum(1)
            placed[index] = boxes[int(costs.argmin())]
    return placed


def _around(point: Boxes, width: float, height: float) -> Boxes:
    """Boxes of this size around a point [distances * directions, 4]; the right one and the near ones first."""
    angles = np.tile(2 * math.pi * np.arange(DIRECTIONS) / DIRECTIONS, len(DISTANCES))
    half = np.array([width / 2, height / 2])
    # The centre moves with the direction, so that the box touches the circle around the point.
    reach = np.repeat(DISTANCES, DIRECTIONS)[:, None] + half
    centres = point + np.stack([np.cos(angles), np.sin(angles)], axis=1) * reach
    return np.concatenate([centres - half, centres + half], axis=1)


def _overlaps(boxes: Boxes, others: Boxes) -> Boxes:
    """The shared area of each box [n, 4] with each of the others [m, 4]: [n, m]."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return np.asarray((high - low).clip(min=0).prod(axis=2))


def _pixels(axes: Axes, points: Points) -> Boxes:
    return np.asarray(axes.transData.transform(np.reshape(np.array(points, dtype=float), (-1, 2))))


def _along(points: Boxes) -> Iterator[tuple[float, ...]]:
    """One thin box for a line along an axis, and small ones along any other."""
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 == x1 or y0 == y1:
            thin = (0.5, 0.0) if x0 == x1 else (0.0, 0.5)
            yield min(x0, x1) - thin[0], min(y0, y1) - thin[1], max(x0, x1) + thin[0], max(y0, y1) + thin[1]
            continue
        steps = max(1, round(max(abs(x1 - x0), abs(y1 - y0)) / 6))
        for step in range(steps + 1):
            x, y = x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps
            yield x - 1, y - 1, x + 1, y + 1
