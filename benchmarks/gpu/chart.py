"""A plot of the GPU's use over time, one panel for each run: requests in flight, and times without any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

INK, IDLE, GPU = "#1f5fa8", "#d9534f", "#888888"


def draw(runs: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the plot.  A run has `slots`, `share`, `rate` (or None) and `samples` as in `watching.Sample`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    runs = sorted(runs, key=lambda run: run["slots"])
    figure, axes = pyplot.subplots(
        len(runs), 1, figsize=(9, 2.2 * len(runs) + 0.6), sharex=True, squeeze=False, layout="constrained"
    )
    for axis, run in zip(axes[:, 0], runs, strict=True):
        _panel(axis, run)
    axes[-1, 0].set_xlabel("seconds from the run's first evaluation")
    entries = dict(
        pair for axis in figure.axes for pair in zip(*reversed(axis.get_legend_handles_labels()), strict=True)
    )
    figure.legend(
        entries.values(), entries.keys(), loc="outside lower center", ncols=len(entries), fontsize=8, frameon=False
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _panel(axis: Any, run: Mapping[str, Any]) -> None:
    samples = run["samples"]
    first = next((s["at"] for s in samples if s["pending"]), samples[0]["at"])
    last = max((s["at"] for s in samples if s["in_flight"] or s["pending"]), default=samples[-1]["at"])
    shown = [s for s in samples if first - 1 <= s["at"] <= last + 1]
    at = [s["at"] - first for s in shown]
    in_flight = [s["in_flight"] for s in shown]
    starved = [s["pending"] > 0 and s["in_flight"] == 0 for s in shown]
    axis.fill_between(at, in_flight, step="post", color=INK, alpha=0.8, linewidth=0, label="requests in flight")
    top = max([*in_flight, 1])
    axis.fill_between(
        at, 0, top, where=starved, step="post", color=IDLE, alpha=0.7, linewidth=0, label="idle, evaluations wait"
    )
    axis.set_ylim(0, top * 1.05)
    axis.set_ylabel("requests")
    if any(s["utilization"] is not None for s in shown):
        gpu = axis.twinx()
        gpu.plot(at, [s["utilization"] for s in shown], color=GPU, linewidth=0.8, label="GPU busy, %")
        gpu.set_ylim(0, 105)
        gpu.set_ylabel("GPU busy, %")
    slots = run["slots"]
    axis.set_title(
        f"{slots} individual{'s' if slots > 1 else ''} in flight: "
        f"busy {100 * run['share']:.0f}% of the time with evaluations pending"
        + (f", {run['rate']:.2f} of the direct rate" if run["rate"] else ""),
        fontsize=10,
    )
