"""`orchestrator status` and `runs`: why a run does not go on; a damaged run is named and hides no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from terminal import run_here as run

from orchestrator import console
from orchestrator.cli import main
from orchestrator.flower_ext.runs import index_runs
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.kinds import STEP_FILE
from orchestrator.runs.status import ParkedState, write_parked_state
from tasks.store.store import Store

Captured = pytest.CaptureFixture[str]


def shown(folder: Path, capsys: Captured) -> dict[str, str]:
    """What is printed, by its first word; the state under ""."""
    status, said = run(capsys, "status", folder)
    assert status == console.DONE
    head, *lines = said.splitlines()
    return {"": head, **{line[:13].strip(): line[13:] for line in lines}}


def test_a_parked_run_offers_a_retry_and_one_at_a_dead_end_says_what_must_change(
    tmp_path: Path, capsys: Captured
) -> None:
    output = OutputFolder(tmp_path)
    output.run_id("guide")
    assert f"retry {tmp_path}" in shown(tmp_path, capsys)["go on"]
    output.open()
    assert not {"go on", "now"} & {*shown(tmp_path, capsys)}  # it is at work
    output.close()
    write_parked_state(output, ParkedState("quota"))
    found = shown(tmp_path, capsys)
    assert (": parked, " in found[""], found["parked"], "go on" in found) == (True, "quota", True)
    write_parked_state(output, ParkedState("no valid answer", is_dead_end=True))
    found = shown(tmp_path, capsys)
    assert (": stopped, " in found[""], found["stopped"], "go on" in found) == (True, "no valid answer", False)
    assert "start another run" in found["next"] and "retry" not in str(found.values())


def test_the_number_of_generations_is_known_wherever_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    # given a run whose settings name its questions by a relative path
    output = OutputFolder(tmp_path / "run")
    output.run_id("evolve")
    output.config.write_bytes(Path("configs/embedded.config").read_bytes())
    # when it is looked at from a folder that has no such file
    monkeypatch.chdir(tmp_path)
    assert "0 of 8 generations" in shown(output.path, capsys)[""]
    # and while it is at work, at which step
    output.write_json(STEP_FILE, "measuring the plain model")
    output.open()
    found = shown(output.path, capsys)
    assert found["now"] == "measuring the plain model" and "go on" not in found
    assert "measuring the plain model" in run(capsys, "runs", tmp_path)[1]
    output.close()
    # and where the settings cannot be read, the number is not known
    output.config.write_text("CONFIG_NGEN=several\n")
    assert "0 of ? generations" in shown(output.path, capsys)[""]


DAMAGE = {"run.json": "{", "usage.json": '{"requests": "7"}', "history.jsonl": "half\n"}


@pytest.mark.parametrize("damaged", DAMAGE)
def test_a_damaged_run_is_named_and_the_others_are_listed(
    tmp_path: Path, store: Store, capsys: Captured, damaged: str
) -> None:
    for name in ("first", "second", "damaged"):
        OutputFolder(tmp_path / name).run_id("evolve")
    folder = tmp_path / "damaged"
    (folder / damaged).write_text(DAMAGE[damaged])
    # When they are listed, then the others are there, and the file is named
    assert main(["runs", str(tmp_path)]) == console.BROKEN
    said = capsys.readouterr()
    assert [line.split()[-1] for line in said.out.splitlines()[1:]] == [str(tmp_path / n) for n in ("first", "second")]
    [line] = said.err.splitlines()
    assert f"damaged/{damaged}" in line
    # And for a program
    assert main(["runs", str(tmp_path), "--json"]) == console.BROKEN
    *_, last = json.loads(capsys.readouterr().out)
    assert (last["folder"], last["state"]) == (str(folder), "unreadable") and f"damaged/{damaged}" in last["reason"]
    # And its own state is refused, and Flower's page has all three
    status, refused = run(capsys, "status", folder)
    assert status == console.WRONG and f"damaged/{damaged}" in refused
    problems = {view.problem for view in index_runs(tmp_path, store).values() if view.state == "unreadable"}
    assert len(index_runs(tmp_path, store)) == 3 and [f"damaged/{damaged}" in one for one in problems] == [True]


def test_control_characters_of_a_folders_name_are_escaped(tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "a\x1b[31mb"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"id": "demo-1", "kind": "evolve"}))
    printed = run(capsys, "runs", tmp_path)[1] + run(capsys, "status", folder)[1]
    assert "\x1b" not in printed and printed.count(r"a\x1b[31mb") >= 2
