"""What a run of `route` has compared, also before it has ended."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from page_reader import page_of
from route_values import evaluated_arms, small_route
from test_route_plan import written

from orchestrator.route.report import (
    COMPARISON_FILE,
    EVALUATION_FILE,
    json_lines,
    read_comparison,
    report_text,
    route_tables,
)
from orchestrator.runs.folder import OutputError

TRAJECTORIES = {"training__trajectories": ["shared", "plain", "erase"]}


def unfinished(tmp_path: Path) -> Path:
    """The folder of a run of which the last trajectory is not evaluated."""
    settings = small_route(tmp_path, **TRAJECTORIES)
    output = written(settings)
    (output.path / COMPARISON_FILE).unlink()
    kept = [dataclasses.asdict(each) for each in evaluated_arms(settings) if each.trajectory != "erase"]
    (output.path / EVALUATION_FILE).write_text(json_lines(kept))
    return output.path


def test_an_unfinished_run_has_the_figures_of_what_was_evaluated(tmp_path: Path) -> None:
    folder = unfinished(tmp_path)
    whole = evaluated_arms(small_route(tmp_path, **TRAJECTORIES))
    kept = [each for each in whole if each.trajectory != "erase"]
    said = f"{len(kept)} of {len(whole)} evaluations have been made"
    assert read_comparison(folder)[1] == said and len(kept) < len(whole)
    for path in (folder / "rows").iterdir():
        if path.name.startswith("erase"):
            path.unlink()  # its training has not ended
    text = report_text(folder)
    _, first, *_ = text.split("\n\n")  # below the title, before any verdict
    assert first.startswith(f"**Unfinished**: {said}. ") and "verdicts are of what has been evaluated so far" in first
    assert "Hack of B: real 25.0%, random 50.0%" in text and "### shared_seed0" in text
    assert "erase" not in text and "## Pictures" not in text
    assert [table.title for table in route_tables(folder)] == ["Secondary", "Rates"]
    (folder / "run.json").write_text(json.dumps({"id": "route-1", "kind": "route", "folder": str(folder)}))
    page = page_of(folder).seen
    assert all(table.title in page and str(table.rows[0][0]) in page for table in route_tables(folder))


def test_the_comparison_is_made_again_from_the_evaluations_alone(tmp_path: Path) -> None:
    every = ["shared", "plain", "erase", "ablated"]
    settings = small_route(tmp_path, training__trajectories=every, training__rollout_ablate_frac=0.25)
    folder = written(settings).path
    (folder / EVALUATION_FILE).write_text(json_lines(map(dataclasses.asdict, evaluated_arms(settings))))
    stored = json.loads((folder / COMPARISON_FILE).read_text())
    (folder / COMPARISON_FILE).unlink()
    found = json.loads(json.dumps(read_comparison(folder)[0]))
    assert found.items() <= stored.items()
    against = {row["against"] for row in found["secondary"]}
    assert {"trajectory erase", "trajectory ablated", "frontier"} <= against


def test_a_file_that_was_cut_short_is_named(tmp_path: Path) -> None:
    folder = unfinished(tmp_path)
    path = folder / EVALUATION_FILE
    path.write_bytes(path.read_bytes()[:-30])
    for reading in (report_text, route_tables):
        with pytest.raises(OutputError, match=r"evaluation\.jsonl: the last line"):
            reading(folder)
