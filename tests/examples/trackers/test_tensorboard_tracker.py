"""TensorBoard's own reader on what a run has written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tracked_run import TrackedRun, png, record
from trackers import figures_of_generation


@pytest.fixture
def run(tmp_path: Path) -> TrackedRun:
    return TrackedRun(tmp_path / "run")


def read(run: TrackedRun) -> Any:
    return EventAccumulator(str(run.folder / "tensorboard")).Reload()


def scalars(run: TrackedRun) -> dict[str, list[tuple[int, float]]]:
    found = read(run)
    return {tag: [(each.step, each.value) for each in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def test_a_finished_run_has_its_figures_settings_plots_and_report(run: TrackedRun) -> None:
    run.session("trackers:TensorboardTracker", 0, 2)
    assert run.lines == []
    found = scalars(run)
    for name, value in figures_of_generation(record(1)).items():
        step, last = found[name][-1]
        assert (step, last) == (1, pytest.approx(value)), name
    assert [step for step, _ in found["fitness/best"]] == [0, 1]
    assert "endpoint/cost_usd" not in found  # it is not known
    for name in ("mean_tokens", "right", "whole", "correct"):
        assert found[f"test/winner/{name}"] == [(2, pytest.approx(run.winner()["test"][name]))]
    assert found["validation/plain/correct"] == [(2, 180)]
    events = read(run)
    [image] = events.Images("fitness")
    assert (image.encoded_image_string, image.width, image.height) == (png(3, 2), 3, 2)
