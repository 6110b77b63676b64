"""What a `route` run has compared: the last job's verdicts, or before it those of the evaluations so far."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.route.build import arms, deployments
from orchestrator.route.results import COMPARISON_FILE, EVALUATION_FILE, read_json_lines
from orchestrator.route.run import ROUTE
from orchestrator.runs.folder import read_state
from tasks.route.claims import EvaluatedDeployment, Thresholds, compare_claims


@dataclass(frozen=True)
class RunComparison:
    """`found` is what `compare_claims` gives; `unfinished` says of how many evaluations, "" where it is of all."""

    found: Mapping[str, Any]
    unfinished: str = ""


def read_comparison(folder: Path) -> RunComparison:
    try:
        return RunComparison(read_state(folder / COMPARISON_FILE, dict[str, Any]))
    except FileNotFoundError:
        path = folder / EVALUATION_FILE
        if not path.exists():
            raise FileNotFoundError(path) from None
    settings, _ = ROUTE.load(folder)
    records = [EvaluatedDeployment(**line) for line in read_json_lines(path)]
    wanted = sum(len(deployments(settings, arm)) for arm in arms(settings))
    found = compare_claims(records, Thresholds(**dataclasses.asdict(settings.claims)))
    return RunComparison(found, f"{len(records)} of {wanted} evaluations have been made")
