"""The plot of all measured systems: mean tokens against right answers, with the evolved front as a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator, PercentFormatter

from tasks.cpu.plots import style
from tasks.cpu.plots.labels import LEADER, Box, distance_to, nearest, place_labels

Point = Mapping[str, Any]
LONGEST = 28  # characters of a label


class Look(NamedTuple):
    """How the points of one kind are drawn; `size` is the diameter in points."""

    label: str
    colour: str
    marker: str
    size: float


LOOKS = {
    "plain": Look("plain model", style.INK, "D", 7.5),
    "prompt": Look("system prompt, zero deltas", style.BEST, "o", 6.5),
    "vector": Look("vector without search", "#4a7a2c", "s", 6.0),
    "evolved": Look("evolved", style.RECORD, "o", 6.5),
}


def pareto_png(points: Sequence[Point]) -> bytes:
    """Draw the points of `pareto.json`.

    points: {name, kind, mean_tokens, mean_tokens_interval, share_correct, share_correct_interval, is_winner,
    stopped_after} each.
    Returns: a PNG, the same bytes for the same points.
    """
    figure = style.new_figure(10.0, 7.0)
    axes = figure.add_subplot()
    style.style_axes(
        axes,
        "Answer length and right answers, validation set",
        "mean tokens of an answer (fewer is better)",
        "right answers (more is better)",
    )
    axes.grid(True, axis="x", color=style.GRID, linewidth=0.9)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=9))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=8))
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))
    if not points:
        style.show_empty(axes, "no system was measured")
        return style.to_png(figure)
    _draw_intervals(axes, points)
    _draw_front(axes, points)
    _draw_points(axes, points)
    axes.margins(x=0.09, y=0.07)
    style.legend_below(figure, axes, 4)
    _draw_labels(figure, axes, points)
    return style.to_png(figure)


def evolved_front(points: Sequence[Point]) -> list[Point]:
    """The evolved points that no other evolved point beats in both measures, by tokens."""
    front: list[Point] = []
    evolved = (point for point in points if point["kind"] == "evolved" and not point["stopped_after"])
    for point in sorted(evolved, key=lambda point: (point["mean_tokens"], -point["share_correct"])):
        if not front or point["share_correct"] > front[-1]["share_correct"]:
            front.append(point)
    return front


def _draw_intervals(axes: Axes, points: Sequence[Point]) -> None:
    for point in points:
        colour = LOOKS[point["kind"]].colour
        x, y = point["mean_tokens"], point["share_correct"]
        alpha = 0.12 if point["stopped_after"] else 0.3
        axes.plot(point["mean_tokens_interval"], [y, y], color=colour, linewidth=0.8, alpha=alpha, zorder=1)
        axes.plot([x, x], point["share_correct_interval"], color=colour, linewidth=0.8, alpha=alpha, zorder=1)


def _draw_front(axes: Axes, points: Sequence[Point]) -> None:
    front = evolved_front(points)
    if len(front) > 1:
        axes.plot(
            [point["mean_tokens"] for point in front],
            [point["share_correct"] for point in front],
            color=style.RECORD,
            linewidth=2.0,
            alpha=0.8,
            label="evolved front",
            zorder=2,
        )


def _draw_points(axes: Axes, points: Sequence[Point]) -> None:
    stopped_label = "stopped early (fewer questions)"
    for kind, look in LOOKS.items():
        of_kind = [point for point in points if point["kind"] == kind and not point["is_winner"]]
        complete = [point for point in of_kind if not point["stopped_after"]]
        stopped = [point for point in of_kind if point["stopped_after"]]
        if complete:
            _draw_markers(axes, complete, look, look.colour, style.PAPER, look.label)
        if stopped:
            _draw_markers(axes, stopped, look, style.PAPER, look.colour, stopped_label)
            stopped_label = "_"  # one entry in the legend for all kinds
    for point in points:
        if point["is_winner"]:
            axes.plot(
                [point["mean_tokens"]],
                [point["share_correct"]],
                linestyle="",
                marker="*",
                ms=17,
                color=style.RECORD,
                markeredgecolor=style.PAPER,
                label="winner",
                zorder=5,
            )


def _draw_markers(axes: Axes, points: Sequence[Point], look: Look, face: str, edge: str, label: str) -> None:
    axes.plot(
        [point["mean_tokens"] for point in points],
        [point["share_correct"] for point in points],
        linestyle="",
        marker=look.marker,
        ms=look.size,
        markerfacecolor=face,
        markeredgecolor=edge,
        markeredgewidth=0.9,
        label=label,
        zorder=4,
    )


def _draw_labels(figure: Figure, axes: Axes, points: Sequence[Point]) -> None:
    """Labels where nothing is covered.  The layout is computed first, because the places are in pixels."""
    figure.draw_without_rendering()
    # From here on the layout stays: labels must not move the axes.
    figure.set_layout_engine("none")
    texts = [
        axes.text(
            0, 0, _name(point), transform=None, fontsize=8.5, color=LOOKS[point["kind"]].colour, zorder=6,
            fontweight="bold" if point["is_winner"] else "normal", va="baseline", parse_math=False,
            alpha=0.65 if point["stopped_after"] else 1.0,
        )
        for point in points
    ]  # fmt: skip
    for text in texts:
        # A white edge keeps a label readable on a line.
        text.set_path_effects([withStroke(linewidth=2.4, foreground=style.PAPER)])
    boxes = [text.get_window_extent() for text in texts]
    places = [_pixel(axes, point["mean_tokens"], point["share_correct"]) for point in points]
    inside = axes.get_window_extent()
    chosen = place_labels(
        places,
        [(box.width, box.height) for box in boxes],
        Box(inside.x0, inside.y0, inside.x1, inside.y1),
        [_marker(place, point) for place, point in zip(places, points, strict=True)],
        [line for point in points for line in _bars(axes, point)] + _front_boxes(axes, points),
    )
    for text, measured, place, box in zip(texts, boxes, places, chosen, strict=True):
        text.set_position((box.left - measured.x0, box.bottom - measured.y0))
        if distance_to(box, place) > LEADER:
            end = nearest(box, place)
            axes.plot(
                [place[0], end[0]], [place[1], end[1]], transform=None, color=style.MUTED, linewidth=0.6, alpha=0.8,
                zorder=3,
            )  # fmt: skip


def _name(point: Point) -> str:
    name = str(point["name"])
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def _pixel(axes: Axes, x: float, y: float) -> tuple[float, float]:
    left, bottom = axes.transData.transform((x, y))
    return float(left), float(bottom)


def _marker(place: tuple[float, float], point: Point) -> Box:
    half = (17 if point["is_winner"] else LOOKS[point["kind"]].size) * style.DPI / 72 / 2
    return Box(place[0] - half, place[1] - half, place[0] + half, place[1] + half)


def _bars(axes: Axes, point: Point) -> list[Box]:
    x, y = point["mean_tokens"], point["share_correct"]
    low, high = point["mean_tokens_interval"]
    worst, best = point["share_correct_interval"]
    (left, middle), (right, _) = _pixel(axes, low, y), _pixel(axes, high, y)
    (centre, bottom), (_, top) = _pixel(axes, x, worst), _pixel(axes, x, best)
    return [Box(left, middle - 0.5, right, middle + 0.5), Box(centre - 0.5, bottom, centre + 0.5, top)]


def _front_boxes(axes: Axes, points: Sequence[Point]) -> list[Box]:
    """Small boxes along the line of the evolved front."""
    front = [_pixel(axes, point["mean_tokens"], point["share_correct"]) for point in evolved_front(points)]
    boxes = []
    for (x0, y0), (x1, y1) in pairwise(front):
        steps = max(1, round(max(abs(x1 - x0), abs(y1 - y0)) / 6))
        for step in range(steps + 1):
            x, y = x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps
            boxes.append(Box(x - 1, y - 1, x + 1, y + 1))
    return boxes
