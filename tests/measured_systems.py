"""Made-up measurements of systems for the tests of the report."""

from __future__ import annotations

import random

from orchestrator.report.systems import MeasuredSystem, Measurement, SetName, SystemKind

COUNT = 300


def measurement(factor: float, lost: int = 0, gained: int = 0, seed: int = 1, count: int = COUNT) -> Measurement:
    """`factor` times the plain model's tokens, give or take 10 %.

    Two thirds of the answers are right; of these the first `lost` are wrong here, and the first `gained` of the others
    are right.
    """
    rng = random.Random(seed)
    tokens = tuple(round(factor * (60 + 7 * (index % 40)) * rng.uniform(0.9, 1.1)) for index in range(count))
    correct = [index % 3 > 0 for index in range(count)]
    for index in [index for index in range(count) if index % 3 > 0][:lost]:
        correct[index] = False
    for index in [index for index in range(count) if index % 3 == 0][:gained]:
        correct[index] = True
    fitness = 0.4 / (1 + sum(tokens) / count / 100) + 0.6 * sum(correct) / count
    return Measurement(tuple(f"q{index}" for index in range(count)), tokens, tuple(correct), fitness)


def system(
    name: str,
    kind: SystemKind,
    factor: float,
    lost: int = 0,
    gained: int = 0,
    seed: int = 1,
    count: int = COUNT,
    sets: tuple[SetName, ...] = ("validation", "test"),
) -> MeasuredSystem:
    """A system that was asked the same number of questions on each of `sets`."""
    deltas = (1.5, -0.5) if kind in ("vector", "evolved") else ()
    validation, test = (
        measurement(factor, lost, gained, seed + shift, count) if one in sets else None
        for one, shift in (("validation", 100), ("test", 0))
    )
    return MeasuredSystem(name, kind, f"Prompt of {name}.", deltas, validation, test)


PLAIN = system("none", "plain", 1.0, seed=0)
ONE_SENTENCE = system("one sentence", "prompt", 0.6, seed=2)
SHORT_BUT_WRONG = system("final answer only", "prompt", 0.1, lost=60, seed=3)
EVOLVED = system("evolved 1", "evolved", 0.4)
