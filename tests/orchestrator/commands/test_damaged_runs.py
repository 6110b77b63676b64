"""A run of which a file is damaged is named, with the file, and does not hide the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator import console
from orchestrator.cli import main
from orchestrator.flower_ext.runs import index_runs
from orchestrator.runs.folder import OutputFolder
from tasks.store.store import Store

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
