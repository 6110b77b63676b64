"""What a `route` run has compared: the last job's verdicts, or before it those of the evaluations so far."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.output import OutputError, read_state
from orchestrator.routing.build import arms, deployments
from orchestrator.routing.results import COMPARISON_FILE, EVALUATION_FILE, read_json_lines
from orchestrator.routing.settings import RouteSettings
from tasks.route.claims import EvaluatedDeployment, Thresholds, compare_claims


@dataclass(frozen=True)
class RunComparison:
    """`found` is what `compare_claims` gives of so many evaluations.

    `is_whole`: whether the run has made them all and compared.
    """

    found: Mapping[str, Any]
    evaluated: int
    total: int
    is_whole: bool

    def lines(self) -> list[str]:
        """What a reader has to know before any figure."""
        if self.is_whole:
            return []
        return [
            f"**Unfinished**: {self.evaluated} of {self.total} evaluations have been made. All figures and verdicts "
            "below are of these alone."
        ]


def read_comparison(folder: Path, settings: RouteSettings) -> RunComparison:
    """Raises: FileNotFoundError before the first evaluation; OutputError."""
    total = sum(len(deployments(settings, arm)) for arm in arms(settings))
    try:
        return RunComparison(read_state(folder / COMPARISON_FILE, dict[str, Any]), total, total, is_whole=True)
    except FileNotFoundError:
        records = _evaluated(folder / EVALUATION_FILE)
    found = compare_claims(records, Thresholds(**dataclasses.asdict(settings.claims)))
    return RunComparison(found, len(records), total, is_whole=False)


def _evaluated(path: Path) -> list[EvaluatedDeployment]:
    if not path.exists():
        raise FileNotFoundError(path)
    records = read_json_lines(path, EvaluatedDeployment)
    if not all(len(each.solved) == len(each.hacked) > 0 for each in records):
        raise OutputError(f"{path} is damaged: an evaluation has no samples, or not as many of both kinds")
    return records
