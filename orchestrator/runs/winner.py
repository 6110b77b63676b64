"""Which system wins on the validation set: what the search started from, unless a finalist is shown to be better.

The best of several finalists seems better than it is, since their luck differs.  So it wins over the start only where
its fitness is higher in `LEVEL` of the paired bootstrap's resamples, corrected for the number of finalists.
The start has been chosen in part on the validation set, which makes it seem better there: that is to the finalists'
disadvantage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from orchestrator.report.systems import MeasuredSystem, Measurement
from orchestrator.runs.superiority import LEVEL, Answered, share_better
from tasks.models import Objective


def choose_winner(
    finalists: Sequence[MeasuredSystem],
    start: MeasuredSystem | None,
    plain: Measurement,
    objective: Objective,
    seed: int,
) -> MeasuredSystem:
    """The start, or the best finalist where it is shown to be better, or where there is no start.

    All were measured on the same questions, on which `plain` is the plain model.
    """
    best = max(finalists, key=lambda system: (_fitness(system), not any(system.deltas)))
    if start is None:
        return best
    level = 1 - (1 - LEVEL) / len(finalists)
    return best if share_finalist_better(best, start, plain, objective, seed) >= level else start


def share_finalist_better(
    finalist: MeasuredSystem, start: MeasuredSystem, plain: Measurement, objective: Objective, seed: int
) -> float:
    """In which share of resamples of the validation questions the finalist has the higher fitness."""
    asked = plain.examples
    ours, theirs = _answered(finalist, asked), _answered(start, asked)
    return share_better(ours, theirs, _means_of((plain,), asked), objective, seed)


def _answered(system: MeasuredSystem, asked: Sequence[str]) -> Answered:
    assert system.validation is not None, "finalists and the start are always measured"
    return _means_of((system.validation, *system.repeats), asked)


def _means_of(measurements: Sequence[Measurement], asked: Sequence[str]) -> Answered:
    return Answered.of([(one.tokens, one.correct) for one in (m.on(asked) for m in measurements)])


def _fitness(system: MeasuredSystem) -> float:
    if system.validation is None:
        return -math.inf
    measurements = (system.validation, *system.repeats)
    return sum(one.fitness for one in measurements) / len(measurements)
