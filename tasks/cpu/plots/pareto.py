"""The plot of measured systems by tokens and correct answers, with their front."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from tasks.cpu.plots import style
from tasks.cpu.plots.style import Name

Point = Mapping[str, Any]
LONGEST_NAME = 28  # characters of a name
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

    points: those of `plot_points`, at least one; `correct` and `whole` are shares.  A system with fewer than `WHOLE`
    whole answers is drawn hollow.
    """
    figure = style.new_figure(10.0, 7.0)
    axes = figure.add_subplot()
    title = f"Answer length and correct answers, {points[0]['set']} questions"
    measures = "mean tokens of an answer (fewer is better)", "correct answers: right and whole (more is better)"
    style.style_axes(axes, title, *measures, grid="yx")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=9))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=8))
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))
    for point in points:
        for line in _intervals(point):
            axes.plot(*zip(*line, strict=True), color=LOOKS[point["kind"]].colour, linewidth=0.8, alpha=0.3, zorder=1)
    front = sorted(_place(point) for point in points if point["is_on_front"])
    if len(front) > 1:
        axes.plot(*zip(*front, strict=True), color=style.RECORD, linewidth=2.0, alpha=0.8, label="front", zorder=2)
    _draw_points(axes, points)
    axes.margins(x=0.09, y=0.07)
    style.legend_below(figure, axes, 4)
    style.draw_names(figure, axes, [_name(point) for point in points])
    return style.to_png(figure)


def _place(point: Point) -> tuple[float, float]:
    return point["mean_tokens"], point["correct"]


def _intervals(point: Point) -> tuple[list[tuple[float, float]], ...]:
    x, y = _place(point)
    return [(end, y) for end in point["mean_tokens_interval"]], [(x, end) for end in point["correct_interval"]]


def _draw_points(axes: Axes, points: Sequence[Point]) -> None:
    for (kind, (label, colour, marker, size)), is_cut in itertools.product(LOOKS.items(), (False, True)):
        shown = [one for one in points if one["kind"] == kind and not one["is_winner"]]
        if places := [_place(one) for one in shown if (one["whole"] < WHOLE) == is_cut]:
            look: dict[str, Any] = {"markerfacecolor": colour, "markeredgecolor": style.PAPER, "label": label}
            if is_cut:
                look = {"markerfacecolor": style.PAPER, "markeredgecolor": colour, "label": f"{label}, often cut"}
            x, y = zip(*places, strict=True)
            style.draw_points(axes, x, y, marker, size, markeredgewidth=0.9, zorder=4, **look)
    for tokens, correct in (_place(point) for point in points if point["is_winner"]):
        look = {"color": style.RECORD, "markeredgecolor": style.PAPER, "label": "winner"}
        style.draw_points(axes, [tokens], [correct], "*", WINNER_SIZE, zorder=5, **look)


def _name(point: Point) -> Name:
    name, look, is_winner = str(point["name"]), LOOKS[point["kind"]], bool(point["is_winner"])
    text = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return Name(text, *_place(point), look.colour, is_winner)
