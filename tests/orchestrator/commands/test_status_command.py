"""`orchestrator status` and `runs`: why a run does not go on; a damaged run is named and hides no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator import console
from orchestrator.cli import main
from orchestrator.flower_ext.runs import index_runs
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.status import ParkedState, write_parked_state
from tasks.store.store import Store


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


HISTORY = {
    "generation": 0, "arm": "plain", "best": 0.5, "mean": 0.5, "best_ever": 0.5, "offspring": [],
    "population": [{"node": "g0_pop0", "fitness": 0.5, "shortness": 0.5, "correctness": 0.5, "mean_tokens": 9.0}],
    "evaluations": {"computed": 1, "cached": 0, "carried": 0}, "seconds": {"wall": 1.0},
    "tokens": {"target": 1, "prompt": 1, "cached": 0, "completion": 1}, "calls": 3, "cost_usd": 0.0,
}  # fmt: skip


def edit(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(text) and None


DAMAGE = {
    "run.json": edit("run.json", "{"),
    "usage.json": edit("usage.json", '{"requests": "7"}'),
    "history.jsonl": edit("history.jsonl", "half\n"),
}


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """Two sound runs."""
    for name in ("first", "second"):
        folder = OutputFolder(tmp_path / name)
        folder.run_id("evolve")
        folder.write("history.jsonl", json.dumps(HISTORY) + "\n")
    return tmp_path


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_is_named_and_the_others_are_listed(
    outputs: Path, store: Store, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    # Given three runs, of which one is damaged
    folder = OutputFolder(outputs / "damaged")
    folder.run_id("evolve")
    DAMAGE[damage](folder.path)
    named = f"damaged/{damage}"
    # When they are listed, then the others are there, and the file is named
    assert main(["runs", str(outputs)]) == console.BROKEN
    said = capsys.readouterr()
    assert [line.split()[-1] for line in said.out.splitlines()[1:]] == [str(outputs / n) for n in ("first", "second")]
    [line] = said.err.splitlines()
    assert named in line
    # And for a program
    assert main(["runs", str(outputs), "--json"]) == console.BROKEN
    *_, last = json.loads(capsys.readouterr().out)
    assert (last["folder"], last["state"]) == (str(folder.path), "unreadable") and named in last["reason"]
    # And its own state is refused in one line
    assert main(["status", str(folder.path)]) == console.WRONG
    assert named in capsys.readouterr().err
    # And Flower's page has all three
    views = index_runs(outputs, store)
    assert sorted(view.state for view in views.values()) == ["stopped", "stopped", "unreadable"]
    assert [named in view.problem for view in views.values() if view.state == "unreadable"] == [True]


def test_control_characters_of_a_folders_name_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a\x1b[31mb"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"id": "demo-1", "kind": "evolve"}))
    main(["runs", str(tmp_path)])
    main(["status", str(folder)])
    printed = capsys.readouterr().out
    assert "\x1b" not in printed and printed.count(r"a\x1b[31mb") >= 2
