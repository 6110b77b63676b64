"""Each kind of process of the farm is killed during a generation; the run ends in the state of the reference."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest
from chaos_plan import Fault
from chaos_run import run_with_faults
from chaos_subject import Subject
from run_folder import RunFolder, process_of

KINDS = ("gpu", "openai", "cpu", "pool child", "target", "valkey", "endpoint")


def test_no_kill_of_a_process_changes_the_final_state(reference_run: RunFolder, tmp_path: Path) -> None:
    faults = deque(Fault("kill -9", kind, after=1, seconds=0.0) for kind in KINDS)
    subject = Subject(tmp_path / "run", {})
    try:
        report = run_with_faults("run", subject, faults, reference_run.state(), tmp_path)
    finally:
        subject.close()
    print(report)
    assert report.problems == []
    assert report.sessions["ended"] == 1  # on a busy machine a call may use up its tries first, which parks the run
    assert len(report.faults) + len(faults) == len(KINDS)


@pytest.mark.long
def test_a_killed_supervisor_stops_a_run_with_a_reason_and_the_same_command_finishes_it(
    reference_run: RunFolder, tmp_path: Path
) -> None:
    faults = deque(
        [
            Fault("connection cut", "valkey", after=1, seconds=1.0),
            Fault("kill -9", "supervisor", after=1, seconds=0.0),
        ]
    )
    subject = Subject(tmp_path / "run", {})
    try:
        report = run_with_faults("run", subject, faults, reference_run.state(), tmp_path)
        assert process_of(subject.folder, "supervisor") is None
    finally:
        subject.close()
    assert report.problems == []
    assert (report.sessions["stopped"], report.sessions["ended"]) == (1, 1)
    assert any("ended" in reason or "was lost" in reason for reason in report.reasons)
