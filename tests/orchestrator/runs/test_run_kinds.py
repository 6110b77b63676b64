"""Kinds of runs: each is found by its name in run.json, and all are listed in the same way."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from orchestrator.collect.run import start_collection
from orchestrator.collect.settings import CollectOptions, read_collect_settings
from orchestrator.evolve.session import start_evolution
from orchestrator.farm.dispatcher import CANCELLED_REASON
from orchestrator.runs.folder import OutputError, OutputFolder
from orchestrator.runs.kinds import KINDS, kind_of
from orchestrator.runs.status import ParkedState, run_status, write_parked_state
from orchestrator.settings.kconfig import load_settings

EVOLVE, COLLECT = Path("configs/embedded.config"), Path("configs/collect.yaml")


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_run_is_found_by_its_name(tmp_path: Path, name: str) -> None:
    run_id = OutputFolder(tmp_path).run_id(name)
    kind = kind_of(tmp_path)
    assert kind.name == name
    status = run_status(tmp_path)
    assert (status.run, status.kind, status.state, status.done, status.total) == (run_id, name, "stopped", 0, None)
    assert not kind.figure_lines(status.figures)
    # When it has parked, then its reason is shown
    write_parked_state(OutputFolder(tmp_path), ParkedState(CANCELLED_REASON))
    assert (run_status(tmp_path).state, run_status(tmp_path).reason) == ("parked", CANCELLED_REASON)
    # When a process holds the folder, then it is running
    holder = OutputFolder(tmp_path)
    holder.open()
    assert run_status(tmp_path).state == "running"
    holder.close()


@pytest.mark.parametrize(("kind", "other"), [("evolve", "collect"), ("collect", "evolve")])
def test_a_command_of_another_kind_changes_nothing_in_the_folder(tmp_path: Path, kind: str, other: str) -> None:
    output = OutputFolder(tmp_path / "run")
    output.open()
    output.run_id(kind)
    write_parked_state(output, ParkedState("its reason"))
    output.close()
    before = {path.name: path.read_bytes() for path in output.path.iterdir()}
    with pytest.raises(OutputError, match=f"holds a run of '{kind}'"):
        start(other, output.path)
    assert {path.name: path.read_bytes() for path in output.path.iterdir()} == before


def start(kind: str, folder: Path) -> None:
    if kind == "evolve":
        start_evolution(load_settings(EVOLVE, [f"OUTPUT_DIR={folder}"]), fresh=False, plain=True)
        return
    settings = dataclasses.replace(read_collect_settings(COLLECT), output_dir=str(folder))
    start_collection(settings, CollectOptions(requests_per_minute=1, tokens_per_minute=1000), resume=False)


def test_an_unknown_kind_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"id": "a-run", "kind": "dance"}))
    with pytest.raises(OutputError, match="no kind of runs is called 'dance'"):
        run_status(tmp_path)
