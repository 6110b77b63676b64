"""The plots of a `route` run: the plane of hack and solve, and live x against the band over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from tasks.cpu.plots import style

FRONTIER = ("untrained", "scaled_", "none")
MOST_ARMS = 6


def hack_solve_png(rates: Sequence[Mapping[str, Any]], held_out: str) -> bytes:
    """Each deployment as a point: its hack rate of the mode `held_out` against its solve rate.

    rates: {trajectory, deployed, quarantine, solve, hack} each.  The unrouted adapter, scaled, is a line.
    """
    figure = style.new_figure(7.6, 5.6)
    axes = figure.subplots()
    style.style_axes(axes, f"What is deployed, in the mode {held_out}", "solve", "hack")
    if not rates:
        style.show_empty(axes, "nothing was evaluated")
        return style.to_png(figure)
    line = sorted((row["solve"], row["hack"]) for row in rates if _is_frontier(row))
    axes.plot(*zip(*line, strict=True), color=style.BAND, linewidth=1.4, label="scaled, unrouted") if line else None
    for row in rates:
        name = row["deployed"] if row["trajectory"] == "shared" else f"{row['trajectory']}: {row['deployed']}"
        shut = " (quarantine)" if row["quarantine"] == "on" else ""
        colour = style.BEST if name == "real" else style.RECORD if name == "ceiling" else style.DOT
        axes.plot([row["solve"]], [row["hack"]], "o", color=colour, markersize=6 if colour != style.DOT else 4)
        axes.annotate(name + shut, (row["solve"], row["hack"]), xytext=(4, 3), textcoords="offset points",
                      fontsize=7.5, color=style.MUTED)  # fmt: skip
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    return style.to_png(figure)


def bands_png(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> bytes:
    """For the first arms: p10 to p90 of live x of `real` (or the first split) and the edges of its band, by step."""
    arms = list(rows)[:MOST_ARMS]
    figure = style.new_figure(7.6, max(2.6, 2.2 * len(arms)))
    all_axes = figure.subplots(max(1, len(arms)), squeeze=False)[:, 0]
    if not arms:
        style.style_axes(all_axes[0], "x against the band")
        style.show_empty(all_axes[0], "nothing was trained")
    for axes, arm in zip(all_axes, arms, strict=False):
        _draw_band(axes, arm, rows[arm])
    return style.to_png(figure)


def _draw_band(axes: Axes, arm: str, rows: Sequence[Mapping[str, Any]]) -> None:
    names = list(rows[0]["splits"]) if rows else []
    split = "real" if "real" in names else names[0] if names else ""
    style.style_axes(axes, f"{arm}: x of {split or 'no split'}", "step", "x")
    band: dict[str, float] = {}
    steps, edges, live = [], [], []
    for row in rows:
        figures = row["splits"].get(split, {})
        band |= {edge: figures[edge] for edge in ("lower", "upper") if figures.get(edge) is not None}
        steps.append(row["step"])
        edges.append([style.to_float(band.get(edge)) for edge in ("lower", "upper")])
        live.append([style.to_float(figures.get(name)) for name in ("x_p10", "x_p50", "x_p90")])
    if not steps:
        style.show_empty(axes, "no steps")
        return
    lower, upper = zip(*edges, strict=True)
    axes.fill_between(steps, lower, upper, color=style.BAND, alpha=0.35, step="post", label="band")
    low, middle, high = zip(*live, strict=True)
    axes.fill_between(steps, low, high, color=style.BEST, alpha=0.25, label="live x, p10 to p90")
    axes.plot(steps, middle, color=style.BEST, linewidth=1.3, label="p50")
    axes.legend(fontsize=7.5, frameon=False, loc="upper right")


def _is_frontier(row: Mapping[str, Any]) -> bool:
    deployed = str(row["deployed"])
    return bool(row["trajectory"] == "shared" and row["quarantine"] == "off") and deployed.startswith(FRONTIER)
