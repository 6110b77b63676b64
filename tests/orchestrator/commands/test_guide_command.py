"""`orchestrator guide`: what is wrong is told before anything is started, and its other forms need no farm."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import console
from orchestrator.cli import main


def run(*words: str | Path) -> int:
    return main(["guide", *map(str, words)])


def test_without_a_file_or_with_a_wrong_one_nothing_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() == console.WRONG
    assert "--config" in capsys.readouterr().err
    (tmp_path / "guide.yaml").write_text("missions: {a/b: x}\nrunner: {epochs: 0}\n")
    assert run("--config", tmp_path / "guide.yaml") == console.WRONG
    lines = capsys.readouterr().err.splitlines()
    assert "orchestrator: stage_a_paths: is missing" in lines
    assert "orchestrator: runner.epochs: 0 is not greater than or equal to 1" in lines
    assert any("missions.'a/b': is no name of a folder" in line for line in lines)


def test_a_folder_without_a_run_is_neither_promoted_nor_taken_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("promote", tmp_path, "--to", tmp_path / "g.json") == console.WRONG
    assert "holds no run" in capsys.readouterr().err
    assert run("rollback", tmp_path, "--mission", "m", "--step", "1") == console.WRONG
