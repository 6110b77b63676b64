"""What all plots share: series read from `history.jsonl`, one style, and PNG bytes.

Missing, null and non-finite values of a record become gaps.  Only matplotlib's object interface is used, no pyplot, no
current figure and no `rcParams`, so that threads may draw at the same time and no figure stays in memory.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

Record = Mapping[str, Any]
NAN = float("nan")


def to_float(value: Any) -> float:
    """The value as a float; NaN, where matplotlib leaves a gap, when it is missing or not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return NAN
    return float(value) if math.isfinite(value) else NAN


@dataclass(frozen=True)
class Spread:
    """Range and mean of a measure over the individuals of one generation."""

    low: float
    mean: float
    high: float


@dataclass(frozen=True)
class BestSoFar:
    """The best individual up to `when`: g for the population of generation g, g + 0.5 for its children."""

    when: float
    fitness: float
    mean_tokens: float
    correctness: float


def generations(history: Sequence[Record]) -> list[int]:
    return [int(record["generation"]) for record in history]


def values(record: Record, group: str, measure: str) -> list[float]:
    """The finite values of a measure in "population" or "offspring"."""
    measured = (to_float(individual.get(measure)) for individual in record.get(group) or ())
    return [value for value in measured if not math.isnan(value)]


def spread(record: Record, measure: str) -> Spread:
    """The population's range and mean of a measure; all NaN without a value."""
    measured = values(record, "population", measure)
    if not measured:
        return Spread(NAN, NAN, NAN)
    return Spread(min(measured), math.fsum(measured) / len(measured), max(measured))


def best_so_far(history: Sequence[Record]) -> list[BestSoFar]:
    """The best individual so far, after each population and after each generation's children.

    Of equal individuals the earlier one stays, as in the run's own hall of fame.
    """
    best: BestSoFar | None = None
    line: list[BestSoFar] = []
    for record in history:
        for group, offset in (("population", 0.0), ("offspring", 0.5)):
            when = int(record["generation"]) + offset
            for individual in record.get(group) or ():
                fitness = to_float(individual.get("fitness"))
                if math.isnan(fitness) or (best is not None and fitness <= best.fitness):
                    continue
                tokens, correct = to_float(individual.get("mean_tokens")), to_float(individual.get("correctness"))
                best = BestSoFar(when, fitness, tokens, correct)
            if best is not None:
                line.append(BestSoFar(when, best.fitness, best.mean_tokens, best.correctness))
    return line


INK = "#1c2733"
MUTED = "#6b7785"
GRID = "#e6e9ee"
PAPER = "#ffffff"
# Blue and vermilion of the palette of Okabe and Ito, which colour-blind people can tell apart.
BEST = "#0068a8"
RECORD = "#cf4d08"
MEAN = "#5b6775"
BAND = "#9db4cc"
DOT = "#8ca3bb"
# For plots that tell more kinds apart.
GREEN = "#4a7a2c"
AMBER = "#d99a00"

DPI = 130
TICK_STEPS = tuple(digit * 10**power for power in range(9) for digit in (1, 2, 5))


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of `width` x `height` inches with a constrained layout."""
    return Figure(figsize=(width, height), dpi=DPI, facecolor=PAPER, layout="constrained")


def style_axes(axes: Axes, title: str = "", xlabel: str = "", ylabel: str = "") -> None:
    """Apply the common style: a light grid, two spines, a title at the left."""
    axes.set_facecolor(PAPER)
    axes.grid(True, axis="y", color=GRID, linewidth=0.9)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#c3cad3")
    axes.tick_params(colors=MUTED, labelsize=9, length=3)
    if title:
        axes.set_title(title, loc="left", fontsize=12.5, fontweight="bold", color=INK, pad=12)
    axes.set_xlabel(xlabel, fontsize=10, color=INK)
    axes.set_ylabel(ylabel, fontsize=10, color=INK)


def generation_axis(axes: Axes, generations: list[int]) -> None:
    """Whole numbers along x, with room for the children half a step after the last generation."""
    first, last = (generations[0], generations[-1]) if generations else (0, 0)
    step = next(step for step in TICK_STEPS if (last - first) / step <= 15)
    axes.set_xticks(range(first, last + 1, step))
    margin = 0.35 + 0.01 * (last - first)
    axes.set_xlim(first - margin, last + 0.5 + margin)


def marker_size(points: int) -> float:
    """Smaller for many points."""
    return 5.0 if points <= 12 else 3.0


def draw_mean(axes: Axes, when: Sequence[float], mean: Sequence[float], label: str, zorder: float) -> None:
    """A population's mean over the generations: the same dashed line in every plot."""
    axes.plot(
        when,
        mean,
        color=MEAN,
        linewidth=1.6,
        linestyle=(0, (4, 2)),
        marker="o",
        ms=marker_size(len(when)),
        label=label,
        zorder=zorder,
    )


def legend_below(figure: Figure, axes: Axes, columns: int) -> None:
    """The legend below the axes, where it hides no point."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
        handlelength=1.8,
        columnspacing=1.8,
    )


def show_empty(axes: Axes, text: str) -> None:
    """Show a text in place of data."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=11, color=MUTED)


def to_png(figure: Figure) -> bytes:
    """PNG bytes that depend on the figure alone, not on the time or on matplotlib's version."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=figure.dpi, facecolor=PAPER, metadata={"Software": None})
    return buffer.getvalue()
