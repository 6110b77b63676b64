"""MLflow: a run of the experiment MLFLOW_EXPERIMENT_NAME at MLFLOW_TRACKING_URI, by MLflow's own variables."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

from orchestrator.callbacks import EndState, RunEnd, RunInfo
from orchestrator.trackers import Tracker

EXPERIMENT = "whetstone"
TRAINING = {"mlflow.experimentKind": "custom_model_development"}  # has MLflow's pages show charts, not prompts
LONGEST_PARAM, MOST_PARAMS = 6000, 100  # MLflow's limits of a value, and of a request
STATUS: Mapping[EndState, str] = {"finished": "FINISHED", "parked": "KILLED", "stopped": "KILLED", "failed": "FAILED"}


class MlflowTracker(Tracker):
    """A parameter of MLflow cannot change, so a setting that has changed since the first session becomes a tag."""

    name: ClassVar[str] = "mlflow"

    def begin(self, run: RunInfo) -> None:
        self._client = MlflowClient()
        experiment = self._experiment()
        found = self._client.search_runs([experiment], f"tags.`whetstone.run` = '{run.id}'", max_results=1)
        tags = {"whetstone.run": run.id, "whetstone.kind": run.kind, "whetstone.folder": str(run.folder.resolve())}
        there = found[0] if found else self._client.create_run(experiment, run_name=run.id, tags=tags)
        self._id = str(there.info.run_id)
        self._client.update_run(self._id, status="RUNNING")
        known, wanted = there.data.params, {name: str(value)[:LONGEST_PARAM] for name, value in run.settings.items()}
        new = [Param(name, value) for name, value in wanted.items() if name not in known]
        for start in range(0, len(new), MOST_PARAMS):
            self._client.log_batch(self._id, params=new[start : start + MOST_PARAMS])
        changed = {name: value for name, value in wanted.items() if known.get(name, value) != value}
        self._client.log_batch(self._id, tags=[RunTag(f"changed.{name}", value) for name, value in changed.items()])

    def metrics(self, step: int, figures: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        self._client.log_batch(self._id, metrics=[Metric(name, value, now, step) for name, value in figures.items()])

    def artifacts(self, paths: Sequence[Path]) -> None:
        for path in paths:
            self._client.log_artifact(self._id, str(path))

    def finish(self, end: RunEnd, summary: str) -> None:
        self._client.set_tag(self._id, "mlflow.note.content", summary)
        self._client.set_tag(self._id, "whetstone.state", end.state)
        self._client.set_terminated(self._id, STATUS[end.state])

    def _experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
        if experiment := os.environ.get("MLFLOW_EXPERIMENT_ID"):
            return experiment
        if (found := self._client.get_experiment_by_name(name)) is not None:
            return str(found.experiment_id)
        return str(self._client.create_experiment(name, tags=TRAINING))
