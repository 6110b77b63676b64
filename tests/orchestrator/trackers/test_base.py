"""Trackers that hang, and trackers whose file is damaged: the run goes on, and one line says what happened."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from tracked_run import TrackedRun

from orchestrator.callbacks import RunEnd, RunInfo
from orchestrator.trackers import TrackerMissing, make_trackers
from orchestrator.trackers.base import Tracker

RELEASED = threading.Event()


class Waiting(Tracker):
    """A tracker whose server takes a connection and does not answer until the test is over."""

    name: ClassVar[str] = "waiting"

    def begin(self, run: RunInfo, known: str) -> str:
        RELEASED.wait()
        return "1"

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
    late = "TrackerTimeout: it has not taken everything within 0.05 s"
    assert run.lines == [f"the callback Waiting.on_end failed: {late}; the run is not affected"]


def test_a_damaged_file_of_a_tracker_is_named_and_nothing_is_sent_twice(run: TrackedRun) -> None:
    run.session("tensorboard", 0, 1, RunEnd("stopped"))
    path = run.folder / "tracker_tensorboard.json"
    path.write_text(path.read_text().replace('"generations": 1', '"generations": 0'))
    run.session("tensorboard", 1, 2)
    [line] = run.lines
    assert f"failed: OutputError: {path} cannot be read: " in line
    assert len(list((run.folder / "tensorboard").iterdir())) == 1


def test_a_tracker_that_is_not_installed_is_refused_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.delitem(sys.modules, "orchestrator.trackers.wandb", raising=False)
    with pytest.raises(TrackerMissing) as refused:
        make_trackers(["wandb"])
    assert str(refused.value).startswith("wandb cannot be used (")
    assert str(refused.value).endswith("); pip install '.[wandb]'")
