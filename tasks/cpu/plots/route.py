"""The plots of a `route` run: what it deploys, hack against solve, and live x against the band over the steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from tasks.cpu.plots import style
from tasks.cpu.plots.style import Name
from tasks.route.claims import CEILING, NONE, PLAIN, RANDOM_SPLITS, REAL, SHARED, UNTRAINED

Rate = Mapping[str, Any]
Rows = Sequence[Mapping[str, Any]]
SCALED = "scaled_"
NARROWEST = 0.1  # an axis shows at least this range of rates
MARGIN = 0.1  # of the range, on both sides
MOST_ARMS = 6
FIRST = "shared_"  # the trajectory of the primary test
LIVE = ("x_p10", "x_p50", "x_p90")
EDGES = ("lower", "upper")


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

    rates: {trajectory, deployed, quarantine, solve, hack} each, at least one.  The unrouted adapter, scaled, is a line;
    the random directions are one group, which the legend names.
    """
    figure = style.new_figure(9.0, 6.6)
    axes = figure.add_subplot()
    measures = "solve (more is better)", "hack (less is better)"
    style.style_axes(axes, f"What is deployed, in the mode {held_out}", *measures, grid="yx")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))
    axes.set_xlim(_limits([row["solve"] for row in rates]))
    axes.set_ylim(_limits([row["hack"] for row in rates]))
    line = _scaled_line(rates)
    if len(line) > 1:
        label = f"unrouted adapter, scaled from {UNTRAINED} to {NONE}"
        axes.plot(*zip(*line, strict=True), color=style.BAND, linewidth=1.4, zorder=2, label=label)
    random = [(row["solve"], row["hack"]) for row in rates if _name(row) in RANDOM_SPLITS]
    named = [row for row in rates if _name(row) not in RANDOM_SPLITS]
    if random:
        x, y = zip(*random, strict=True)
        label = f"random_N ({len(random)} quantile-matched directions)"
        style.draw_points(
            axes, x, y, RANDOM.marker, RANDOM.size, zorder=3, color=RANDOM.colour, alpha=0.85, label=label
        )
    for row in named:
        mark = LOOKS.get(_name(row), OTHER)
        face = style.PAPER if row["quarantine"] == "on" else mark.colour
        look = {"markerfacecolor": face, "markeredgecolor": mark.colour, "zorder": 5 if mark.is_bold else 4}
        style.draw_points(axes, [row["solve"]], [row["hack"]], mark.marker, mark.size, **look)
    if axes.get_legend_handles_labels()[0]:
        style.legend_below(figure, axes, 2)
    style.draw_names(figure, axes, [_label(row) for row in named], random)
    return style.to_png(figure)


def _label(row: Rate) -> Name:
    mark = LOOKS.get(_name(row), OTHER)
    quarantine = " (quarantine on)" if row["quarantine"] == "on" else ""
    return Name(_name(row) + quarantine, row["solve"], row["hack"], mark.ink, mark.is_bold)


def _name(row: Rate) -> str:
    return row["deployed"] if row["trajectory"] == SHARED else f"{row['trajectory']}: {row['deployed']}"


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
    scales, found = {UNTRAINED: 0.0, NONE: 1.0}, []
    for row in rates:
        name = _name(row)
        if name.startswith(SCALED) or name in scales:
            scale = scales[name] if name in scales else float(name.removeprefix(SCALED))
            found.append((scale, row["solve"], row["hack"]))
    return [(solve, hack) for _, solve, hack in sorted(found)]


def bands_png(rows: Mapping[str, Rows]) -> bytes:
    """Of each arm p10 to p90 of live x of `real` (or of its first split) and the edges of its band, by step.

    rows: {step, splits} each, by the name of the arm in the order of the run.  `shared` comes first.  An arm whose x is
    not measured is left out; the picture says how many are.
    """
    live = sorted((arm for arm in rows if _has_live_x(rows[arm])), key=lambda arm: not arm.startswith(FIRST))
    shown = live[:MOST_ARMS]
    figure = style.new_figure(8.4, 1.2 + 1.75 * max(1, len(shown)))
    # One scale for all, so that arms can be compared.
    all_axes = figure.subplots(max(1, len(shown)), squeeze=False, sharex=True, sharey=True)[:, 0]
    for axes, arm in zip(all_axes, shown, strict=False):
        _draw_band(axes, arm, rows[arm])
    if shown:
        all_axes[-1].set_xlabel("step", fontsize=10, color=style.INK)
        look: dict[str, Any] = {"frameon": False, "fontsize": 9, "labelcolor": style.INK}
        figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=3, **look)
    else:
        style.style_axes(all_axes[0], "x against the band")
        style.show_empty(all_axes[0], "no live x was measured")
    if left_out := [arm for arm in rows if arm not in shown]:
        named = ", ".join(dict.fromkeys(arm.rpartition("_seed")[0] for arm in left_out))
        said = f"Not shown: {len(left_out)} trainings ({named}), without a live x or beyond {MOST_ARMS}."
        figure.supxlabel(said, x=0.01, ha="left", fontsize=9, color=style.MUTED)
    return style.to_png(figure)


def _draw_band(axes: Axes, arm: str, rows: Rows) -> None:
    split = _split(rows)
    style.style_axes(axes, f"{arm}: x of {split}", ylabel="x")
    band: dict[str, float] = {}
    edges, live = [], []
    for row in rows:
        figures = row["splits"].get(split, {})
        # A refresh gives the edges; they hold until the next one.
        band |= {edge: figures[edge] for edge in EDGES if figures.get(edge) is not None}
        edges.append([band.get(edge, math.nan) for edge in EDGES])
        live.append([_value(figures, name) for name in LIVE])
    steps = [row["step"] for row in rows]
    lower, upper = zip(*edges, strict=True)
    axes.fill_between(steps, lower, upper, color=style.BAND, alpha=0.35, step="post", label="band")
    low, middle, high = zip(*live, strict=True)
    axes.fill_between(steps, low, high, color=style.BEST, alpha=0.25, label="live x, p10 to p90")
    # A step in which no row trained is a gap; the dots show a step between two gaps.
    axes.plot(steps, middle, color=style.BEST, linewidth=1.3, marker=".", ms=3.0, label="live x, p50")


def _split(rows: Rows) -> str:
    names = list(rows[0]["splits"]) if rows else []
    return REAL if REAL in names else names[0] if names else ""


def _value(figures: Mapping[str, float | None], name: str) -> float:
    """NaN, where matplotlib leaves a gap, for what was not measured."""
    found = figures.get(name)
    return math.nan if found is None else found


def _has_live_x(rows: Rows) -> bool:
    split = _split(rows)
    return any(not math.isnan(_value(row["splits"].get(split, {}), name)) for row in rows for name in LIVE)
