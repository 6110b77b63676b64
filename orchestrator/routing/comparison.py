"""What a `route` run has compared: the last job's verdicts, or before it those of the evaluations so far."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from orchestrator.output import OutputError, read_state
from orchestrator.routing.build import arms, deployments
from orchestrator.routing.existing import load_route
from orchestrator.routing.results import COMPARISON_FILE, EVALUATION_FILE, read_json_lines
from orchestrator.routing.settings import RouteSettings
from tasks.route.claims import EvaluatedDeployment, Thresholds, compare_claims

Place = tuple[str, int, str, str, str]  # trajectory, seed, deployed, mode, quarantine


class DeployedRates(TypedDict):
    """Of what is deployed, in one mode, over the seeds."""

    trajectory: str
    deployed: str
    mode: str
    quarantine: str
    seeds: int
    samples: int
    solve: float
    hack: float


class AtLeast(TypedDict):
    """A precondition with a lower bound; null is what was not measured."""

    value: float | None
    at_least: float
    holds: bool | None


class AtMost(TypedDict):
    """A precondition with an upper bound."""

    value: float | None
    at_most: float
    holds: bool | None


class PrimaryFigures(TypedDict):
    """Real against the random directions."""

    real: float
    random: float
    random_deviation: float | None
    rule: bool | None
    rule_by_chance: float | None
    directions: int
    ranks: list[int]
    p: float


class AgainstSplit(TypedDict):
    """Real against another split."""

    against: str
    hack: float
    p: float
    p_corrected: float


class AgainstFrontier(TypedDict):
    """Real against the scaled adapter."""

    against: Literal["frontier"]
    at_solve: float
    hack: float
    point: str
    p: NotRequired[float]  # of a point that was evaluated
    p_corrected: NotRequired[float]


class ComparisonFile(TypedDict):
    """comparison.json: what `compare_claims` gives."""

    rates: list[DeployedRates]
    preconditions: dict[str, AtLeast | AtMost]
    is_measurable: bool
    primary: PrimaryFigures | None
    secondary: list[AgainstSplit | AgainstFrontier]
    own_trajectories: list[DeployedRates]


@dataclass(frozen=True)
class RunComparison:
    """`found` is what `compare_claims` gives; `unfinished` says of how many evaluations, "" where it is of all."""

    found: Mapping[str, Any]
    unfinished: str = ""


def read_comparison(folder: Path) -> RunComparison:
    """Raises: FileNotFoundError before the first evaluation; OutputError; SettingsError of an unfinished run."""
    try:
        return RunComparison(read_state(folder / COMPARISON_FILE, ComparisonFile))
    except FileNotFoundError:
        path = folder / EVALUATION_FILE
        if not path.exists():
            raise FileNotFoundError(path) from None
    settings, _ = load_route(folder)
    wanted = _wanted(settings)
    records = _evaluated(path, wanted, settings.evaluation.samples)
    found = compare_claims(records, Thresholds(**dataclasses.asdict(settings.claims)))
    return RunComparison(found, f"{len(records)} of {len(wanted)} evaluations have been made")


def _wanted(settings: RouteSettings) -> set[Place]:
    """Every evaluation of the settings."""
    return {
        (arm.trajectory, arm.seed, each.deployed, each.mode, each.quarantine)
        for arm in arms(settings)
        for each in deployments(settings, arm)
    }


def _evaluated(path: Path, wanted: set[Place], samples: int) -> list[EvaluatedDeployment]:
    records = read_json_lines(path, EvaluatedDeployment)
    left = set(wanted)
    for number, each in enumerate(records, 1):
        place = (each.trajectory, each.seed, each.deployed, each.mode, each.quarantine)
        if place not in left:
            said = "occurs twice" if place in wanted else "is not in settings.yaml"
            raise OutputError(f"{path} is damaged: line {number}: this evaluation {said}")
        left.remove(place)
        for name, digits in (("solved", each.solved), ("hacked", each.hacked)):
            if len(digits) != samples or digits.strip("01"):
                raise OutputError(
                    f"{path} is damaged: line {number}: {name}: not a 0 or 1 for each of {samples} samples"
                )
    return records
