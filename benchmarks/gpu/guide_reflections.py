"""Reflections of runs of `guide_learning.py`: their precision on the next batch, and the planted rules that they state.

Paired: the next batch judged under the old and the new guidance with the same seeds; unpaired: the batch before and the
next one.  Recall: planted rules that some proposal states, and that the guidance states in the end, by the matcher.

`python benchmarks/gpu/guide_reflections.py gpu_guide_learning_11 gpu_guide_learning_12`
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks import figures
from tasks.guide.figures import share


def shares_of(missions: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    """Rows of a share: what it is, how many, of how many, percent and interval."""
    stats = [one["stats"] for one in missions if one["stats"]]

    def summed(*path: str) -> tuple[int, int]:
        parts = [_at(one, path) for one in stats]
        return sum(part["count"] for part in parts), sum(part["of"] for part in parts)

    planted = sum(len(one["planted"]) for one in missions)
    counts = {
        "edits applied, of those proposed": summed("reflections", "acceptance"),
        "precision on the next batch, paired": summed("precision", "paired"),
        "precision on the next batch, unpaired": summed("precision", "unpaired"),
        "planted rules that a proposal states": (sum(len(one["proposed_rules"]) for one in missions), planted),
        "planted rules in the last guidance": (sum(len(one["learned_rules"]) for one in missions), planted),
        "wrong tickets that a proposal names": summed("recall"),
        "answers that keep the three lines": summed("format"),
        "critiques that could not be used": (
            sum(one["critiques"]["rejected"] for one in stats),
            sum(one["critiques"]["asked"] for one in stats),
        ),
    }
    for name, (count, total) in counts.items():
        found = share(count, total)
        cells = [name, f"{count:,}", f"{total:,}"]
        if found.value is None or found.low is None or found.high is None:
            yield [*cells, "-", "-"]
        else:
            yield [*cells, f"{100 * found.value:.1f}", f"{100 * found.low:.1f} to {100 * found.high:.1f}"]


def _at(value: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any]:
    for name in path:
        value = value[name]
    return value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("learned", nargs="+", help="results of guide_learning.py, without .json")
    parser.add_argument("--result", default="gpu_guide_reflections", help="written to benchmarks/results/RESULT.json")
    options = parser.parse_args()
    runs = [
        run
        for name in options.learned
        for run in json.loads((figures.FOLDER / f"{name}.json").read_text(encoding="utf-8"))["runs"].values()
    ]
    missions = [mission for run in runs for mission in run["missions"].values()]
    gates: Counter[str] = Counter()
    for mission in missions:
        gates.update(mission["gates"])
    rows = list(shares_of(missions))
    busy = [{name: run.get(name) for name in ("code", "parks", "seconds", "busy", "mean_in_flight")} for run in runs]
    print(figures.table(("what", "count", "of", "%", "95 %"), rows))
    print("gates:", ", ".join(f"{count} {gate}" for gate, count in gates.most_common()))
    for one in busy:
        print("run:", ", ".join(f"{name} {value}" for name, value in one.items()))
    command = " ".join(["python", *sys.argv])
    figures.write(options.result, {"command": command, "table": rows, "gates": dict(gates), "runs": busy})
    return 0


if __name__ == "__main__":
    sys.exit(main())
