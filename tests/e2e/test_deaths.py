"""Every kind of process of the farm is killed in mid-generation; the run ends as if nothing had happened."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest
from chaos_plan import Fault
from chaos_run import disturb
from chaos_scene import Scene
from workplace import Workplace, victim

KINDS = ("gpu", "openai", "cpu", "pool child", "target", "valkey", "endpoint")


def test_no_death_changes_where_a_run_ends(undisturbed: Workplace, tmp_path: Path) -> None:
    deck = deque(Fault("kill -9", kind, after=1, seconds=0.0) for kind in KINDS)
    scene = Scene(tmp_path / "run", {})
    try:
        report = disturb("run", scene, deck, undisturbed.state(), tmp_path)
    finally:
        scene.close()
    print(report)
    assert report.problems == []
    assert report.sessions["ended"] == 1  # on a busy machine a call may run out of tries first, and park it
    assert len(report.faults) + len(deck) == len(KINDS)


@pytest.mark.long
def test_a_lost_supervisor_stops_a_run_with_a_reason_and_it_ends_as_if_nothing_had_happened(
    undisturbed: Workplace, tmp_path: Path
) -> None:
    deck = deque(
        [
            Fault("connection cut", "valkey", after=1, seconds=1.0),
            Fault("500s", "endpoint", after=1, seconds=0.0),
            Fault("kill -9", "supervisor", after=1, seconds=0.0),
        ]
    )
    scene = Scene(tmp_path / "run", {})
    try:
        report = disturb("run", scene, deck, undisturbed.state(), tmp_path)
        assert victim(scene.place, "supervisor") is None
    finally:
        scene.close()
    assert report.problems == []
    assert (report.sessions["stopped"], report.sessions["ended"]) == (1, 1)
    assert any("ended" in reason or "went away" in reason for reason in report.reasons)
