"""What all plots share: one style, names beside points, and PNG bytes.

Only matplotlib's object interface is used, no current figure and no `rcParams`, so that threads may draw at the same
time and no figure stays in memory.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

from adjustText import adjust_text
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

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


FONT_SIZE = 8.5
MOST_STEPS = 400
"""Of the placement of names; a limit of time in its place would make the picture depend on the machine."""


class Name(NamedTuple):
    """The name of the point at (x, y), in the units of the axes."""

    text: str
    x: float
    y: float
    colour: str
    is_bold: bool = False


def draw_names(figure: Figure, axes: Axes, names: Sequence[Name], unnamed: Sequence[tuple[float, float]] = ()) -> None:
    """Draw each name near its point, off all points and other names; far ones with a line to the point.

    unnamed: points (x, y) without a name.  Afterwards the layout of the figure is fixed: nothing may move the axes.
    """
    texts = [
        axes.text(
            name.x, name.y, name.text, fontsize=FONT_SIZE, color=name.colour, zorder=6,
            fontweight="bold" if name.is_bold else "normal", parse_math=False,
            path_effects=[withStroke(linewidth=2.4, foreground=PAPER)],  # readable on a line
        )
        for name in names
    ]  # fmt: skip
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    x, y = zip(*((name.x, name.y) for name in names), *unnamed, strict=True)
    line = {"arrowstyle": "-", "color": MUTED, "linewidth": 0.6, "alpha": 0.8, "zorder": 3}
    adjust_text(
        texts, x, y, target_x=x[: len(names)], target_y=y[: len(names)], ax=axes, expand=(1.25, 1.9),
        force_static=(0.2, 0.4), min_arrow_len=8, iter_lim=MOST_STEPS, arrowprops=line,
    )  # fmt: skip
