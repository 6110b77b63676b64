"""How a run starts and ends: an exit status, a line and a file; one that is refused keeps its settings."""

from __future__ import annotations

import errno
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from orchestrator import console
from orchestrator.callbacks import Callbacks
from orchestrator.console import Terminated
from orchestrator.farm import FarmLost, FarmUnavailable, Parked
from orchestrator.runs.folder import OutputFolder, OutputNotWritable
from orchestrator.runs.session import Driving, Ending, restored_if_refused
from orchestrator.settings import SettingsError
from tasks.common.logs import SecretError
from tasks.records import Failure


def drive(output: OutputFolder, error: BaseException | None = None, **more: Any) -> Ending:
    with Driving(output, Callbacks(()), **more) as driving:
        if error is not None:
            raise error
    return driving.ending


NO_SPACE = OSError(errno.ENOSPC, "No space left on device", "farm/spec.json")


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (None, console.DONE, ""),
        (KeyboardInterrupt(), console.INTERRUPTED, "interrupted; the same command goes on"),
        (Terminated(), 128 + signal.SIGTERM, "terminated; the same command goes on"),
        (OutputNotWritable("the disk is full"), console.PARKED, "parked: the disk is full"),
        (NO_SPACE, console.PARKED, "parked: farm/spec.json cannot be written: No space left on device"),
    ],
)
def test_a_run_that_ends_lets_its_folder_go_and_one_that_is_stopped_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: BaseException | None, status: int, line: str
) -> None:
    output, closed = OutputFolder(tmp_path), list[bool]()
    output.open()
    assert drive(output, error, close=lambda: closed.append(True)).exit() == status
    said = capsys.readouterr().err
    assert line in said and (f"orchestrator retry {tmp_path}" in said) == (error is not None)
    assert closed
    OutputFolder(tmp_path).open()  # nothing holds it any more


def test_a_run_that_parks_records_why_and_shows_each_error_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    errors = enumerate(["CallError: 500", "CallError: 500", "CallError: 404"])
    failures = tuple(
        Failure("r", "jobs", f"key{i}", f"node{i}", "judge", error, f"t{i}", 1, 1.0, 1) for i, error in errors
    )
    parked = Parked("judge of node0 failed: CallError: 500 (and 2 more)", failures)
    assert drive(OutputFolder(tmp_path), parked).exit() == console.PARKED
    said = capsys.readouterr().err
    assert said.count("CallError: 500") == said.count("judge of node2: CallError: 404") == 1
    written = json.loads((tmp_path / "parked.json").read_text())
    assert [failure["node"] for failure in written["failures"]] == ["node0", "node1", "node2"]


@pytest.mark.parametrize("error", [SettingsError(["no"]), SecretError("no key"), FarmUnavailable("no farm")])
def test_settings_with_which_a_run_is_refused_do_not_replace_those_that_it_has(
    tmp_path: Path, error: Exception
) -> None:
    settings, added = tmp_path / "settings", tmp_path / "added"

    def start(error: Exception) -> tuple[str, bool]:
        added.unlink(missing_ok=True)
        with pytest.raises(type(error)), restored_if_refused(settings, added):
            settings.write_text("new")
            added.write_text("new")
            raise error
        return settings.read_text(), added.exists()

    assert start(error) == ("new", True)  # a new run has no earlier ones
    settings.write_text("old")
    assert start(error) == ("old", False)  # one that has them keeps them
    assert start(FarmLost("the farm has ended")) == ("new", True)  # what ends it later leaves the new ones
