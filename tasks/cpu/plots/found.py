"""The plots of what was found: systems by tokens and correct answers with their front, and the most wasted tokens."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.font_manager import findfont, get_font
from matplotlib.ft2font import FT2Font
from matplotlib.ticker import MaxNLocator, PercentFormatter

from tasks.cpu.plots import style
from tasks.cpu.plots.style import Name

Point = Mapping[str, Any]
LONGEST_NAME = 28  # characters of a name
WINNER_SIZE = 17.0
WHOLE = 0.8
FAMILY = "DejaVu Sans Mono"
MOST, LONGEST_TOKEN = 30, 22  # tokens, and characters of one
_NAMES = {"\n": "⏎", "\r": "\\r", "\t": "⇥", " ": "␣", "\ufffd": "�"}


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
    intervals = [(LOOKS[point["kind"]].colour, line) for point in points for line in _intervals(point)]
    for colour, line in intervals:
        axes.plot(*zip(*line, strict=True), color=colour, linewidth=0.8, alpha=0.3, zorder=1)
    front = sorted(_place(point) for point in points if point["is_on_front"])
    if len(front) > 1:
        axes.plot(*zip(*front, strict=True), color=style.RECORD, linewidth=2.0, alpha=0.8, label="front", zorder=2)
    _draw_points(axes, points)
    axes.margins(x=0.09, y=0.07)
    style.legend_below(figure, axes, 4)
    style.draw_names(figure, axes, [_name(point) for point in points], lines=[*(one for _, one in intervals), front])
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
    return Name(text, *_place(point), WINNER_SIZE if is_winner else look.size, look.colour, is_winner)


def wasted_png(v_steer: Sequence[Mapping[str, Any]]) -> bytes:
    """The first entries of token_selection.v_steer, {token_id, token_str, delta} each, as bars."""
    shown = v_steer[:MOST]
    figure = style.new_figure(7.6, max(2.6, 1.15 + 0.262 * len(shown)))
    axes = figure.subplots()
    measure = "Δ: share of verbose answers − share of compressed answers, percentage points"
    style.style_axes(axes, "Most wasted tokens", measure, grid="x")
    if not shown:
        axes.set_xticks([])
        axes.set_yticks([])
        style.show_empty(axes, "no token was discovered")
        return style.to_png(figure)
    values = [100 * entry["delta"] for entry in shown]
    colours = [style.DOT if value < 0 else style.BEST for value in values]
    bars = axes.barh(range(len(values)), values, height=0.66, color=colours)
    axes.bar_label(bars, [f"{value:.2f}" for value in values], padding=4, fontsize=8.5, color=style.MUTED)
    axes.axvline(0, color=style.AXIS, linewidth=1)
    axes.margins(x=0.12)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
    labels = [readable(entry["token_str"]) for entry in shown]
    axes.set_yticks(range(len(shown)), labels, family=FAMILY, fontsize=9.5, color=style.INK, parse_math=False)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    return style.to_png(figure)


def readable(token: str) -> str:
    """A token's text so that all of it can be seen on one line: "␣the", "⏎⏎", "\\x07"."""
    shown = "".join(_character(c) for c in token)
    return shown if len(shown) <= LONGEST_TOKEN else shown[: LONGEST_TOKEN - 1] + "…"


def _character(character: str) -> str:
    if character in _NAMES:
        return _NAMES[character]
    # Other white space, control and format characters, lone surrogates, and what the font lacks: by their numbers.
    if unicodedata.category(character)[0] in "CZ" or not _font().get_char_index(ord(character)):
        code = ord(character)
        return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    return character


@cache
def _font() -> FT2Font:
    """The font of the labels, which comes with matplotlib."""
    return get_font(findfont(FAMILY))
