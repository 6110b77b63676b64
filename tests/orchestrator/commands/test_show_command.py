"""`orchestrator show`, on the folder of a finished run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from terminal import run_here as run


def test_every_individual_can_be_shown_with_what_its_file_has(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = [json.loads(line) for line in (finished_run / "individuals.jsonl").read_text().splitlines()]
    for one in recorded:
        status, said = run(capsys, "show", finished_run, one["node"], "--json")
        shown = json.loads(said)
        assert status == 0
        assert {cluster["id"]: cluster["delta"] for cluster in shown["clusters"]} == one["deltas"]
        for name in ("scratchpad", "fitness", "target", "mean_tokens"):
            assert shown[name] == one[name]
    status, said = run(capsys, "show", finished_run, "g0_child0_mut")
    assert status == 0 and "g0_child0_pre" in said and "reflected" in said
    [fitness] = [one["fitness"] for one in recorded if one["node"] == "g0_child0_mut"]
    assert f"{fitness:.4g}" in said and not re.search(r"\d\.\d{5}", said)
    assert run(capsys, "show", finished_run, "g9_pop9")[0] == 1
