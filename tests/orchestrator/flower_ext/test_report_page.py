"""The data of a live page are made anew only when a file of the run has changed."""

from __future__ import annotations

import shutil
from pathlib import Path

from orchestrator.flower_ext.report_page import folder_signature, shown_data


def test_data_are_made_once_for_one_state_of_the_folder(finished_run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished_run, tmp_path / "run")
    first = shown_data(folder)
    assert shown_data(folder) is first
    (folder / "run.log").write_text("a line more")
    assert shown_data(folder) is first
    before = folder_signature(folder)
    (folder / "answers.json").unlink()
    assert folder_signature(folder) != before
    assert shown_data(folder)["runs"][0]["answers"] == [] != first["runs"][0]["answers"]
