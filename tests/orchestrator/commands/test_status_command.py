"""`orchestrator status`: why a run does not go on, and what a person may do."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import console
from orchestrator.cli import main
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.status import ParkedState, write_parked_state


def shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What is printed, by its first word; the state under ""."""
    assert main(["status", str(folder)]) == console.DONE
    head, *lines = capsys.readouterr().out.splitlines()
    return {"": head, **{line[:13].strip(): line[13:] for line in lines}}


def test_a_parked_run_offers_a_retry_and_one_at_a_dead_end_says_what_must_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = OutputFolder(tmp_path)
    output.run_id("guide")
    assert f"retry {tmp_path}" in shown(tmp_path, capsys)["go on"]
    write_parked_state(output, ParkedState("quota"))
    found = shown(tmp_path, capsys)
    assert (": parked, " in found[""], found["parked"], "go on" in found) == (True, "quota", True)
    write_parked_state(output, ParkedState("no valid answer", is_dead_end=True))
    found = shown(tmp_path, capsys)
    assert (": stopped, " in found[""], found["stopped"], "go on" in found) == (True, "no valid answer", False)
    assert "start another run" in found["next"] and "retry" not in str(found.values())


def test_the_number_of_generations_is_known_wherever_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # given a run whose settings name its questions by a relative path
    output = OutputFolder(tmp_path / "run")
    output.run_id("evolve")
    output.config.write_bytes(Path("configs/embedded.config").read_bytes())
    # when it is looked at from a folder that has no such file
    monkeypatch.chdir(tmp_path)
    # then
    assert "0 of 8 generations" in shown(output.path, capsys)[""]
    # and where the settings cannot be read, the number is not known
    output.config.write_text("CONFIG_NGEN=several\n")
    assert "0 of ? generations" in shown(output.path, capsys)[""]
