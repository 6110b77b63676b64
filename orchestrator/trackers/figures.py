"""The figures that trackers get, by name: "fitness/best", "tokens/target", "test/winner/mean_tokens"."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from orchestrator.evolve.systems import PLAIN
from orchestrator.report.model import ReportFile, SetName
from orchestrator.runs.folder import read_json

OF_A_SYSTEM = ("mean_tokens", "right", "whole", "correct")
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


def figures_of_report(report: ReportFile) -> dict[str, float]:
    """The plain model ("plain") and the winner ("winner") on each set that they were asked."""
    sides = {"plain": report.system(PLAIN), "winner": report.system(report.winner)}
    return _flat(
        {
            f"{which}/{side}": {name: getattr(found, name) for name in OF_A_SYSTEM}
            for which in get_args(SetName)
            for side, system in sides.items()
            if (found := system.on(which)) is not None
        }
    )


def read_report(folder: Path) -> ReportFile | None:
    """report.json of a run; None where there is none."""
    try:
        return read_json(folder / "report.json", ReportFile)
    except FileNotFoundError:
        return None


def _flat(groups: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    return {
        f"{group}/{name}": float(value)
        for group, values in groups.items()
        for name, value in values.items()
        if value is not None
    }
