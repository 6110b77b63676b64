"""What `measurements.jsonl` keeps is enough to compute the figures of `report.json` again."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from measured_systems import EVOLVED, ONE_SENTENCE, PLAIN, measurement, system

from orchestrator.report.assessment import assess
from orchestrator.report.document import report_document
from orchestrator.report.measurements import measurement_lines


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def test_every_figure_of_every_system_can_be_computed_again() -> None:
    repeated = dataclasses.replace(EVOLVED, repeats=(measurement(0.5, seed=9),))
    untested = system("untested", "prompt", 0.7, sets=("validation",))
    systems = [PLAIN, ONE_SENTENCE, untested, repeated]
    report = report_document(assess("run", systems, EVOLVED.name, PLAIN.name, 0.03, 7))
    lines = [json.loads(line) for line in measurement_lines(systems).splitlines()]
    kept = {(line["system"], line["set"], line["repeat"]): line for line in lines}

    assert len(kept) == len(lines) == 2 + 2 + 1 + 3
    for reported in (*report["systems"], *report["rivals"]):
        for which in ("validation", "test"):
            figures = reported[which]
            line = kept.pop((reported["name"], which, 0), None)
            assert (figures is None) == (line is None)
            if line is not None:
                asked = {name: line[name] for name in ("kind", "fitness")}
                assert asked == {"kind": reported["kind"], "fitness": figures["fitness"]}
                assert figures["n"] == len(line["examples"]) == len(line["tokens"])
                assert figures["mean_tokens"] == mean(line["tokens"])
                assert figures["correct"] == sum(line["correct"])
    [(_, repeat)] = kept.items()
    assert repeat["tokens"] == list(repeated.repeats[0].tokens)
    assert changed(lines, "one sentence", repeated.name) == pytest.approx(report["comparisons"][1]["token_ratio"])


def changed(lines: list[dict[str, Any]], before: str, after: str) -> float:
    """The ratio of tokens on the test set."""
    first, second = (
        next(line for line in lines if (line["system"], line["set"]) == (name, "test")) for name in (before, after)
    )
    assert first["examples"] == second["examples"]
    return mean(second["tokens"]) / mean(first["tokens"])
