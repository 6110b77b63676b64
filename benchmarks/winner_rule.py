"""When an evolved finalist should win over what the search started from: at which share of the bootstrap's resamples.

From the validation answers of finished runs: in each draw, some of a run's validation questions choose between its
start and its best finalist, and the others test the choice.  The finalists did best on the training questions, so their
validation answers are those to new questions.  The start has been chosen on the validation set in part, which makes it
seem better than it is, here as in a run.
`python benchmarks/winner_rule.py RUN [RUN ...] [--choose 100] [--draws 100] [--result winner_rule]`
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from figures import table, write

from orchestrator.runs.superiority import Answered, share_better
from tasks.models import Constrained
from tasks.objective import additive_fitness_of

PLAIN = "none"
SEED = 1
LEVELS: Mapping[str, float] = {
    "start": 1.1,
    "as the program: 95 %, corrected": 0.95,
    "95 %": 0.95,
    "90 %": 0.9,
    "80 %": 0.8,
    "50 %": 0.5,
}
"""The least share of resamples in which the finalist is better; above 1 it never wins."""
CORRECTED = "as the program: 95 %, corrected"


class Run(NamedTuple):
    """Answers to the same validation questions: of the plain model, of the start, and of each finalist."""

    plain: Answered
    start: Answered
    finalists: tuple[Answered, ...]

    @classmethod
    def read(cls, folder: Path) -> Run:
        """Raises: SystemExit for a run that started from no vector, or has no finalists."""
        start = start_of(folder)
        lines = [json.loads(line) for line in (folder / "measurements.jsonl").read_text("utf-8").splitlines()]
        kept = {line["system"]: line for line in lines if line["set"] == "validation" and not line["repeat"]}
        if {PLAIN, start} - kept.keys():
            raise SystemExit(f"{folder}: no validation answers of {start!r}")
        whole = len(kept[PLAIN]["examples"])
        of = {name: Answered.of([(line["tokens"], line["correct"])]) for name, line in kept.items()}
        evolved = [name for name, line in kept.items() if line["kind"] == "evolved" and len(line["examples"]) == whole]
        if not evolved:
            raise SystemExit(f"{folder}: no finalists")
        return cls(of[PLAIN], of[start], tuple(of[name] for name in evolved))

    def on(self, asked: np.ndarray) -> Run:
        """The same systems on some of the questions."""
        plain, start, *others = (Answered(*(v[asked] for v in one)) for one in (self[0], self[1], *self[2]))
        return Run(plain, start, tuple(others))

    def worth(self, one: Answered) -> float:
        """The logarithm of the fitness, relative to the plain model."""
        here = Constrained(self.plain.tokens.mean(), self.plain.correct.mean())
        return additive_fitness_of(float(one.tokens.mean()), float(one.correct.mean()), here)


def start_of(folder: Path) -> str:
    """The name of the vector without search that a run started from.  Raises: SystemExit where it started from none."""
    vectors = json.loads((folder / "vectors.json").read_text("utf-8"))
    for name, one in vectors["best"].items():
        if one == vectors["start"]:
            return str(name)
    raise SystemExit(f"{folder}: it started from no vector")


def tested(run: Run, rng: np.random.Generator, choose: int) -> dict[str, list[float]]:
    """What each level's choice shows on the questions that did not choose: see the head of the table."""
    drawn = rng.permutation(len(run.plain.tokens))
    seen, other = run.on(drawn[:choose]), run.on(drawn[choose:])
    best = max(range(len(seen.finalists)), key=lambda i: seen.worth(seen.finalists[i]))
    objective = Constrained(1.0, 0.0)
    share = share_better(seen.finalists[best], seen.start, seen.plain, objective, int(rng.integers(2**31)))
    found = {}
    for name, level in LEVELS.items():
        least = 1 - (1 - level) / len(run.finalists) if name == CORRECTED else level
        one = other.finalists[best] if share >= least else other.start
        points = 100 * float(one.correct.mean() - other.plain.correct.mean())
        ratio = float(one.tokens.mean() / other.plain.tokens.mean())
        found[name] = [float(share >= least), ratio, points, float(points < -3), other.worth(one)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="output folders")
    parser.add_argument("--choose", type=int, default=100, help="validation questions that choose")
    parser.add_argument("--draws", type=int, default=100, help="of each run")
    parser.add_argument("--result", default="winner_rule", help="written to benchmarks/results/RESULT.json")
    options = parser.parse_args()
    runs = [Run.read(folder) for folder in options.runs]
    if any(options.choose >= len(run.plain.tokens) for run in runs):
        parser.error(f"--choose {options.choose} leaves no question of a run to test the choice")
    rng = np.random.default_rng(SEED)
    draws = [tested(run, rng, options.choose) for run in runs for _ in range(options.draws)]
    head = ["the finalist wins at", "it won", "tokens to plain's", "points", "more than 3 lost", "log fitness"]
    means = {name: np.mean([draw[name] for draw in draws], axis=0).tolist() for name in LEVELS}
    rows = [
        [name, f"{100 * won:.0f} %", f"{ratio:.3f}", f"{points:+.2f}", f"{100 * lost:.0f} %", f"{worth:+.3f}"]
        for name, (won, ratio, points, lost, worth) in means.items()
    ]
    print(table(head, rows))
    about = {"runs": [folder.name for folder in options.runs], "choose": options.choose, "draws": options.draws}
    write(
        options.result, {**about, "rules": {name: dict(zip(head[1:], of, strict=True)) for name, of in means.items()}}
    )


if __name__ == "__main__":
    main()
