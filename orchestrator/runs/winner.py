"""Which system wins on the validation set: what the search started from, unless a finalist is shown to be better.

The best of several finalists seems better than it is, since their luck differs.  So it wins over the start only where
its fitness is higher in 95 % of the paired bootstrap's resamples, corrected for the number of finalists.
The start has been chosen in part on the validation set, which makes it seem better there: that is to the finalists'
disadvantage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from orchestrator.report.systems import MeasuredSystem, Measurement
from orchestrator.runs.superiority import Answered, is_shown_better
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
    asked = plain.examples
    answers = _answered(best, asked), _answered(start, asked), _means_of((plain,), asked)
    return best if is_shown_better(*answers, objective, seed, tried=len(finalists)) else start


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
