"""Every kind of process of the farm is killed in mid-generation; the run ends as if nothing had happened."""

from __future__ import annotations

from collections import deque
from pathlib import Path

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
    assert report.problems == []
    assert report.sessions == {"ended": 1}
    assert len(report.faults) + len(deck) == len(KINDS)


def test_a_full_disk_parks_a_run_a_lost_supervisor_stops_it_and_it_ends_as_if_nothing_had_happened(
    undisturbed: Workplace, tmp_path: Path
) -> None:
    deck = deque(
        [
            Fault("connection cut", "valkey", after=1, seconds=1.0),
            Fault("disk full", "output", after=1, seconds=0.0),
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
    assert (report.sessions["parked"], report.sessions["stopped"], report.sessions["ended"]) == (1, 1, 1)
    full, gone = report.reasons
    assert full.startswith("parked: ")
    assert "cannot be written" in full
    assert "ended" in gone or "went away" in gone
