"""The figures that trackers get, by name: "fitness/best", "tokens/target", "test/best/mean_tokens"."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.output import read_json
from orchestrator.report.figures import ReportFigures

OF_A_SYSTEM = ("mean_tokens", "share_correct", "fitness")
OF_A_SCORE = ("mean_tokens", "correctness", "shortness")


def figures_of_generation(record: Mapping[str, Any]) -> dict[str, float]:
    """Those of a line of history.jsonl; "leader/..." are those of the best individual of the population."""
    leader = max(record["population"], key=lambda one: float(one["fitness"]))
    groups: dict[str, Mapping[str, Any]] = {
        "fitness": {name: record[name] for name in ("best", "mean", "best_ever")},
        "leader": {name: leader[name] for name in OF_A_SCORE},
        **{group: record[group] for group in ("evaluations", "seconds", "tokens")},
        "endpoint": {name: record[name] for name in ("calls", "cost_usd")},
    }
    return _flat(groups)


def figures_of_report(report: ReportFigures) -> dict[str, float]:
    """The plain model ("zero") and the winner ("best") on each set that they were asked."""
    groups: dict[str, Mapping[str, Any]] = {}
    for where, measured in (("final_validation", report.validation), ("test", report.test)):
        for which in ("zero", "best") if measured is not None else ():
            system = getattr(measured, which)
            groups[f"{where}/{which}"] = {name: getattr(system, name) for name in OF_A_SYSTEM}
    return _flat(groups)


def read_report(folder: Path) -> ReportFigures | None:
    """report.json of a run; None where there is none."""
    try:
        return read_json(folder / "report.json", ReportFigures)
    except FileNotFoundError:
        return None


def _flat(groups: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    return {
        f"{group}/{name}": float(value)
        for group, values in groups.items()
        for name, value in values.items()
        if value is not None
    }
