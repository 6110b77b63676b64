"""The systems of several runs against the plain model of one of them, on the test questions that both were asked.

A run reports against the system prompt that it was given.  Where that is another one than the plain one, its own report
does not say what it saves over the plain model; the `measurements.jsonl` of two runs on the same questions do.

`python benchmarks/gpu/pair.py PLAIN_RUN RUN [RUN ...] [--margin 0.03] [--result NAME]`
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import figures
from benchmarks.run_answers import measurements_of
from orchestrator.report.pairwise import compare
from orchestrator.report.systems import MeasuredSystem

SEED = 42
HEAD = ["run", "system", "questions", "tokens", "right", "ratio", "95 %", "points", "95 %", "lost<margin"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plain", type=Path, help="the run whose plain model is the measure")
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--margin", type=float, default=0.03)
    parser.add_argument("--result", default="", help="also written to benchmarks/results/gpu_RESULT.json")
    options = parser.parse_args()
    plain = next(on_the_test_set(options.plain, kind="plain"), None)
    if plain is None:
        sys.exit(f"{options.plain}: its plain model has no answers to test questions")
    found = [
        against(plain, system, run.name, options.margin) for run in options.runs for system in on_the_test_set(run)
    ]
    print("on the test questions that the system and the plain model were both asked:")
    print(figures.table(HEAD, [row(one) for one in found]))
    if options.result:
        figures.write(f"gpu_{options.result}", {"command": " ".join(["python", *sys.argv]), "systems": found})
    return 0


def on_the_test_set(run: Path, kind: str = "") -> Iterator[MeasuredSystem]:
    """The systems of a run, or those of one kind, with their answers to the test questions."""
    for name, its_kind, test in measurements_of(run, "test"):
        if kind in ("", its_kind):
            yield MeasuredSystem(name, its_kind, "", test=test)


def against(plain: MeasuredSystem, system: MeasuredSystem, run: str, margin: float) -> dict[str, Any]:
    """The figures of a system against the plain model, all on the `n` questions that both were asked.

    Raises: ValueError for no question in common.
    """
    assert plain.test is not None and system.test is not None
    pair = compare(plain, plain.test, system.test, margin, SEED)
    ratio, change = pair.ratio.ratio, pair.change.difference
    return {
        "run": run,
        "system": system.name,
        "n": pair.change.count,
        "mean_tokens": pair.ratio.after,
        "correct": pair.change.after,
        "token_ratio": [ratio.value, ratio.low, ratio.high],
        "correctness_difference": [change.value, change.low, change.high],
        "is_non_inferior": pair.non_inferiority.is_shown,
    }


def row(one: dict[str, Any]) -> list[str]:
    ratio, low, high = one["token_ratio"]
    points, least, most = (100 * value for value in one["correctness_difference"])
    shown = figures.loss_within_margin(one["is_non_inferior"], one["correctness_difference"][2])
    return [
        one["run"], one["system"], str(one["n"]), f"{one['mean_tokens']:.1f}", str(one["correct"]),
        f"{ratio:.3f}", f"{low:.3f} to {high:.3f}", f"{points:+.1f}", f"{least:+.1f} to {most:+.1f}", shown,
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
