"""What a run of `route` has compared, also before it has ended."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from route_values import evaluated_arms, small_route
from test_route_plan import written

from orchestrator.output import OutputError
from orchestrator.routing.comparison import read_comparison
from orchestrator.routing.report import report_text, route_tables
from orchestrator.routing.results import COMPARISON_FILE, EVALUATION_FILE, json_lines

TRAJECTORIES = {"training__trajectories": ["shared", "erase"]}


def unfinished(tmp_path: Path) -> Path:
    """The folder of a run of which one trajectory alone is evaluated."""
    settings = small_route(tmp_path, **TRAJECTORIES)
    output = written(settings)
    (output.path / COMPARISON_FILE).unlink()
    kept = [dataclasses.asdict(each) for each in evaluated_arms(settings) if each.trajectory == "shared"]
    (output.path / EVALUATION_FILE).write_text(json_lines(kept))
    return output.path


def test_an_unfinished_run_has_the_figures_of_what_was_evaluated(tmp_path: Path) -> None:
    folder = unfinished(tmp_path)
    settings = small_route(tmp_path, **TRAJECTORIES)
    whole = evaluated_arms(settings)
    found = read_comparison(folder, settings)
    shared = [each for each in whole if each.trajectory == "shared"]
    assert (found.evaluated, found.total, found.is_whole) == (len(shared), len(whole), False)
    assert 0 < found.evaluated < found.total
    for path in (folder / "rows").iterdir():
        if not path.name.startswith("shared"):
            path.unlink()  # its training has not ended
    text = report_text(folder)
    assert f"**Unfinished**: {found.evaluated} of {found.total} evaluations have been made" in text
    assert "Hack of B: real 25.0%, random 50.0%" in text and "### shared_seed0" in text
    assert "erase" not in text and "## Pictures" not in text
    assert [table.title for table in route_tables(folder)] == ["Secondary", "Rates"]


def test_a_run_that_has_compared_is_whole(tmp_path: Path) -> None:
    settings = small_route(tmp_path)
    folder = written(settings).path
    assert read_comparison(folder, settings).is_whole
    assert "Unfinished" not in report_text(folder)


def test_before_the_first_evaluation_there_is_one_line_and_no_table(tmp_path: Path) -> None:
    folder = unfinished(tmp_path)
    (folder / EVALUATION_FILE).unlink()
    with pytest.raises(OutputError, match=r"no evaluation\.jsonl: nothing of the run was evaluated so far"):
        report_text(folder)
    assert route_tables(folder) == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"trajectory": "shared"}\n', "line 1: seed: is missing"),
        (None, "an evaluation has no samples, or not as many of both kinds"),
    ],
)
def test_damaged_evaluations_are_one_line(tmp_path: Path, line: str | None, said: str) -> None:
    folder = unfinished(tmp_path)
    path = folder / EVALUATION_FILE
    path.write_text(line or path.read_text().replace('"solved": "1100"', '"solved": "110"', 1))
    with pytest.raises(OutputError, match=said):
        report_text(folder)
