"""The plot of the systems: mean tokens against correct answers, with the front as a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from tasks.cpu.plots import label_texts, style
from tasks.cpu.plots.label_texts import Label
from tasks.cpu.plots.labels import Box

Point = Mapping[str, Any]
LONGEST = 28  # characters of a label
WINNER_SIZE = 17.0
WHOLE = 0.8


class Look(NamedTuple):
    """How the points of one kind are drawn; `size` is the diameter in points."""

    label: str
    colour: str
    marker: str
    size: float


LOOKS = {
    "plain": Look("plain model", style.INK, "D", 7.5),
    "prompt": Look("system prompt", style.BEST, "o", 6.5),
    "cut": Look("limit of tokens or stop", style.MUTED, "v", 6.5),
    "vector": Look("vector without search", style.GREEN, "s", 6.0),
    "random": Look("random vector", style.MUTED, "X", 6.0),
    "evolved": Look("evolved", style.RECORD, "o", 6.5),
}


def pareto_png(points: Sequence[Point]) -> bytes:
    """Draw systems on one set of questions.

    points: {name, kind, set, mean_tokens, mean_tokens_interval, correct, correct_interval, whole, is_on_front,
    is_winner} each; `correct` and `whole` are shares.  A system with fewer than `WHOLE` whole answers is drawn hollow.
    Returns: a PNG, the same bytes for the same points.
    """
    figure = style.new_figure(10.0, 7.0)
    axes = figure.add_subplot()
    style.style_axes(
        axes,
        f"Answer length and correct answers, {points[0]['set']} questions" if points else "Answer length",
        "mean tokens of an answer (fewer is better)",
        "correct answers: right and whole (more is better)",
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


def front_of(points: Sequence[Point]) -> list[Point]:
    """The points that are on the front, by tokens."""
    return sorted((point for point in points if point["is_on_front"]), key=lambda point: point["mean_tokens"])


def _draw_intervals(axes: Axes, points: Sequence[Point]) -> None:
    for point in points:
        colour = LOOKS[point["kind"]].colour
        x, y = point["mean_tokens"], point["correct"]
        axes.plot(point["mean_tokens_interval"], [y, y], color=colour, linewidth=0.8, alpha=0.3, zorder=1)
        axes.plot([x, x], point["correct_interval"], color=colour, linewidth=0.8, alpha=0.3, zorder=1)


def _draw_front(axes: Axes, points: Sequence[Point]) -> None:
    front = front_of(points)
    if len(front) > 1:
        axes.plot(
            [point["mean_tokens"] for point in front],
            [point["correct"] for point in front],
            color=style.RECORD,
            linewidth=2.0,
            alpha=0.8,
            label="front",
            zorder=2,
        )


def _draw_points(axes: Axes, points: Sequence[Point]) -> None:
    for kind, look in LOOKS.items():
        of_kind = [point for point in points if point["kind"] == kind and not point["is_winner"]]
        cut = [point for point in of_kind if point["whole"] < WHOLE]
        if whole := [point for point in of_kind if point["whole"] >= WHOLE]:
            _draw_markers(axes, whole, look, look.colour, style.PAPER, look.label)
        if cut:
            _draw_markers(axes, cut, look, style.PAPER, look.colour, f"{look.label}, often cut")
    for point in points:
        if point["is_winner"]:
            axes.plot(
                [point["mean_tokens"]],
                [point["correct"]],
                linestyle="",
                marker="*",
                ms=WINNER_SIZE,
                color=style.RECORD,
                markeredgecolor=style.PAPER,
                label="winner",
                zorder=5,
            )


def _draw_markers(axes: Axes, points: Sequence[Point], look: Look, face: str, edge: str, label: str) -> None:
    axes.plot(
        [point["mean_tokens"] for point in points],
        [point["correct"] for point in points],
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
    label_texts.fix_layout(figure)
    labels = [
        Label(
            _name(point),
            point["mean_tokens"],
            point["correct"],
            WINNER_SIZE if point["is_winner"] else LOOKS[point["kind"]].size,
            LOOKS[point["kind"]].colour,
            is_bold=point["is_winner"],
        )
        for point in points
    ]
    front = [(point["mean_tokens"], point["correct"]) for point in front_of(points)]
    label_texts.draw_labels(
        axes,
        labels,
        [],
        [line for point in points for line in _bars(axes, point)] + label_texts.line_boxes(axes, front),
    )


def _name(point: Point) -> str:
    name = str(point["name"])
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def _bars(axes: Axes, point: Point) -> list[Box]:
    x, y = point["mean_tokens"], point["correct"]
    low, high = point["mean_tokens_interval"]
    worst, best = point["correct_interval"]
    (left, middle), (right, _) = label_texts.pixel(axes, low, y), label_texts.pixel(axes, high, y)
    (centre, bottom), (_, top) = label_texts.pixel(axes, x, worst), label_texts.pixel(axes, x, best)
    return [Box(left, middle - 0.5, right, middle + 0.5), Box(centre - 0.5, bottom, centre + 0.5, top)]
