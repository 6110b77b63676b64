"""Fitness by generation: the best, the mean, the best so far, and every individual behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from tasks.cpu.plots import style
from tasks.cpu.plots.series import NAN, Record, generations, number, spread, values


def fitness_png(history: Sequence[Record]) -> bytes:
    """Draw the fitness of a run (genetic_evolution_plan.md section 6, item 9).

    Args:
        history: the records of `history.jsonl`, oldest first; null and NaN values leave gaps.
    Returns: a PNG, the same bytes for the same history.
    """
    figure = style.new_figure(9.0, 5.2)
    axes = figure.add_subplot()
    style.dress(axes, "Fitness by generation", "generation (its children half a step on)", "fitness (higher is better)")
    when = generations(history)
    style.generation_axis(axes, when)
    if history:
        _draw_individuals(axes, history)
        _draw_lines(axes, history, when)
        style.legend_below(figure, axes, 6)
    else:
        style.say_empty(axes, "no generation has finished yet")
    return style.to_png(figure)


def _draw_individuals(axes: Axes, history: Sequence[Record]) -> None:
    spreads = [spread(record, "fitness") for record in history]
    low, high = [one.low for one in spreads], [one.high for one in spreads]
    axes.fill_between(
        generations(history), low, high, color=style.BAND, alpha=0.22, linewidth=0, label="population range"
    )
    size = max(9.0, 30.0 - 0.7 * len(history))
    for group, offset, face, name in (
        ("population", 0.0, style.DOT, "individual"),
        ("offspring", 0.5, style.PAPER, "child"),
    ):
        points = [
            (int(record["generation"]) + offset, fitness)
            for record in history
            for fitness in values(record, group, "fitness")
        ]
        if points:
            x, y = zip(*points, strict=True)
            axes.scatter(
                x, y, s=size, facecolor=face, edgecolor=style.DOT, linewidth=0.8, alpha=0.85, zorder=2, label=name
            )


def _draw_lines(axes: Axes, history: Sequence[Record], when: list[int]) -> None:
    mean = [number(record.get("mean")) for record in history]
    best = [number(record.get("best")) for record in history]
    style.draw_mean(axes, when, mean, "mean", zorder=4)
    marker = style.marker_size(len(when))
    axes.plot(when, best, color=style.BEST, linewidth=2.2, marker="o", ms=marker, label="best", zorder=5)
    # A generation's record includes its children, who are evaluated half a step after their population.
    steps = [(float(when[0]), best[0])] + [
        (generation + 0.5, number(record.get("best_ever"))) for generation, record in zip(when, history, strict=True)
    ]
    x, y = zip(*steps, strict=True)
    axes.step(x, y, where="post", color=style.RECORD, linewidth=1.6, label="best so far", zorder=3)
    _annotate_record(axes, *next((step for step in reversed(steps) if not math.isnan(step[1])), (NAN, NAN)))


def _annotate_record(axes: Axes, x: float, y: float) -> None:
    if math.isnan(y):
        return
    axes.plot([x], [y], marker="*", ms=12, color=style.RECORD, markeredgecolor=style.PAPER, zorder=6)
    axes.annotate(
        f"{y:.4f}",
        (x, y),
        xytext=(0, 9),
        textcoords="offset points",
        ha="center",
        fontsize=9.5,
        fontweight="bold",
        color=style.RECORD,
    )
    axes.margins(y=0.14)
