"""pareto.json: which systems no other beats in both measures."""

from __future__ import annotations

import json

from measured_systems import EVOLVED, ONE_SENTENCE, PLAIN, SHORT_BUT_WRONG, system

from orchestrator.report.assessment import assess
from orchestrator.report.front import front_document

MORE_RIGHT = system("evolved 2", "evolved", 0.7, gained=9, seed=8)
SYSTEMS = (PLAIN, ONE_SENTENCE, SHORT_BUT_WRONG, EVOLVED, MORE_RIGHT)


def points() -> dict[str, dict]:
    document = front_document(assess("quiet-1", SYSTEMS, "evolved 1", "one sentence", 0.03, seed=7))
    assert document["set"] == "validation"
    return {point["name"]: point for point in json.loads(json.dumps(document["points"], allow_nan=False))}


def test_the_front_has_the_systems_that_no_other_beats_in_both_measures() -> None:
    on_front = {name for name, point in points().items() if point["is_on_front"]}
    assert on_front == {"final answer only", "evolved 1", "evolved 2"}
