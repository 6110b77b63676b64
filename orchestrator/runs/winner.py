"""Which system wins: of the finalists and what they started from, that of the highest fitness on the validation set."""

from __future__ import annotations

import math
from collections.abc import Sequence

from orchestrator.report.systems import MeasuredSystem


def choose_winner(finalists: Sequence[MeasuredSystem], starts: Sequence[MeasuredSystem]) -> MeasuredSystem:
    """That of the highest mean fitness over the validation set and its repeats.

    Of equals it is the one without deltas, since no vector is better, else a start, else the first.
    """
    return max((*starts, *finalists), key=lambda system: (_fitness(system), not any(system.deltas)))


def _fitness(system: MeasuredSystem) -> float:
    if system.validation is None:
        return -math.inf
    measurements = (system.validation, *system.repeats)
    return sum(one.fitness for one in measurements) / len(measurements)
