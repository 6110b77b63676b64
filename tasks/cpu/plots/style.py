"""One look for all plots, and the way from a figure to bytes.

Only matplotlib's object interface: no pyplot, no current figure, no `rcParams` written, so that threads may draw at
the same time and a process that draws for days holds nothing back.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK = "#1c2733"
MUTED = "#6b7785"
GRID = "#e6e9ee"
PAPER = "#ffffff"
# Blue, vermilion and green that stay apart for colour-blind eyes (the family of Okabe and Ito).
BEST = "#0068a8"
RECORD = "#cf4d08"
MEAN = "#5b6775"
BAND = "#9db4cc"
DOT = "#8ca3bb"
GOOD = "#00835f"

DPI = 130
TICK_STEPS = tuple(digit * 10**power for power in range(9) for digit in (1, 2, 5))


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of `width` x `height` inches that lays itself out."""
    return Figure(figsize=(width, height), dpi=DPI, facecolor=PAPER, layout="constrained")


def dress(axes: Axes, title: str = "", xlabel: str = "", ylabel: str = "") -> None:
    """Give the axes the common look: a quiet grid, two spines, a title at the left."""
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
    """Whole numbers along x, and room for the children half a step behind the last generation."""
    first, last = (generations[0], generations[-1]) if generations else (0, 0)
    step = next(step for step in TICK_STEPS if (last - first) / step <= 15)
    axes.set_xticks(range(first, last + 1, step))
    margin = 0.35 + 0.01 * (last - first)
    axes.set_xlim(first - margin, last + 0.5 + margin)


def marker_size(points: int) -> float:
    """Smaller where there are many."""
    return 5.0 if points <= 12 else 3.0


def draw_mean(axes: Axes, when: Sequence[float], mean: Sequence[float], label: str, zorder: float) -> None:
    """A population's mean over the generations: the dashed line that looks the same in every plot."""
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
    """The legend in one place outside the data, so that it never hides a point."""
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


def say_empty(axes: Axes, text: str) -> None:
    """A plot without data says so instead of showing an empty frame."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=11, color=MUTED)


def to_png(figure: Figure) -> bytes:
    """PNG bytes that depend on the figure alone: nothing of the time, nothing of the program's version."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=figure.dpi, facecolor=PAPER, metadata={"Software": None})
    return buffer.getvalue()
