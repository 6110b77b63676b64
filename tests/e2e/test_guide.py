"""A guided run with real processes: what it leaves follows from the specification."""

from __future__ import annotations

import pytest
from guide_folder import MISSIONS, GuideFolder, ticket_rows
from spec_checker import SpecChecker

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def test_all_that_a_run_leaves_is_what_the_specification_makes_of_the_answers(reference_guide: GuideFolder) -> None:
    gates = set()
    for name in MISSIONS:
        folder = reference_guide.output / name
        tickets = [row for row in ticket_rows() if row["mission"] == name]
        assert SpecChecker(folder, name, reference_guide.settings(), tickets).check() == []
        gates |= {line["gate"] for line in reference_guide.lines(name, "reflection.jsonl")}
    assert gates <= {"applied", "uplift", "probability", "false_pass"}, "each proposal came to its preview"
