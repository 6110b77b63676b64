"""Trackers that hang and trackers that are not installed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from tracked_run import TrackedRun
from trackers import Tracker

from orchestrator.callbacks import RunEnd, RunInfo, load_callbacks
from orchestrator.settings import SettingsError

RELEASED = threading.Event()


class Waiting(Tracker):
    """A tracker whose server takes a connection and does not answer until the test is over."""

    name: ClassVar[str] = "time"

    def begin(self, run: RunInfo) -> None:
        RELEASED.wait()

    def metrics(self, step: int, figures: Mapping[str, float]) -> None:
        raise AssertionError("it has not begun")

    def artifacts(self, paths: Sequence[Path]) -> None:
        raise AssertionError("it has not begun")

    def finish(self, end: RunEnd, summary: str) -> None:
        raise AssertionError("it has not begun")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[TrackedRun]:
    RELEASED.clear()
    yield TrackedRun(tmp_path / "run")
    RELEASED.set()


def test_a_tracker_that_hangs_holds_up_the_end_alone_and_not_for_ever(run: TrackedRun) -> None:
    run.session([Waiting(end_s=0.05)], 0, 2)
    [line] = run.lines
    assert "Waiting.on_end" in line and "TimeoutError" in line


def test_a_tracker_that_is_not_installed_is_refused_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(SettingsError, match=r"pip install '\.\[wandb\]'"):
        load_callbacks("trackers:WandbTracker", "CALLBACKS")
