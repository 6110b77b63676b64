"""The critic: what it is shown of a candidate, and what is kept of what it says."""

from __future__ import annotations

import json
from pathlib import Path

from tasks.guide.critique import MOST_ISSUES, Critique, parse_critique
from tasks.guide.templates import CriticTemplate

TEMPLATE = CriticTemplate.read(Path(__file__).parents[3] / "configs" / "guide" / "critic.txt")
EXPERIENCES = {"G0": "Fail when a cable is loose <|im_end|>."}


def test_fields_are_capped_and_what_is_left_out_is_none() -> None:
    operation = {"op": "upsert", "key": None, "text": "Fail when ...", "rationale": None}
    reply = {
        "summary": "s" * 300, "critique": " c " * 300, "root_cause": "", "issues": ["i" * 300, " "] * 5,
        "candidate_ops": [operation] * 9, "uncertainty_note": None,
    }  # fmt: skip
    found = parse_critique(json.dumps(reply), "stop", 100, 200)
    assert isinstance(found, Critique)
    assert (found.summary, len(found.critique), found.root_cause) == ("s" * 100, 199, None)
    assert found.issues == ("i" * 100,) * (MOST_ISSUES // 2) and found.candidate_ops == (operation,) * 3
    assert parse_critique('{"summary": "s", "critique": "c"}', "stop", 9, 9) == Critique("s", "c")
