"""TensorBoard's own reader on what runs have written; trackers that hang, and trackers that are not installed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tracked_run import TrackedRun, record
from trackers import Tracker, figures_of_generation

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


def test_tensorboard_has_each_generation_of_a_run_once_over_its_sessions_and_the_report(run: TrackedRun) -> None:
    run.session("trackers:TensorboardTracker", 0, 1, RunEnd("parked", "the judge cannot be reached"))
    run.session("trackers:TensorboardTracker", 1, 2)
    assert run.lines == []
    events = EventAccumulator(str(run.folder / "tensorboard")).Reload()
    found = {tag: [(each.step, each.value) for each in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    figures = [figures_of_generation(record(number)) for number in range(2)]
    for name in figures[0]:
        assert found[name] == [(number, pytest.approx(figures[number][name])) for number in range(2)], name
    assert "endpoint/cost_usd" not in found  # it is not known
    for name in ("mean_tokens", "right", "whole", "correct"):
        assert found[f"test/winner/{name}"] == [(2, pytest.approx(run.winner()["test"][name]))]
    assert found["validation/plain/correct"] == [(2, 180)]
    [image] = events.Images("fitness")
    picture = (run.folder / "fitness.png").read_bytes()
    assert (image.encoded_image_string, image.width, image.height) == (picture, 3, 2)


def test_a_tracker_that_hangs_holds_up_the_end_alone_and_not_for_ever(run: TrackedRun) -> None:
    run.session([Waiting(end_s=0.05)], 0, 2)
    [line] = run.lines
    assert "Waiting.on_end" in line and "TimeoutError" in line


def test_a_tracker_that_is_not_installed_is_refused_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(SettingsError, match=r"pip install '\.\[wandb\]'"):
        load_callbacks("trackers:WandbTracker", "CALLBACKS")
