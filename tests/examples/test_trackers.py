"""What trackers have of a run in two sessions; trackers that hang, and trackers that are not installed."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import pytest
from measured_book import EVOLVED, report, write_reported
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from trackers import Tracker, figures_of_generation

from orchestrator.callbacks import Callbacks, GenerationInfo, RunEnd, RunInfo, load_callbacks
from orchestrator.settings import SettingsError

LONG = "Answer. " * 1000  # a system prompt that is longer than MLflow's limit
SETTINGS: dict[str, Any] = {"seed": 7, "cxpb": 0.5, "judge": "exact_number", "clusters_from": None, "prompt": LONG}
MANY = {f"option_{number}": str(number) for number in range(120)}  # more than MLflow takes at once
FILES = {
    "report.json", "report.txt", "fitness.png", "processor_best.py", "history.jsonl", "systems.json", "front.json",
    "answers.json", "config",
}  # fmt: skip
TEST = asdict(report().system(EVOLVED))["test"]


def record(number: int) -> dict[str, Any]:
    """A line of history.jsonl."""
    score = {"fitness": 0.5 + number / 10, "shortness": 0.4, "correctness": 0.75, "mean_tokens": 40.5 - number}
    return {
        "generation": number, "best": score["fitness"], "mean": 0.25, "best_ever": score["fitness"],
        "population": [{"node": f"g{number}_pop0", **score}], "offspring": [],
        "evaluations": {"computed": 3, "cached": 2, "carried": 0}, "seconds": {"wall": 1.5, "answer": 1.25},
        "tokens": {"target": 100, "prompt": 50, "cached": 0, "completion": 20}, "calls": 4, "cost_usd": None,
    }  # fmt: skip


def session(trackers: Any, folder: Path, done: int, until: int, end: RunEnd, **changed: Any) -> list[str]:
    """A session that records the generations from `done` to before `until`; returns what the terminal shows."""
    lines: list[str] = []
    folder.mkdir(exist_ok=True)
    told = Callbacks(load_callbacks(trackers, "CALLBACKS") if isinstance(trackers, str) else trackers, lines.append)
    told.start(RunInfo(f"{folder.name}-1", "evolve", folder, {**SETTINGS, **MANY, **changed}, 3, done))
    for number in range(done, until):
        written = [json.dumps(record(before)) + "\n" for before in range(number + 1)]
        (folder / "history.jsonl").write_text("".join(written))
        told.end_generation(GenerationInfo(number, record(number), {"0": 0.5}, ""))
    if end.state == "finished":
        write_reported(folder)
        (folder / "report.txt").write_text("It saves tokens.\nOn 300 questions.\n")
        (folder / "processor_best.py").write_text("print('steer')\n")
        Image.effect_noise((3, 2), 50).convert("RGBA").save(folder / "fitness.png")
    told.end(end)
    return lines


def two_sessions(tracker: str, folder: Path) -> None:
    parked = RunEnd("parked", "the judge cannot be reached")
    assert session(tracker, folder, 0, 1, parked) == []
    assert session(tracker, folder, 1, 2, RunEnd("finished"), ngen=9, judge="strict") == []


def test_tensorboard_has_each_generation_once_and_the_report(tmp_path: Path) -> None:
    two_sessions("trackers:TensorboardTracker", tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    found = {tag: [(each.step, each.value) for each in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    figures = [figures_of_generation(record(number)) for number in range(2)]
    for name in figures[0]:
        assert found[name] == [(number, pytest.approx(figures[number][name])) for number in range(2)], name
    assert "endpoint/cost_usd" not in found  # it is not known
    for name in ("mean_tokens", "right", "whole", "correct"):
        assert found[f"test/winner/{name}"] == [(2, pytest.approx(TEST[name]))]
    [image] = events.Images("fitness")
    assert image.encoded_image_string == (tmp_path / "run" / "fitness.png").read_bytes()


@pytest.mark.trackers
def test_mlflow_has_both_sessions_in_one_run_with_changed_settings_as_tags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)  # where MLflow keeps files
    two_sessions("trackers:MlflowTracker", tmp_path / "run")
    client: Any = MlflowClient()
    [there] = client.search_runs([client.get_experiment_by_name("whetstone").experiment_id])
    assert (there.info.run_name, there.info.status) == ("run-1", "FINISHED")
    wanted = {name: str(value) for name, value in (SETTINGS | MANY).items()}
    assert there.data.params == {**wanted, "prompt": LONG[:6000], "ngen": "9"}
    assert there.data.tags["changed.judge"] == "strict"
    assert there.data.tags["mlflow.note.content"] == report(run="run-1").conclusion.sentence
    for name, value in figures_of_generation(record(0)).items():
        points = client.get_metric_history(there.info.run_id, name)
        assert [point.step for point in points] == [0, 1] and points[0].value == value, name
    assert there.data.metrics["test/winner/mean_tokens"] == TEST["mean_tokens"]
    assert {file.path for file in client.list_artifacts(there.info.run_id)} == FILES


def test_a_tracker_that_hangs_holds_up_the_end_alone_and_not_for_ever(tmp_path: Path) -> None:
    released = threading.Event()

    class Waiting(Tracker):
        """Its server takes a connection and does not answer until the test is over."""

        name: ClassVar[str] = "time"

        def begin(self, run: RunInfo) -> None:
            released.wait()

        def metrics(self, step: int, figures: Mapping[str, float]) -> None:
            raise AssertionError("it has not begun")

        def artifacts(self, paths: Sequence[Path]) -> None:
            raise AssertionError("it has not begun")

        def finish(self, end: RunEnd, summary: str) -> None:
            raise AssertionError("it has not begun")

    [line] = session([Waiting(end_s=0.05)], tmp_path / "run", 0, 2, RunEnd("finished"))
    released.set()
    assert "Waiting.on_end" in line and "TimeoutError" in line


def test_a_tracker_that_is_not_installed_is_refused_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(SettingsError, match=r"pip install '\.\[wandb\]'"):
        load_callbacks("trackers:WandbTracker", "CALLBACKS")
