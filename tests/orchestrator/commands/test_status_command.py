"""`orchestrator status` and `runs`: why a run does not go on; a damaged run is named and hides no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import console
from orchestrator.flower_ext.runs import index_runs
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.kinds import STEP_FILE
from orchestrator.runs.status import ParkedState, write_parked_state
from tasks.store.store import Store


def test_status_says_what_a_run_does_why_it_has_stopped_and_how_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any
) -> None:
    def shown() -> dict[str, str]:
        """What is printed, by its first word; the state under ""."""
        status, said = run("status", output.path)
        assert status == console.DONE
        head, *lines = said.splitlines()
        return {"": head, **{line[:13].strip(): line[13:] for line in lines}}

    # Given a run whose settings name its questions by a relative path, seen from another folder
    output = OutputFolder(tmp_path / "run")
    output.run_id("evolve")
    output.config.write_bytes(Path("configs/embedded.config").read_bytes())
    monkeypatch.chdir(tmp_path)
    found = shown()
    assert "0 of 8 generations" in found[""] and f"retry {output.path}" in found["go on"]
    # While it is at work, its step is told, and its settings are not changed
    output.write_json(STEP_FILE, "measuring the plain model")
    output.open()
    found = shown()
    assert found["now"] == "measuring the plain model" and "go on" not in found
    assert "measuring the plain model" in run("runs", tmp_path)[1]
    status, said = run("retry", output.path, "--set", "NGEN=9")
    assert status == console.WRONG and "is running; stop it" in said
    output.close()
    # When it is parked, then a retry is offered, and at a dead end it is not, and none is started
    write_parked_state(output, ParkedState("quota"))
    found = shown()
    assert (": parked, " in found[""], found["parked"], "go on" in found) == (True, "quota", True)
    write_parked_state(output, ParkedState("no valid answer", is_dead_end=True))
    found = shown()
    assert (": stopped, " in found[""], found["stopped"]) == (True, "no valid answer")
    assert "start another run" in found["next"] and "retry" not in str(found.values())
    before = sorted(output.path.iterdir())
    for command in ("retry", "resume"):
        status, said = run(command, output.path)
        assert status == console.BROKEN and "no valid answer" in said and sorted(output.path.iterdir()) == before


@pytest.mark.parametrize(
    ("damaged", "text"), [("run.json", "{"), ("usage.json", '{"requests": "7"}'), ("history.jsonl", "half\n")]
)
def test_a_damaged_run_is_named_and_the_others_are_listed(
    tmp_path: Path, store: Store, run: Any, damaged: str, text: str
) -> None:
    for name in ("first", "second", "damaged"):
        OutputFolder(tmp_path / name).run_id("evolve")
    folder = tmp_path / "damaged"
    (folder / damaged).write_text(text)
    # When they are listed, then the others are there, and the file is named
    status, said = run("runs", tmp_path)
    assert status == console.BROKEN and f"damaged/{damaged}" in said
    assert all(f" {tmp_path / name}\n" in said for name in ("first", "second"))
    # And its own state is refused, and Flower's page has all three
    status, said = run("status", folder)
    assert status == console.WRONG and f"damaged/{damaged}" in said
    views = index_runs(tmp_path, store).values()
    assert len(views) == 3
    assert [f"damaged/{damaged}" in view.problem for view in views if view.state == "unreadable"] == [True]


def test_control_characters_of_a_folders_name_are_escaped(tmp_path: Path, run: Any) -> None:
    folder = tmp_path / "a\x1b[31mb"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"id": "demo-1", "kind": "evolve"}))
    said = run("runs", tmp_path)[1] + run("status", folder)[1]
    assert "\x1b" not in said and said.count(r"a\x1b[31mb") >= 2
