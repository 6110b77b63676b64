"""`orchestrator guide`: what is wrong is told before anything is started, and its other forms need no farm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator import exit_status
from orchestrator.commands import guide
from orchestrator.guide.stage_a import read_tickets
from orchestrator.output import OutputFolder


def run(*words: str | Path) -> int:
    return guide.run(guide.make_parser().parse_args([str(word) for word in words]))


def test_without_a_file_or_with_a_wrong_one_nothing_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() == exit_status.WRONG
    assert capsys.readouterr().err == "orchestrator: --config: is missing; it names the YAML file\n"
    (tmp_path / "guide.yaml").write_text("missions: {a/b: x}\nrunner: {epochs: 0}\n")
    assert run("--config", tmp_path / "guide.yaml") == exit_status.WRONG
    lines = capsys.readouterr().err.splitlines()
    assert "orchestrator: stage_a_paths: is missing" in lines
    assert "orchestrator: runner.epochs: 0 must be at least 1" in lines
    assert any("missions.'a/b': is no name of a folder" in line for line in lines)


def test_tickets_are_made_for_the_missions_that_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "电源线检查"
    twice = ("--mission", name, "--mission", name)
    assert run("tickets", "--output", tmp_path, *twice, "--count", "6", "--test", "4") == exit_status.DONE
    assert str(tmp_path / "tickets.jsonl") in capsys.readouterr().out
    assert len(read_tickets([str(tmp_path / "tickets.jsonl")], [name])[0][name]) == 6
    assert len(read_tickets([str(tmp_path / "test.jsonl")], [name])[0][name]) == 4
    assert run("tickets", "--output", tmp_path, "--mission", "roof") == exit_status.WRONG
    assert run("tickets", "--output", tmp_path, "--count", "3") == exit_status.WRONG


def test_experiences_that_were_learned_are_not_overwritten_with_first_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = ("tickets", "--output", tmp_path, "--mission", "电源线检查", "--count")
    assert run(*made, "4") == exit_status.DONE
    assert run(*made, "6") == exit_status.DONE, "the first experiences are always the same"
    guidance = tmp_path / "guidance.json"
    guidance.write_text(guidance.read_text().replace('"step": 0', '"step": 3'))
    kept = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert run(*made, "8") == exit_status.WRONG
    assert f"{guidance} holds other experiences" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == kept


def test_compare_says_where_two_runs_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("one", "look"), ("two", "look"), ("three", "see")):
        folder = tmp_path / name / "cabinet"
        folder.mkdir(parents=True)
        OutputFolder(tmp_path / name).run_id("guide")
        entry = {"step": 0, "updated_at": name, "experiences": {"G0": text}}
        (folder / "guidance.json").write_text(json.dumps({"cabinet": entry}))
    assert run("compare", tmp_path / "one", tmp_path / "two") == exit_status.DONE
    assert "came out the same" in capsys.readouterr().out
    assert run("compare", tmp_path / "one", tmp_path / "three") == exit_status.WRONG
    assert "cabinet/guidance.json" in capsys.readouterr().err


def test_a_folder_without_a_run_is_neither_promoted_nor_taken_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("promote", tmp_path, "--to", tmp_path / "g.json") == exit_status.WRONG
    assert "holds no run" in capsys.readouterr().err
    assert run("rollback", tmp_path, "--mission", "m", "--step", "1") == exit_status.WRONG
