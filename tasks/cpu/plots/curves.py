"""Two plots over the generations: fitness, and response length with correctness below it.

A history has the records of `history.jsonl`, oldest first; missing, null and non-finite values leave gaps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from tasks.cpu.plots import style
from tasks.cpu.plots.style import NAN, to_float

Record = Mapping[str, Any]
TICK_STEPS = tuple(digit * 10**power for power in range(9) for digit in (1, 2, 5))
GROUPS = (("population", 0.0), ("offspring", 0.5))  # and when: children half a step after the population


class Best(NamedTuple):
    """The best individual up to `when`: g for the population of generation g, g + 0.5 for its children."""

    when: float
    fitness: float
    mean_tokens: float
    correctness: float


def fitness_png(history: Sequence[Record]) -> bytes:
    """The fitness of a run: best, mean, best so far, and every individual."""
    figure = style.new_figure(9.0, 5.2)
    axes = figure.add_subplot()
    style.style_axes(
        axes, "Fitness by generation", "generation (its children half a step on)", "fitness (higher is better)"
    )
    when = _generations(history)
    _generation_axis(axes, when)
    if not history:
        style.show_empty(axes, "no generation has finished yet")
        return style.to_png(figure)
    low, _, high = _spreads(history, "fitness")
    axes.fill_between(when, low, high, color=style.BAND, alpha=0.22, linewidth=0, label="population range")
    _draw_individuals(axes, history)
    _draw_mean(axes, when, [to_float(record.get("mean")) for record in history], "mean", zorder=4)
    best = [to_float(record.get("best")) for record in history]
    axes.plot(when, best, color=style.BEST, linewidth=2.2, marker="o", ms=_marker_size(when), label="best", zorder=5)
    # A generation's record includes its children, which are evaluated half a step after the population.
    ever = [to_float(record.get("best_ever")) for record in history]
    x, y = [float(when[0]), *(generation + 0.5 for generation in when)], [best[0], *ever]
    axes.step(x, y, where="post", color=style.RECORD, linewidth=1.6, label="best so far", zorder=3)
    last = next(((a, b) for a, b in zip(x[::-1], y[::-1], strict=True) if not math.isnan(b)), None)
    if last is not None:
        look: dict[str, Any] = {"color": style.RECORD, "markeredgecolor": style.PAPER}
        axes.plot(*([value] for value in last), marker="*", ms=12, zorder=6, **look)
        style.annotate(axes, f"{last[1]:.4f}", last, (0, 9), fontsize=9.5, fontweight="bold", color=style.RECORD)
        axes.margins(y=0.14)
    style.legend_below(figure, axes, 6)
    return style.to_png(figure)


def lengths_png(
    history: Sequence[Record], baseline_tokens: float | None, baseline_name: str = "initial individual"
) -> bytes:
    """The mean response length of a run, with correctness below it.

    `baseline_tokens`: mean tokens of the initial individual on the training set, if it is known.
    """
    figure = style.new_figure(9.0, 6.4)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2.1, 1.0])
    style.style_axes(upper, "Mean response length (tokens) vs evolution iteration", "", "tokens an answer")
    style.style_axes(lower, "", "evolution iteration (generation; its children half a step on)", "answered correctly")
    _generation_axis(upper, _generations(history))
    lower.yaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))
    lower.yaxis.set_major_locator(MaxNLocator(nbins=5))
    if not history:
        style.show_empty(upper, "no generation has finished yet")
        return style.to_png(figure)
    best, baseline = _best_so_far(history), to_float(baseline_tokens)
    if not math.isnan(baseline):
        upper.axhline(baseline, color=style.RECORD, linewidth=1.3, linestyle=(0, (1, 1.6)), label=baseline_name)
    _draw_measure(upper, history, "mean_tokens", best)
    _draw_measure(lower, history, "correctness", best)
    if best and not math.isnan(tokens := best[-1].mean_tokens):
        change = f"  ({100 * (tokens / baseline - 1):+.0f} %)" if baseline > 0 else ""
        look: dict[str, Any] = {"ha": "right", "va": "top", "fontsize": 9.5, "fontweight": "bold", "color": style.BEST}
        style.annotate(upper, f"{tokens:.1f}{change}", (best[-1].when, tokens), (0, -8), **look)
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


def _generations(history: Sequence[Record]) -> list[int]:
    return [int(record["generation"]) for record in history]


def _values(record: Record, group: str, measure: str) -> list[float]:
    """The finite values of a measure in "population" or "offspring"."""
    measured = (to_float(individual.get(measure)) for individual in record.get(group) or ())
    return [value for value in measured if not math.isnan(value)]


def _spreads(history: Sequence[Record], measure: str) -> tuple[list[float], list[float], list[float]]:
    """The lowest, mean and highest value of each population; NaN without a value."""
    measured = [_values(record, "population", measure) or [NAN] for record in history]
    means = [math.fsum(values) / len(values) for values in measured]
    return [min(values) for values in measured], means, [max(values) for values in measured]


def _best_so_far(history: Sequence[Record]) -> list[Best]:
    """The best individual so far, after each population and after each generation's children.

    Of equal individuals the earlier one stays, as in the run's own hall of fame.
    """
    best: Best | None = None
    line: list[Best] = []
    for record in history:
        for group, offset in GROUPS:
            when = int(record["generation"]) + offset
            for individual in record.get(group) or ():
                found = Best(when, *(to_float(individual.get(name)) for name in Best._fields[1:]))
                if not math.isnan(found.fitness) and (best is None or found.fitness > best.fitness):
                    best = found
            if best is not None:
                line.append(best._replace(when=when))
    return line


def _generation_axis(axes: Axes, generations: list[int]) -> None:
    """Whole numbers along x, with room for the children half a step after the last generation."""
    first, last = (generations[0], generations[-1]) if generations else (0, 0)
    step = next(step for step in TICK_STEPS if (last - first) / step <= 15)
    axes.set_xticks(range(first, last + 1, step))
    margin = 0.35 + 0.01 * (last - first)
    axes.set_xlim(first - margin, last + 0.5 + margin)


def _marker_size(points: Sequence[float]) -> float:
    return 5.0 if len(points) <= 12 else 3.0


def _draw_mean(axes: Axes, when: Sequence[float], mean: Sequence[float], label: str, zorder: float) -> None:
    axes.plot(
        when, mean, color=style.MEAN, linewidth=1.6, linestyle=(0, (4, 2)), marker="o", ms=_marker_size(when),
        label=label, zorder=zorder,
    )  # fmt: skip


def _draw_individuals(axes: Axes, history: Sequence[Record]) -> None:
    size = max(9.0, 30.0 - 0.7 * len(history))
    for (group, offset), face, name in zip(GROUPS, (style.DOT, style.PAPER), ("individual", "child"), strict=True):
        points = [
            (int(record["generation"]) + offset, fitness)
            for record in history
            for fitness in _values(record, group, "fitness")
        ]
        if points:
            x, y = zip(*points, strict=True)
            look: dict[str, Any] = {"facecolor": face, "edgecolor": style.DOT, "linewidth": 0.8, "alpha": 0.85}
            axes.scatter(x, y, s=size, zorder=2, label=name, **look)


def _draw_measure(axes: Axes, history: Sequence[Record], measure: str, best: list[Best]) -> None:
    when = _generations(history)
    low, mean, high = _spreads(history, measure)
    axes.fill_between(when, low, high, color=style.BAND, alpha=0.25, linewidth=0, label="population range")
    if len(when) == 1:
        # A band without width is invisible: a bar shows a single generation.
        axes.vlines(when, low, high, color=style.BAND, linewidth=5, alpha=0.5)
    _draw_mean(axes, when, mean, "population mean", zorder=2)
    x, y = [champion.when for champion in best], [getattr(champion, measure) for champion in best]
    axes.step(x, y, where="post", color=style.BEST, linewidth=2.2, label="best individual so far")
    new = [i for i in range(len(best)) if i == 0 or best[i].fitness > best[i - 1].fitness]
    style.draw_points(axes, [x[i] for i in new], [y[i] for i in new], "o", _marker_size(when) + 1, color=style.BEST)
