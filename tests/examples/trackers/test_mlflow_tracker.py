"""MLflow's own store, a SQLite file, on what a run has sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tracked_run import FILES, TrackedRun, record
from trackers import figures_of_generation

from orchestrator.callbacks import RunEnd

pytestmark = pytest.mark.trackers
LONG = "Answer. " * 1000  # a system prompt that is longer than MLflow's limit


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrackedRun:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)  # where MLflow keeps files
    many = {f"option_{number}": str(number) for number in range(120)}
    made = TrackedRun(tmp_path / "run")
    made.settings |= {"target_system_prompt": LONG, **many}
    return made


def client() -> Any:
    from mlflow import MlflowClient

    return MlflowClient()


def runs(experiment: str) -> list[Any]:
    found = client().get_experiment_by_name(experiment)
    return list(client().search_runs([found.experiment_id]))


def test_a_finished_run_is_in_the_store_with_its_files(run: TrackedRun) -> None:
    run.session("trackers:MlflowTracker", 0, 2)
    assert run.lines == []
    [there] = runs("whetstone")
    assert (there.info.run_name, there.info.status) == (run.run_id, "FINISHED")
    wanted = {name: str(value) for name, value in run.settings.items()}
    assert there.data.params == {**wanted, "target_system_prompt": LONG[:6000]}
    assert there.data.tags["mlflow.note.content"] == run.report()["conclusion"]["sentence"]
    assert there.data.tags["whetstone.folder"] == str(run.folder)
    for name, value in figures_of_generation(record(0)).items():
        points = client().get_metric_history(there.info.run_id, name)
        assert (points[0].step, points[0].value) == (0, value), name
    assert there.data.metrics["fitness/best"] == record(1)["best"]
    assert there.data.metrics["test/winner/mean_tokens"] == run.winner()["test"]["mean_tokens"]
    assert {file.path for file in client().list_artifacts(there.info.run_id)} == FILES
    fetched = client().download_artifacts(there.info.run_id, "processor_best.py")
    assert Path(fetched).read_bytes() == (run.folder / "processor_best.py").read_bytes()


def test_a_resumed_run_goes_on_in_the_same_run_with_its_changed_settings(
    run: TrackedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "ours")
    run.session("trackers:MlflowTracker", 0, 1, RunEnd("parked", "the judge cannot be reached"))
    [there] = runs("ours")
    assert (there.info.status, there.data.tags["whetstone.state"]) == ("KILLED", "parked")
    assert there.data.tags["mlflow.note.content"] == "the judge cannot be reached"
    run.settings["ngen"] = 9  # was no setting before
    run.settings["judge"] = "strict"
    run.session("trackers:MlflowTracker", 1, 3)
    assert run.lines == []
    [there] = runs("ours")
    assert (there.info.status, there.data.tags["whetstone.state"]) == ("FINISHED", "finished")
    assert there.data.params["ngen"] == "9"
    assert (there.data.params["judge"], there.data.tags["changed.judge"]) == ("exact_number", "strict")
    points = client().get_metric_history(there.info.run_id, "fitness/mean")
    assert [point.step for point in points] == [0, 1, 2]
