"""The conclusion from made-up measurements, with the margin that the tests of the conclusion share."""

from __future__ import annotations

from collections.abc import Sequence

from measured_systems import PLAIN

from orchestrator.report.conclusion import Conclusion, conclude
from orchestrator.report.systems import MeasuredSystem

MARGIN = 0.03


def concluded(best: MeasuredSystem, rivals: Sequence[MeasuredSystem] = (), plain: MeasuredSystem = PLAIN) -> Conclusion:
    """What is concluded of `best` with the margin `MARGIN`."""
    return conclude(plain, best, rivals, MARGIN, seed=7)
