"""Two plots over the generations: fitness, and response length with correctness below it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from tasks.cpu.plots import style
from tasks.cpu.plots.style import NAN, BestSoFar, Record, best_so_far, generations, spread, to_float, values


def fitness_png(history: Sequence[Record]) -> bytes:
    """Draw the fitness of a run: best, mean, best so far, and every individual.

    Args:
        history: the records of `history.jsonl`, oldest first; null and NaN values leave gaps.
    Returns: a PNG, the same bytes for the same history.
    """
    figure = style.new_figure(9.0, 5.2)
    axes = figure.add_subplot()
    style.style_axes(
        axes, "Fitness by generation", "generation (its children half a step on)", "fitness (higher is better)"
    )
    when = generations(history)
    style.generation_axis(axes, when)
    if history:
        _draw_individuals(axes, history)
        _draw_lines(axes, history, when)
        style.legend_below(figure, axes, 6)
    else:
        style.show_empty(axes, "no generation has finished yet")
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
    mean = [to_float(record.get("mean")) for record in history]
    best = [to_float(record.get("best")) for record in history]
    style.draw_mean(axes, when, mean, "mean", zorder=4)
    marker = style.marker_size(len(when))
    axes.plot(when, best, color=style.BEST, linewidth=2.2, marker="o", ms=marker, label="best", zorder=5)
    # A generation's record includes its children, which are evaluated half a step after the population.
    steps = [(float(when[0]), best[0])] + [
        (generation + 0.5, to_float(record.get("best_ever"))) for generation, record in zip(when, history, strict=True)
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


def lengths_png(
    history: Sequence[Record], baseline_tokens: float | None, baseline_name: str = "initial individual"
) -> bytes:
    """Draw the mean response length of a run, with correctness below it.

    Args:
        history: the records of `history.jsonl`, oldest first; null and NaN values leave gaps.
        baseline_tokens: mean tokens of the initial individual on the training set, if it is known.
        baseline_name: its name in the legend.
    Returns: a PNG, the same bytes for the same input.
    """
    figure = style.new_figure(9.0, 6.4)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2.1, 1.0])
    style.style_axes(upper, "Mean response length (tokens) vs evolution iteration", "", "tokens an answer")
    style.style_axes(lower, "", "evolution iteration (generation; its children half a step on)", "answered correctly")
    style.generation_axis(upper, generations(history))
    lower.yaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))
    lower.yaxis.set_major_locator(MaxNLocator(nbins=5))
    if not history:
        style.show_empty(upper, "no generation has finished yet")
        return style.to_png(figure)
    best = best_so_far(history)
    _draw_baseline(upper, baseline_tokens, baseline_name)
    _draw_measure(upper, history, "mean_tokens", best)
    _draw_measure(lower, history, "correctness", best)
    _annotate_change(upper, best, to_float(baseline_tokens))
    _set_limits(upper, lower)
    style.legend_below(figure, upper, 4)
    return style.to_png(figure)


def _draw_measure(axes: Axes, history: Sequence[Record], measure: str, best: list[BestSoFar]) -> None:
    when = generations(history)
    spreads = [spread(record, measure) for record in history]
    low, mean, high = [s.low for s in spreads], [s.mean for s in spreads], [s.high for s in spreads]
    axes.fill_between(when, low, high, color=style.BAND, alpha=0.25, linewidth=0, label="population range")
    if len(when) == 1:
        # A band without width is invisible: a bar shows a single generation.
        axes.vlines(when, low, high, color=style.BAND, linewidth=5, alpha=0.5)
    style.draw_mean(axes, when, mean, "population mean", zorder=2)
    marker = style.marker_size(len(when))
    x = [champion.when for champion in best]
    y = [getattr(champion, measure) for champion in best]
    axes.step(x, y, where="post", color=style.BEST, linewidth=2.2, label="best individual so far")
    new = [i for i in range(len(best)) if i == 0 or best[i].fitness > best[i - 1].fitness]
    axes.plot([x[i] for i in new], [y[i] for i in new], linestyle="", marker="o", ms=marker + 1, color=style.BEST)


def _draw_baseline(axes: Axes, baseline: float | None, name: str) -> None:
    tokens = to_float(baseline)
    if not math.isnan(tokens):
        axes.axhline(tokens, color=style.RECORD, linewidth=1.3, linestyle=(0, (1, 1.6)), label=name)


def _annotate_change(axes: Axes, best: list[BestSoFar], baseline: float) -> None:
    if not best or math.isnan(best[-1].mean_tokens):
        return
    last = best[-1]
    text = f"{last.mean_tokens:.1f}"
    if not math.isnan(baseline) and baseline > 0:
        text += f"  ({100 * (last.mean_tokens / baseline - 1):+.0f} %)"
    axes.annotate(
        text,
        (last.when, last.mean_tokens),
        xytext=(0, -8),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=9.5,
        fontweight="bold",
        color=style.BEST,
    )


def _set_limits(upper: Axes, lower: Axes) -> None:
    """Margins around the lengths; correctness within 0 and 1, over a range of at least 0.2."""
    low, high = upper.get_ylim()
    margin = max(0.12 * (high - low), 1.0)
    upper.set_ylim(max(0.0, low - margin), high + margin / 2)
    low, high = lower.get_ylim()
    if high - low < 0.2:
        middle = (low + high) / 2
        low, high = middle - 0.1, middle + 0.1
    lower.set_ylim(max(-0.02, low), min(1.02, high))
