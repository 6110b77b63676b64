"""`orchestrator compare` and `orchestrator report`, on the folder of a finished run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from page_reader import ReadPage

from orchestrator import exit_status
from orchestrator.commands import compare, report


def compared(*arguments: str) -> int:
    return compare.run(compare.make_parser().parse_args(arguments))


@pytest.fixture
def other(finished_run: Path, tmp_path: Path) -> Path:
    """The same questions, answered by a winner whose answers have one token fewer, and of which two became wrong."""
    folder = shutil.copytree(finished_run, tmp_path / "other")
    answers = json.loads((folder / "answers.json").read_text())
    for comparison in answers:
        for one in comparison["after"]:
            one["tokens"] -= 1
        for one in comparison["after"][:2]:
            one["is_correct"] = False
    (folder / "answers.json").write_text(json.dumps(answers))
    return folder


def test_the_table_has_the_figures_of_the_report(finished_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(str(finished_run)) == exit_status.DONE
    said = capsys.readouterr().out
    written = json.loads((finished_run / "report.json").read_text())
    history = [json.loads(line) for line in (finished_run / "history.jsonl").read_text().splitlines()]
    zero, best = written["test"]["zero"], written["test"]["best"]
    assert said.startswith(f"{written['run']}: {written['verdict']}\n")
    rows = {name: value.strip() for name, _, value in (line.partition("  ") for line in said.splitlines())}
    assert (rows["tokens before"], rows["tokens after"]) == tuple(f"{one['mean_tokens']:.4g}" for one in (zero, best))
    assert (rows["right before"], rows["right after"]) == (str(zero["correct"]), str(best["correct"]))
    assert (rows["questions"], rows["measured on"], rows["winner"]) == ("8", "test", written["winner"])
    # the evaluations are those of the search alone
    computed = sum(line["evaluations"]["computed"] for line in history)
    assert rows["evaluations"].startswith(f"{computed} computed, ")


def test_two_runs_with_the_same_questions_are_compared_by_pairs(
    finished_run: Path, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compared(str(finished_run), str(other)) == exit_status.DONE
    said = " ".join(capsys.readouterr().out.split())
    tokens = json.loads((finished_run / "report.json").read_text())["test"]["best"]["mean_tokens"]
    assert "on the same 8 test questions. Against" in said
    assert f"{tokens:.1f} -> {tokens - 1:.1f} tokens" in said and "8 -> 6 of 8 right" in said


def test_a_folder_without_a_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(str(tmp_path)) == exit_status.WRONG
    assert "holds no run" in capsys.readouterr().err


def test_the_report_is_written_where_it_is_wanted(
    finished_run: Path, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def written(*arguments: str) -> int:
        return report.run(report.make_parser().parse_args(arguments))

    assert written(str(other)) == exit_status.DONE
    assert capsys.readouterr().out.startswith(f"{other / 'report.html'} (")
    assert len(ReadPage.of((other / "report.html").read_text()).runs) == 1
    path = tmp_path / "both.html"
    assert written(str(finished_run), str(other), "--output", str(path)) == exit_status.DONE
    assert len(ReadPage.of(path.read_text()).runs) == 2
    # and a damaged file is named, and leaves the earlier page
    (other / "report.json").write_text("{")
    assert written(str(other)) == exit_status.WRONG
    assert "report.json cannot be read" in capsys.readouterr().err and (other / "report.html").exists()
