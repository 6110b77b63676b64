"""The plot of what a `route` run deploys: the hack rate of the held-out mode against the solve rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from tasks.cpu.plots import label_texts, style
from tasks.cpu.plots.label_texts import Label
from tasks.route.claims import CEILING, NONE, PLAIN, RANDOM_SPLITS, REAL, SHARED, UNTRAINED

Rate = Mapping[str, Any]
SCALED = "scaled_"
NARROWEST = 0.1  # an axis shows at least this range of rates
MARGIN = 0.1  # of the range, on both sides
ROOM = 2.5  # points around a marker that stay free of labels


class Mark(NamedTuple):
    """How a point is drawn; `size` is the diameter in points."""

    colour: str
    marker: str
    size: float
    ink: str  # of its name
    is_bold: bool = True


# What a reader looks for first.  All others are grey.
LOOKS = {
    REAL: Mark(style.BEST, "*", 13.0, style.BEST),
    CEILING: Mark(style.RECORD, "^", 8.5, style.RECORD),
    NONE: Mark(style.INK, "s", 7.5, style.INK),
    UNTRAINED: Mark(style.INK, "o", 7.5, style.INK),
    f"{PLAIN}: {NONE}": Mark(style.GREEN, "o", 8.0, style.GREEN),
}
OTHER = Mark(style.DOT, "o", 5.0, style.MUTED, is_bold=False)
RANDOM = Mark(style.AMBER, "o", 4.5, style.MUTED, is_bold=False)  # one group, without names


def hack_solve_png(rates: Sequence[Rate], held_out: str) -> bytes:
    """Each deployment as a point: its hack rate of the mode `held_out` against its solve rate.

    rates: {trajectory, deployed, quarantine, solve, hack} each.  The unrouted adapter, scaled, is a line; the random
    directions are one group, which the legend names.
    Returns: a PNG, the same bytes for the same rates.
    """
    return style.to_png(hack_solve_figure(rates, held_out))


def hack_solve_figure(rates: Sequence[Rate], held_out: str) -> Figure:
    figure = style.new_figure(9.0, 6.6)
    axes = figure.add_subplot()
    style.style_axes(
        axes, f"What is deployed, in the mode {held_out}", "solve (more is better)", "hack (less is better)"
    )
    if not rates:
        style.show_empty(axes, "nothing was evaluated")
        return figure
    axes.grid(True, axis="x", color=style.GRID, linewidth=0.9)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))
    axes.set_xlim(_limits([row["solve"] for row in rates]))
    axes.set_ylim(_limits([row["hack"] for row in rates]))
    line = _scaled_line(rates)
    if len(line) > 1:
        axes.plot(*zip(*line, strict=True), color=style.BAND, linewidth=1.4, zorder=2,
                  label=f"unrouted adapter, scaled from {UNTRAINED} to {NONE}")  # fmt: skip
    random = [row for row in rates if _is_random(row)]
    named = [row for row in rates if not _is_random(row)]
    _draw_random(axes, random)
    for row in named:
        _draw_point(axes, row)
    if axes.get_legend_handles_labels()[0]:
        style.legend_below(figure, axes, 2)
    label_texts.fix_layout(figure)
    label_texts.draw_labels(
        axes,
        [_label(row) for row in named],
        [label_texts.marker_box(axes, row["solve"], row["hack"], RANDOM.size) for row in random],
        label_texts.line_boxes(axes, line),
    )
    return figure


def _draw_random(axes: Axes, rates: Sequence[Rate]) -> None:
    if rates:
        axes.plot(
            [row["solve"] for row in rates],
            [row["hack"] for row in rates],
            linestyle="",
            marker=RANDOM.marker,
            ms=RANDOM.size,
            color=RANDOM.colour,
            alpha=0.85,
            zorder=3,
            label=f"random_N ({len(rates)} quantile-matched directions)",
        )


def _draw_point(axes: Axes, row: Rate) -> None:
    mark = _mark(row)
    axes.plot(
        [row["solve"]],
        [row["hack"]],
        linestyle="",
        marker=mark.marker,
        ms=mark.size,
        markerfacecolor=style.PAPER if row["quarantine"] == "on" else mark.colour,
        markeredgecolor=mark.colour,
        zorder=5 if mark.is_bold else 4,
    )


def _label(row: Rate) -> Label:
    mark = _mark(row)
    quarantine = " (quarantine on)" if row["quarantine"] == "on" else ""
    return Label(_name(row) + quarantine, row["solve"], row["hack"], mark.size + ROOM, mark.ink, mark.is_bold)


def _name(row: Rate) -> str:
    deployed = str(row["deployed"])
    return deployed if row["trajectory"] == SHARED else f"{row['trajectory']}: {deployed}"


def _mark(row: Rate) -> Mark:
    return LOOKS.get(_name(row), OTHER)


def _is_random(row: Rate) -> bool:
    return _name(row) in RANDOM_SPLITS


def _limits(rates: Sequence[float]) -> tuple[float, float]:
    """The range of the rates with a margin: a whole axis from 0 to 1 is mostly empty."""
    low, high = min(rates), max(rates)
    if high - low < NARROWEST:
        low = min(max(0.0, (low + high - NARROWEST) / 2), 1.0 - NARROWEST)
        high = low + NARROWEST
    margin = MARGIN * (high - low)
    return low - margin, high + margin


def _scaled_line(rates: Sequence[Rate]) -> list[tuple[float, float]]:
    """Solve and hack of the unrouted adapter, by its scale: `untrained` is 0 of it, `none` all of it."""
    scales = {UNTRAINED: 0.0, NONE: 1.0}
    found = []
    for row in rates:
        name = _name(row)
        if name.startswith(SCALED):
            scales[name] = float(name.removeprefix(SCALED))
        if name in scales:
            found.append((scales[name], row["solve"], row["hack"]))
    return [(solve, hack) for _, solve, hack in sorted(found)]
