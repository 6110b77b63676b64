"""TensorBoard's own reader on what a run has written."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tracked_run import SETTINGS, TrackedRun, png, record

from orchestrator.callbacks import RunEnd
from orchestrator.output import read_state
from orchestrator.trackers.base import TrackerState
from orchestrator.trackers.figures import figures_of_generation


@pytest.fixture
def run(tmp_path: Path) -> TrackedRun:
    return TrackedRun(tmp_path / "run")


def read(run: TrackedRun) -> Any:
    return EventAccumulator(str(run.folder / "tensorboard")).Reload()


def scalars(run: TrackedRun) -> dict[str, list[tuple[int, float]]]:
    found = read(run)
    return {tag: [(each.step, each.value) for each in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def test_a_finished_run_has_its_figures_settings_plots_and_report(run: TrackedRun) -> None:
    run.session("tensorboard", 0, 2)
    assert run.lines == []
    found = scalars(run)
    for name, value in figures_of_generation(record(1)).items():
        step, last = found[name][-1]
        assert (step, last) == (1, pytest.approx(value)), name
    assert [step for step, _ in found["fitness/best"]] == [0, 1]
    assert "endpoint/cost_usd" not in found  # it is not known
    report = run.report()
    for name in ("mean_tokens", "share_correct", "fitness"):
        assert found[f"test/best/{name}"] == [(2, pytest.approx(report["test"]["best"][name]))]
        assert found[f"test/zero/{name}"] == [(2, pytest.approx(report["test"]["zero"][name]))]
    events = read(run)
    [image] = events.Images("fitness")
    assert (image.encoded_image_string, image.width, image.height) == (png(3, 2), 3, 2)
    [text] = events.Tensors("report")
    assert text.tensor_proto.string_val[0] == b"    It saves tokens.\n    On 300 questions.\n"
    [end] = events.Tensors("end")
    assert end.tensor_proto.string_val[0].decode().strip() == f"finished: {report['verdict']}"
    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    start = HParamsPluginData.FromString(content).session_start_info
    shown = {name: getattr(value, value.WhichOneof("kind")) for name, value in start.hparams.items()}
    assert shown == {**SETTINGS, "clusters_from": "None"}


def test_a_resumed_run_adds_the_generations_that_are_new(run: TrackedRun) -> None:
    run.session("tensorboard", 0, 1, RunEnd("parked", "the judge cannot be reached"))
    run.session("tensorboard", 1, 3)
    run.session("tensorboard", 3, 3)  # the same command on a finished run
    found = scalars(run)
    assert [step for step, _ in found["fitness/mean"]] == [0, 1, 2]
    assert [step for step, _ in found["test/best/fitness"]] == [3]
    ends = [each.tensor_proto.string_val[0].decode().strip() for each in read(run).Tensors("end")]
    assert ends[0] == "parked: the judge cannot be reached" and ends[1].startswith("finished: ")


def test_a_copy_of_a_run_is_a_run_of_its_own(run: TrackedRun, tmp_path: Path) -> None:
    run.session("tensorboard", 0, 2)
    copy = TrackedRun(shutil.copytree(run.folder, tmp_path / "copy"), run_id="copy-3c4d")
    shutil.rmtree(copy.folder / "tensorboard")
    copy.session("tensorboard", 2, 3)
    assert [step for step, _ in scalars(copy)["fitness/mean"]] == [0, 1, 2]


def test_what_a_tracker_missed_it_gets_later_and_its_fault_is_one_line(run: TrackedRun) -> None:
    # Given a place where nothing can be written
    run.folder.mkdir()
    (run.folder / "tensorboard").write_text("a file")
    run.session("tensorboard", 0, 2, RunEnd("stopped", "interrupted"))
    # Then that is said once, and the run was not disturbed
    [line] = run.lines
    assert line.startswith("the callback TensorboardTracker.on_") and line.endswith("; the run is not affected")
    assert "tensorboard" in line and "FileExistsError" in line
    # When there is a place again, then the next session sends all
    (run.folder / "tensorboard").unlink()
    run.session("tensorboard", 2, 3)
    assert [step for step, _ in scalars(run)["fitness/mean"]] == [0, 1, 2]
    state = read_state(run.folder / "tracker_tensorboard.json", TrackerState)
    assert state == TrackerState("demo-1a2b", "tensorboard", generations=3, finished=3)
