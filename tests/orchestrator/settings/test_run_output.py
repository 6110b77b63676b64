"""The folder of a run is what its settings say, or is named after their file and their content."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.settings.run_output import RunOutput, folder_name


@pytest.mark.parametrize(
    ("name", "run_id"),
    [("my guide", "my-guide-01234567"), ("n" * 99, "n" * 60 + "-01234567"), ("测试", "guide-01234567")],
)
def test_a_run_without_a_name_is_called_after_its_file(name: str, run_id: str) -> None:
    output = RunOutput("outputs").named(name, "guide", "0123456789abcdef")
    assert (output.run_id, output.path) == (run_id, Path("outputs") / run_id)
    assert folder_name(run_id) == run_id


def test_a_name_of_ones_own_stays() -> None:
    output = RunOutput("outputs", "mine")
    assert output.named("other", "guide", "0123456789abcdef") == output


@pytest.mark.parametrize("name", ["", ".", "../out", ".hidden", "a/b", "a b", "x" * 81, "名"])
def test_what_is_no_name_of_a_folder_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no name of a folder"):
        folder_name(name)
