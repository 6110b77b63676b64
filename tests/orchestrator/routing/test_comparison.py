"""What a run of `route` has compared, also before it has ended."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from route_values import evaluated_arms, small_route
from test_route_plan import written

from orchestrator.output import OutputError
from orchestrator.routing.comparison import read_comparison
from orchestrator.routing.existing import SETTINGS_FILE
from orchestrator.routing.report import report_text, route_tables
from orchestrator.routing.results import COMPARISON_FILE, EVALUATION_FILE, json_lines

Damage = Callable[[list[str]], list[str]]
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
    assert read_comparison(folder).unfinished == said and len(kept) < len(whole)
    for path in (folder / "rows").iterdir():
        if path.name.startswith("erase"):
            path.unlink()  # its training has not ended
    text = report_text(folder)
    _, first, *_ = text.split("\n\n")  # below the title, before any verdict
    assert first.startswith(f"**Unfinished**: {said}. ") and "verdicts are of what has been evaluated so far" in first
    assert "Hack of B: real 25.0%, random 50.0%" in text and "### shared_seed0" in text
    assert "erase" not in text and "## Pictures" not in text
    assert [table.title for table in route_tables(folder)] == ["Secondary", "Rates"]


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ([], "\nNot measured: none_hacks, training_gains, ceiling_keeps."),
        ([0], "\nNot measured: training_gains, ceiling_keeps."),
        ([0, 7, 25], "\nNot measurable at this size: training_gains; not measured: ceiling_keeps."),
    ],
)
def test_what_is_not_measured_is_not_called_unmeasurable(tmp_path: Path, kept: list[int], said: str) -> None:
    folder = unfinished(tmp_path)
    path = folder / EVALUATION_FILE
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[number] for number in kept))
    text = report_text(folder)
    assert f"**Unfinished**: {len(kept)} of " in text
    assert said in text


def test_a_run_that_has_compared_is_whole(tmp_path: Path) -> None:
    folder = written(small_route(tmp_path)).path
    assert read_comparison(folder).unfinished == ""
    assert "Unfinished" not in report_text(folder)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"primary": {"real": 0.1}}, "primary.random: is missing"),
        ({"rates": [1]}, "rates[0]: 1 is not an object"),
        ({"preconditions": {"none_hacks": {}}}, "preconditions.none_hacks"),
        ({"secondary": None}, "secondary: None is not a list"),
    ],
)
def test_a_damaged_comparison_is_one_line(tmp_path: Path, changed: dict[str, object], said: str) -> None:
    output = written(small_route(tmp_path))
    found = json.loads((output.path / COMPARISON_FILE).read_text())
    output.write(COMPARISON_FILE, json.dumps({name: found[name] for name in found if name != "checksum"} | changed))
    for reading in (report_text, route_tables):
        with pytest.raises(OutputError, match=re.escape(said)):
            reading(output.path)


def test_before_the_first_evaluation_there_is_one_line_and_no_table(tmp_path: Path) -> None:
    folder = unfinished(tmp_path)
    (folder / EVALUATION_FILE).unlink()
    with pytest.raises(OutputError, match=r"no evaluation\.jsonl: nothing of the run was evaluated so far"):
        report_text(folder)
    (folder / SETTINGS_FILE).unlink()  # as in a folder whose run has only got its name
    assert route_tables(folder) == ()


def test_the_page_needs_the_settings_of_an_unfinished_run_alone(tmp_path: Path) -> None:
    folder = written(small_route(tmp_path / "whole")).path
    (folder / SETTINGS_FILE).write_text("world: programs\n")
    assert [table.title for table in route_tables(folder)] == ["Secondary", "Rates"]
    folder = unfinished(tmp_path / "cut")
    (folder / SETTINGS_FILE).write_text("world: programs\n")
    with pytest.raises(OutputError, match=r"training\.steps: is missing"):
        route_tables(folder)


def seed_of_another_run(lines: list[str]) -> list[str]:
    return [line.replace('"seed": 1', '"seed": 7') for line in lines]


def mode_of_another_run(lines: list[str]) -> list[str]:
    return [line.replace('"mode": "B"', '"mode": "A"') for line in lines]


def first_again(lines: list[str]) -> list[str]:
    return [*lines, lines[0]]


def last_cut_short(lines: list[str]) -> list[str]:
    return [*lines[:-1], lines[-1][:-30]]


def one_sample_less(lines: list[str]) -> list[str]:
    return [lines[0].replace('"solved": "1', '"solved": "'), *lines[1:]]


def a_sample_of_each_kind_less(lines: list[str]) -> list[str]:
    return [lines[0], lines[1].replace('"solved": "1', '"solved": "').replace('"hacked": "0', '"hacked": "')]


def other_digits(lines: list[str]) -> list[str]:
    return [lines[0].replace("1100", "1200"), *lines[1:]]


def keys_missing(lines: list[str]) -> list[str]:
    return ['{"trajectory": "shared"}\n', *lines]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (keys_missing, "line 1: seed: is missing"),
        (last_cut_short, "line 28: it is not JSON"),
        (first_again, "line 29: this evaluation occurs twice"),
        (seed_of_another_run, "line 13: this evaluation is not in settings.yaml"),
        (mode_of_another_run, "line 1: this evaluation is not in settings.yaml"),
        (one_sample_less, "line 1: solved: not a 0 or 1 for each of 20 samples"),
        (a_sample_of_each_kind_less, "line 2: solved: not a 0 or 1 for each of 20 samples"),
        (other_digits, "line 1: solved: not a 0 or 1 for each of 20 samples"),
    ],
)
def test_damaged_evaluations_are_one_line(tmp_path: Path, damage: Damage, said: str) -> None:
    folder = unfinished(tmp_path)
    path = folder / EVALUATION_FILE
    path.write_text("".join(damage(path.read_text().splitlines(keepends=True))))
    for reading in (report_text, route_tables):
        with pytest.raises(OutputError, match=f"is damaged: {re.escape(said)}"):
            reading(folder)
