"""Best fitness so far against answered training questions, one line for each run of a result of `search.py`.

Runs of one kind have one colour.  The fitness is that on the training questions; 1 is the plain model.

`python benchmarks/gpu/progress.py --result search_tatqa --kinds cma meaning --image docs/images/waste_and_meaning.png`
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--result", default="search_tatqa", help="of benchmarks/results/gpu_RESULT.json")
    parser.add_argument("--kinds", nargs="+", default=["cma", "meaning"])
    parser.add_argument("--labels", nargs="+", default=["clusters by waste", "clusters by meaning"])
    parser.add_argument("--image", type=Path, required=True)
    options = parser.parse_args()
    document = json.loads((RESULTS / f"gpu_{options.result}.json").read_text("utf-8"))
    labels = dict(zip(options.kinds, options.labels, strict=True))
    draw({labels[kind]: runs_of(document, kind) for kind in options.kinds}, options.image)


def runs_of(document: dict[str, Any], kind: str) -> list[tuple[list[int], list[float]]]:
    """Of each run of a kind: answered questions and best fitness after each generation."""
    runs = [run for name, run in document["runs"].items() if name.rpartition("-")[0] == kind]
    return [
        (
            list(itertools.accumulate(document["rows"] * one["computed"] for one in run["evaluations"])),
            run["best_by_generation"],
        )
        for run in runs
    ]


def draw(lines: dict[str, list[tuple[list[int], list[float]]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
    for color, (label, runs) in zip(("#1f5fa8", "#c8741a", "#3a8f5c"), lines.items(), strict=False):
        for number, (asked, best) in enumerate(runs):
            axis.plot(asked, best, color=color, marker="o", markersize=4, label=None if number else label)
    axis.set_xlabel("answered training questions")
    axis.set_ylabel("best fitness so far (1 is the plain model)")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
