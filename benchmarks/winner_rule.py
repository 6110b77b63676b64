"""When an evolved finalist should win over what the search started from: at which share of the bootstrap's resamples.

From the validation answers of finished runs: in each draw, some of a run's validation questions choose between its
start and its best finalist, and the others test the choice.  The finalists did best on the training questions, so their
validation answers are those to new questions.  The start has been chosen on the validation set in part, which makes it
seem better than it is, here as in a run.  The fitness is that of CONFIG_OBJECTIVE="constrained".
`python -m benchmarks.winner_rule RUN [RUN ...] [--choose 100] [--draws 100] [--result winner_rule]`
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks.figures import table, write
from benchmarks.run_answers import PLAIN, Answers
from orchestrator.output import OutputFolder
from orchestrator.runs.superiority import required_share, share_better
from orchestrator.runs.vectors import read_vectors
from tasks.models import Constrained

SEED = 1
MOST_LOST = 3
"""Points of right answers."""


def least_shares(finalists: int) -> Mapping[str, float]:
    """By rule: the share of resamples in which the best of so many finalists must be better; above 1 it never wins."""
    corrected = required_share(finalists)
    return {"never": 1.1, "95 %, corrected": corrected, "95 %": 0.95, "90 %": 0.9, "80 %": 0.8, "50 %": 0.5}


def start_of(folder: Path) -> str:
    """The name of the vector without search that a run started from.  Raises: SystemExit where it started from none."""
    vectors = read_vectors(OutputFolder(folder))
    names = [name for name, one in vectors.best.items() if one == vectors.start] if vectors else []
    if not names:
        raise SystemExit(f"{folder}: it started from no vector")
    return names[0]


def one_draw(answers: Answers, start: str, rng: np.random.Generator, choose: int) -> dict[str, list[float]]:
    """What each rule's choice shows on the questions that did not choose: see the head of the table."""
    drawn = rng.permutation(answers.count)
    asked, others = drawn[:choose], drawn[choose:]
    finalists = answers.named("evolved")
    best = answers.best(finalists, asked)
    compared = (answers.on(name, asked) for name in (best, start, PLAIN))
    share = share_better(*compared, Constrained(1.0, 0.0), int(rng.integers(2**31)))
    plain = answers.on(PLAIN, others)
    results = {}
    for rule, least in least_shares(len(finalists)).items():
        chosen = best if share >= least else start
        ours = answers.on(chosen, others)
        points = 100 * float(ours.correct.mean() - plain.correct.mean())
        ratio = float(ours.tokens.mean() / plain.tokens.mean())
        lost = float(points < -MOST_LOST)
        results[rule] = [float(share >= least), ratio, points, lost, math.log(answers.fitness(chosen, others))]
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="output folders")
    parser.add_argument("--choose", type=int, default=100, help="validation questions that choose")
    parser.add_argument("--draws", type=int, default=100, help="of each run")
    parser.add_argument("--result", default="winner_rule", help="written to benchmarks/results/RESULT.json")
    options = parser.parse_args()
    if min(options.choose, options.draws) < 1:
        parser.error("--choose and --draws are at least 1")
    for folder in options.runs:
        if not (folder / "measurements.jsonl").exists():
            parser.error(f"{folder} is not the folder of a finished run")
    runs = [(Answers(folder, "validation"), start_of(folder)) for folder in options.runs]
    for folder, (answers, start) in zip(options.runs, runs, strict=True):
        if start not in answers.kinds or not answers.named("evolved"):
            parser.error(f"{folder}: no validation answers of {start!r}, or of no finalist")
    if any(options.choose >= answers.count for answers, _ in runs):
        parser.error(f"--choose {options.choose} leaves no question of a run to test the choice")
    rng = np.random.default_rng(SEED)
    draws = [one_draw(*run, rng, options.choose) for run in runs for _ in range(options.draws)]
    head = ["the finalist wins at", "it won", "tokens to plain's", "points", "more than 3 lost", "log fitness"]
    means = {rule: np.mean([draw[rule] for draw in draws], axis=0).tolist() for rule in draws[0]}
    rows = [
        [name, f"{100 * won:.0f} %", f"{ratio:.3f}", f"{points:+.2f}", f"{100 * lost:.0f} %", f"{fitness:+.3f}"]
        for name, (won, ratio, points, lost, fitness) in means.items()
    ]
    print(table(head, rows))
    settings = {"runs": [folder.name for folder in options.runs], "choose": options.choose, "draws": options.draws}
    rules = {name: dict(zip(head[1:], figures, strict=True)) for name, figures in means.items()}
    write(options.result, {**settings, "rules": rules})


if __name__ == "__main__":
    main()
