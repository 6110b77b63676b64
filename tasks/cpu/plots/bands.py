"""The plot of a `route` run's training: live x against the band over the steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tasks.cpu.plots import style
from tasks.route.claims import REAL

Rows = Sequence[Mapping[str, Any]]
MOST_ARMS = 6
FIRST = "shared_"  # the trajectory of the primary test
LIVE = ("x_p10", "x_p50", "x_p90")
EDGES = ("lower", "upper")


def bands_png(rows: Mapping[str, Rows]) -> bytes:
    """Of each arm p10 to p90 of live x of `real` (or of its first split) and the edges of its band, by step.

    rows: {step, splits} each, by the name of the arm in the order of the run.  `shared` comes first.  An arm whose x is
    not measured is left out; the picture says how many are.
    Returns: a PNG, the same bytes for the same rows.
    """
    return style.to_png(bands_figure(rows))


def bands_figure(rows: Mapping[str, Rows]) -> Figure:
    live = sorted((arm for arm in rows if _has_live_x(rows[arm])), key=lambda arm: not arm.startswith(FIRST))
    shown = live[:MOST_ARMS]
    figure = style.new_figure(8.4, 1.2 + 1.75 * max(1, len(shown)))
    # One scale for all, so that arms can be compared.
    all_axes = figure.subplots(max(1, len(shown)), squeeze=False, sharex=True, sharey=True)[:, 0]
    for axes, arm in zip(all_axes, shown, strict=False):
        _draw_band(axes, arm, rows[arm])
    if shown:
        all_axes[-1].set_xlabel("step", fontsize=10, color=style.INK)
        handles, labels = all_axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=3, frameon=False, fontsize=9,
                      labelcolor=style.INK)  # fmt: skip
    else:
        style.style_axes(all_axes[0], "x against the band")
        style.show_empty(all_axes[0], "no live x was measured" if rows else "nothing was trained")
    if note := _not_shown([arm for arm in rows if arm not in live], live[MOST_ARMS:]):
        figure.supxlabel(note, x=0.01, ha="left", fontsize=9, color=style.MUTED)
    return figure


def _draw_band(axes: Axes, arm: str, rows: Rows) -> None:
    split = _split(rows)
    style.style_axes(axes, f"{arm}: x of {split}", ylabel="x")
    band: dict[str, float] = {}
    steps, edges, live = [], [], []
    for row in rows:
        figures = row["splits"].get(split, {})
        # A refresh gives the edges; they hold until the next one.
        band |= {edge: figures[edge] for edge in EDGES if figures.get(edge) is not None}
        steps.append(row["step"])
        edges.append([style.to_float(band.get(edge)) for edge in EDGES])
        live.append([style.to_float(figures.get(name)) for name in LIVE])
    lower, upper = zip(*edges, strict=True)
    axes.fill_between(steps, lower, upper, color=style.BAND, alpha=0.35, step="post", label="band")
    low, middle, high = zip(*live, strict=True)
    axes.fill_between(steps, low, high, color=style.BEST, alpha=0.25, label="live x, p10 to p90")
    # A step in which no row trained is a gap; the dots show a step between two gaps.
    axes.plot(steps, middle, color=style.BEST, linewidth=1.3, marker=".", ms=3.0, label="live x, p50")


def _split(rows: Rows) -> str:
    names = list(rows[0]["splits"]) if rows else []
    return REAL if REAL in names else names[0] if names else ""


def _has_live_x(rows: Rows) -> bool:
    split = _split(rows)
    return any(not math.isnan(style.to_float(row["splits"].get(split, {}).get(name))) for row in rows for name in LIVE)


def _not_shown(without_x: Sequence[str], more: Sequence[str]) -> str:
    parts = []
    if without_x:
        parts.append(f"{len(without_x)} trainings without a live x ({_trajectories(without_x)})")
    if more:
        parts.append(f"{len(more)} more trainings ({_trajectories(more)})")
    return f"Not shown: {' and '.join(parts)}." if parts else ""


def _trajectories(arms: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(arm.rpartition("_seed")[0] or arm for arm in arms))
