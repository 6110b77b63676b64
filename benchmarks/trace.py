"""The trace of a run on the embedded farm as a picture: what its orchestrator and its three workers did, and when.

The run sends its spans over OTLP to a receiver in this process, which knows nothing of the run beside them.  For each
worker: its tasks, the seconds that it worked, and the share of the generations' time in which it did.

`python benchmarks/trace.py [--generations 3] [--image docs/images/trace.png] [--set NAME=VALUE ...]`
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from figures import table, write
from matplotlib.axes import Axes

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from otlp_receiver import OtlpReceiver, ReceivedSpan  # noqa: E402

OPTIONS = {
    "TRAINING_INDICES": "0-5", "VALIDATION_INDICES": "16-23", "TEST_INDICES": "32-39", "TARGET_MAX_NEW_TOKENS": "48",
    "PROMPTS_PATH": "", "POPULATION_SIZE": "4", "CXPB": "0.6", "MUTPB": "0.8",
}  # fmt: skip
PROCESSES = ("orchestrator", "gpu", "openai", "cpu")
COLOURS = {
    "evolve": "#d0d3d9", "generation": "#9aa3b2", "evaluation": "#626f86", "answer": "#2f6fde", "judge": "#e08a1e",
    "reflect": "#c0392b", "merge": "#8e44ad", "score": "#2e9e6b",
}  # fmt: skip
OTHER = "#7f8c8d"  # plots and processors
ROW = 0.8


def traced_run(options: Mapping[str, str]) -> list[ReceivedSpan]:
    """The spans of a run with these options, oldest first.  Raises: SystemExit when the run fails."""
    receiver = OtlpReceiver()
    with tempfile.TemporaryDirectory(prefix="trace-") as folder:
        chosen = {**OPTIONS, "FARM_DIR": f"{folder}/farm", **options}
        sets = [part for name, value in chosen.items() for part in ("--set", f"{name}={value}")]
        config = ["--config", "configs/embedded.config", "--output", f"{folder}/run"]
        command = [sys.executable, "-m", "orchestrator", "evolve", "--plain", *config, *sets]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **receiver.environment}
        status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    receiver.close()
    if status:
        sys.exit(status)
    return sorted(receiver.spans, key=lambda span: span.began)


def lanes(spans: Sequence[ReceivedSpan]) -> list[tuple[str, list[ReceivedSpan]]]:
    """The rows of the picture: for each process as many as it has spans at once, a span above those within it."""
    rows: list[tuple[str, list[ReceivedSpan]]] = []
    for process in PROCESSES:
        own: list[list[ReceivedSpan]] = []
        for span in (span for span in spans if span.worker == process):
            free = next((row for row in own if row[-1].ended <= span.began), None)
            if free is None:
                own.append(free := [])
            free.append(span)
        rows += [(process, row) for row in own]
    return rows


def draw(spans: Sequence[ReceivedSpan], path: Path) -> None:
    """All generations of the run, and below how the first begins: until all of its reflector's calls have ended."""
    generations = [span for span in spans if span.name == "generation"]
    began, ended = generations[0].began, generations[-1].ended
    calls = [span.ended for span in spans if span.name == "reflect" and span.began < generations[0].ended]
    close = began + 1.1 * (max(calls, default=generations[0].ended) - began)
    heights = [len(lanes(within(spans, began, end))) for end in (ended, close)]
    figure, axes = plt.subplots(2, figsize=(12, 1.6 + 0.3 * sum(heights)), height_ratios=heights, layout="constrained")
    for one, end in zip(axes, (ended, close), strict=True):
        _draw_part(one, within(spans, began, end), began, end)
    axes[-1].set_xlabel("seconds since the first generation began")
    names = [name for name in COLOURS if any(span.name == name for span in within(spans, began, ended))]
    patches = [plt.Rectangle((0, 0), 1, 1, color=COLOURS.get(name, OTHER)) for name in [*names, "files"]]
    axes[0].legend(
        patches, [*names, "plots, processors"], ncols=9, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0)
    )
    figure.savefig(path, dpi=110)


def within(spans: Sequence[ReceivedSpan], began: float, ended: float) -> list[ReceivedSpan]:
    return [span for span in spans if span.ended > began and span.began < ended]


def _draw_part(axes: Axes, spans: Sequence[ReceivedSpan], began: float, ended: float) -> None:
    rows = lanes(spans)
    for number, (_, row) in enumerate(rows):
        for span in row:
            _draw_span(axes, number, span, began, ended)
    first = {process: number for number, (process, _) in reversed(list(enumerate(rows)))}
    axes.set_yticks(list(first.values()), list(first))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, ended - began)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)


def _draw_span(axes: Axes, row: int, span: ReceivedSpan, began: float, ended: float) -> None:
    """A bar, at least so wide that it is seen, with what it is about where that fits."""
    whole = ended - began
    left, right = max(span.began, began) - began, min(span.ended, ended) - began
    colour = COLOURS.get(span.name, OTHER)
    axes.barh(row, max(right - left - 0.001 * whole, 0.0015 * whole), ROW, left, color=colour)
    label = {
        "evolve": f"run {span.attributes['whetstone.run']}",
        "generation": f"generation {span.attributes.get('whetstone.generation', '')}",
        "evaluation": str(span.attributes.get("whetstone.plan")),
    }.get(span.name, str(span.attributes.get("whetstone.child", "")).partition("_")[2])
    if right - left > 0.0055 * len(label) * whole:
        dark = "black" if span.name == "evolve" else "white"
        axes.text((left + right) / 2, row, label, ha="center", va="center", fontsize=7, color=dark)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generations", type=int, default=3)
    parser.add_argument("--image", type=Path, default=ROOT / "docs/images/trace.png")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    given = parser.parse_args()
    chosen = dict(one.split("=", 1) for one in given.set)
    spans = traced_run({"NGEN": str(given.generations), **chosen})
    draw(spans, given.image)
    generations = [span for span in spans if span.name == "generation"]
    wall = generations[-1].ended - generations[0].began
    found = {}
    for process in PROCESSES[1:]:
        own = [span for span in within(spans, generations[0].began, generations[-1].ended) if span.worker == process]
        seconds = sum(span.ended - span.began for span in own)
        found[process] = {"tasks": len(own), "seconds": round(seconds, 2), "share": round(seconds / wall, 3)}
    print(
        table(["worker", "tasks", "seconds", "share"], [[name, *map(str, one.values())] for name, one in found.items()])
    )
    traces, ids = {span.trace for span in spans}, {span.id for span in spans}
    orphans = sum(bool(span.parent) and span.parent not in ids for span in spans)
    print(f"{len(spans)} spans in {len(traces)} trace, {orphans} without their parent; {given.image}")
    write("trace", {"spans": len(spans), "traces": len(traces), "orphans": orphans, "wall": round(wall, 2), **found})


if __name__ == "__main__":
    main()
