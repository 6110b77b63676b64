"""Two plots over the generations: fitness, and response length with correctness below it.

A history has the records of `history.jsonl`, oldest first, at least one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from tasks.cpu.plots import style

History = Sequence[Mapping[str, Any]]
TICK_STEPS = tuple(digit * 10**power for power in range(9) for digit in (1, 2, 5))
GROUPS = (("population", 0.0), ("offspring", 0.5))  # and when: children half a step after the population


def fitness_png(history: History) -> bytes:
    """The fitness of a run: best, mean, best so far, and every individual."""
    figure = style.new_figure(9.0, 5.2)
    axes = figure.add_subplot()
    style.style_axes(
        axes, "Fitness by generation", "generation (its children half a step on)", "fitness (higher is better)"
    )
    when = _generation_axis(axes, history)
    low, _, high = _spreads(history, "fitness")
    axes.fill_between(when, low, high, color=style.BAND, alpha=0.22, linewidth=0, label="population range")
    _draw_individuals(axes, history)
    _draw_mean(axes, when, [record["mean"] for record in history], "mean", zorder=4)
    best = [record["best"] for record in history]
    axes.plot(when, best, color=style.BEST, linewidth=2.2, marker="o", ms=_marker_size(when), label="best", zorder=5)
    # A generation's record includes its children, which are evaluated half a step after the population.
    x, y = [when[0], *(one + 0.5 for one in when)], [best[0], *(record["best_ever"] for record in history)]
    axes.step(x, y, where="post", color=style.RECORD, linewidth=1.6, label="best so far", zorder=3)
    axes.plot(x[-1:], y[-1:], marker="*", ms=12, zorder=6, color=style.RECORD, markeredgecolor=style.PAPER)
    look: dict[str, Any] = {"fontsize": 9.5, "fontweight": "bold", "color": style.RECORD}
    style.annotate(axes, f"{y[-1]:.4f}", (x[-1], y[-1]), (0, 9), **look)
    axes.margins(y=0.14)
    style.legend_below(figure, axes, 6)
    return style.to_png(figure)


def lengths_png(history: History) -> bytes:
    """The mean response length of a run, with correctness below it."""
    figure = style.new_figure(9.0, 6.4)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2.1, 1.0])
    style.style_axes(upper, "Mean response length (tokens) vs evolution iteration", "", "tokens an answer")
    style.style_axes(lower, "", "evolution iteration (generation; its children half a step on)", "answered correctly")
    _generation_axis(upper, history)
    lower.yaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))
    lower.yaxis.set_major_locator(MaxNLocator(nbins=5))
    best, start = _best_so_far(history), history[0]["population"][0]["mean_tokens"]
    upper.axhline(start, color=style.RECORD, linewidth=1.3, linestyle=(0, (1, 1.6)), label="start")
    _draw_measure(upper, history, "mean_tokens", best)
    _draw_measure(lower, history, "correctness", best)
    last, tokens = best[-1][0], best[-1][1]["mean_tokens"]
    change = f"  ({100 * (tokens / start - 1):+.0f} %)" if start > 0 else ""
    look: dict[str, Any] = {"ha": "right", "va": "top", "fontsize": 9.5, "fontweight": "bold", "color": style.BEST}
    style.annotate(upper, f"{tokens:.1f}{change}", (last, tokens), (0, -8), **look)
    # Margins around the lengths; correctness within 0 and 1, over a range of at least 0.2.
    low, high = upper.get_ylim()
    margin = max(0.12 * (high - low), 1.0)
    upper.set_ylim(max(0.0, low - margin), high + margin / 2)
    low, high = lower.get_ylim()
    if high - low < 0.2:
        middle = (low + high) / 2
        low, high = middle - 0.1, middle + 0.1
    lower.set_ylim(max(-0.02, low), min(1.02, high))
    style.legend_below(figure, upper, 4)
    return style.to_png(figure)


def _spreads(history: History, measure: str) -> tuple[list[float], list[float], list[float]]:
    """The lowest, mean and highest value of each population."""
    measured = [[one[measure] for one in record["population"]] for record in history]
    means = [math.fsum(values) / len(values) for values in measured]
    return [min(values) for values in measured], means, [max(values) for values in measured]


def _best_so_far(history: History) -> list[tuple[float, Mapping[str, Any]]]:
    """When, and the best individual so far: after each population and after each generation's children.

    Of equal individuals the earlier one stays, as in the run's own hall of fame.
    """
    line: list[tuple[float, Mapping[str, Any]]] = []
    for record in history:
        for group, offset in GROUPS:
            before = [one for _, one in line[-1:]]
            best = max([*before, *record[group]], key=lambda one: one["fitness"])
            line.append((record["generation"] + offset, best))
    return line


def _generation_axis(axes: Axes, history: History) -> list[float]:
    """Whole numbers along x, with room for the children half a step after the last generation; the generations."""
    when = [record["generation"] for record in history]
    step = next(step for step in TICK_STEPS if (when[-1] - when[0]) / step <= 15)
    axes.set_xticks(range(when[0], when[-1] + 1, step))
    margin = 0.35 + 0.01 * (when[-1] - when[0])
    axes.set_xlim(when[0] - margin, when[-1] + 0.5 + margin)
    return when


def _marker_size(points: Sequence[float]) -> float:
    return 5.0 if len(points) <= 12 else 3.0


def _draw_mean(axes: Axes, when: Sequence[float], mean: Sequence[float], label: str, zorder: float) -> None:
    axes.plot(
        when, mean, color=style.MEAN, linewidth=1.6, linestyle=(0, (4, 2)), marker="o", ms=_marker_size(when),
        label=label, zorder=zorder,
    )  # fmt: skip


def _draw_individuals(axes: Axes, history: History) -> None:
    size = max(9.0, 30.0 - 0.7 * len(history))
    for (group, offset), face, name in zip(GROUPS, (style.DOT, style.PAPER), ("individual", "child"), strict=True):
        points = [(record["generation"] + offset, one["fitness"]) for record in history for one in record[group]]
        if points:
            x, y = zip(*points, strict=True)
            look: dict[str, Any] = {"facecolor": face, "edgecolor": style.DOT, "linewidth": 0.8, "alpha": 0.85}
            axes.scatter(x, y, s=size, zorder=2, label=name, **look)


def _draw_measure(axes: Axes, history: History, measure: str, best: Sequence[tuple[float, Mapping[str, Any]]]) -> None:
    when = [record["generation"] for record in history]
    low, mean, high = _spreads(history, measure)
    axes.fill_between(when, low, high, color=style.BAND, alpha=0.25, linewidth=0, label="population range")
    if len(when) == 1:
        # A band without width is invisible: a bar shows a single generation.
        axes.vlines(when, low, high, color=style.BAND, linewidth=5, alpha=0.5)
    _draw_mean(axes, when, mean, "population mean", zorder=2)
    x, y = [when for when, _ in best], [one[measure] for _, one in best]
    axes.step(x, y, where="post", color=style.BEST, linewidth=2.2, label="best individual so far")
    new = [i for i, (_, one) in enumerate(best) if i == 0 or one["fitness"] > best[i - 1][1]["fitness"]]
    style.draw_points(axes, [x[i] for i in new], [y[i] for i in new], "o", _marker_size(when) + 1, color=style.BEST)
