"""How often the report's conclusion claims a win that is not there: simulated data sets in which the truth is known.

Three cases in which "win" is wrong:
- nothing differs: the vector's answers are as long and as often right as the plain model's;
- the sentence is as good: a system prompt saves 40 % and loses nothing, the vector does the same, four rivals in all;
- the margin is lost: the vector saves 40 %, and its true loss of right answers is just the margin.
And one in which it is right, which gives the power: the vector saves 40 % and loses nothing.

An answer's tokens are lognormal around its question's length; a question is right or wrong by its own probability, and
two systems that lose nothing draw it independently for a part of the questions.  The interval is Wilson's at 95 %.  The
error rate must be at most 5 %: the lower end of its interval must not be above.
`python benchmarks/conclusion.py [--sets 1000] [--questions 100 600]`
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from figures import table, write

from orchestrator.report.conclusion import Outcome, conclude
from orchestrator.report.intervals import share_interval
from orchestrator.report.systems import MeasuredSystem, Measurement, SystemKind

MARGIN = 0.03
RIGHT = 0.7  # the share of questions that the plain model answers
CHANGED = 0.04  # the share of answers that change sides by chance between two systems
LIMIT = 0.05


class Case(NamedTuple):
    """A truth: the vector's share of the plain model's tokens, its loss of right answers, and the rivals' tokens."""

    name: str
    factor: float
    loss: float
    rivals: tuple[float, ...]
    is_error: bool


CASES = (
    Case("nothing differs", 1.0, 0.0, (), is_error=True),
    Case("the sentence is as good", 0.6, 0.0, (0.6, 0.75, 0.9, 1.0), is_error=True),
    Case("the margin is lost", 0.6, MARGIN, (), is_error=True),
    Case("a true win", 0.6, 0.0, (0.9,), is_error=False),
)


class World:
    """The questions of one data set: their lengths, and whether the plain model answers them."""

    def __init__(self, count: int, rng: np.random.Generator) -> None:
        self.rng = rng
        self.names = tuple(f"q{index}" for index in range(count))
        self.lengths = rng.lognormal(4.2, 0.5, count)
        self.right = rng.random(count) < RIGHT

    def measure(self, factor: float, loss: float = 0.0) -> Measurement:
        """A system with `factor` times the tokens, of whose answers the share `loss` is lost on average."""
        count = len(self.names)
        tokens = np.maximum(1, np.rint(factor * self.lengths * self.rng.lognormal(0.0, 0.4, count))).astype(int)
        # By chance as many are gained as lost; `loss` comes on top.
        gained = ~self.right & (self.rng.random(count) < CHANGED / 2 / (1 - RIGHT))
        lost = self.right & (self.rng.random(count) < (CHANGED / 2 + loss) / RIGHT)
        correct = (self.right | gained) & ~lost
        return Measurement(self.names, tuple(map(int, tokens)), tuple(map(bool, correct)), 0.0)

    def plain(self) -> Measurement:
        count = len(self.names)
        tokens = np.maximum(1, np.rint(self.lengths * self.rng.lognormal(0.0, 0.4, count))).astype(int)
        return Measurement(self.names, tuple(map(int, tokens)), tuple(map(bool, self.right)), 0.0)


def system(name: str, kind: SystemKind, measured: Measurement) -> MeasuredSystem:
    return MeasuredSystem(name, kind, name, test=measured)


def outcome(case: Case, count: int, seed: int) -> Outcome:
    """What is concluded from one simulated data set."""
    world = World(count, np.random.default_rng(seed))
    rivals = [system(f"prompt {i}", "prompt", world.measure(factor)) for i, factor in enumerate(case.rivals)]
    best = system("evolved", "evolved", world.measure(case.factor, case.loss))
    return conclude(system("none", "plain", world.plain()), best, rivals, MARGIN, seed).outcome


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sets", type=int, default=1000)
    parser.add_argument("--questions", type=int, nargs="+", default=[100, 600])
    options = parser.parse_args(arguments)
    rows, figures = [], []
    for case in CASES:
        for count in options.questions:
            wins = sum(outcome(case, count, seed) == "win" for seed in range(options.sets))
            rate = share_interval(wins, options.sets)
            kind = "error" if case.is_error else "power"
            is_met = rate.low <= LIMIT
            figures.append({"case": case.name, "kind": kind, "questions": count, "sets": options.sets, "wins": wins})
            interval = f"{100 * rate.low:.1f} to {100 * rate.high:.1f} %"
            rows.append(
                [
                    case.name,
                    kind,
                    str(count),
                    f"{100 * rate.value:.1f} %",
                    interval,
                    ("yes" if is_met else "NO") if case.is_error else "",
                ]
            )
    print(table(["case", "kind", "questions", "wins", "95 % interval", "within 5 %"], rows))
    write("conclusion", {"margin": MARGIN, "changed": CHANGED, "cases": figures})


if __name__ == "__main__":
    main()
