"""Callbacks that tell experiment trackers of a run: MLflow, TensorBoard, Weights & Biases (docs/monitoring.md).

    orchestrator evolve --set CALLBACKS=examples/trackers.py:MlflowTracker

They follow a run in a thread of their own, so that a slow server holds up nothing.  Addresses and keys are in the
trackers' own environment variables.
"""

from __future__ import annotations

import contextvars
import importlib
import logging
import os
import queue
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from orchestrator.callbacks import Callback, EndState, GenerationInfo, RunEnd, RunInfo

if TYPE_CHECKING:
    from orchestrator.report.model import ReportFile

log = logging.getLogger(__name__)

END_S = 60.0
ARTIFACTS = (
    "report.html", "report.txt", "report.json", "systems.json", "front.json", "pareto.png", "fitness.png",
    "evolution_lengths.png", "evolution_tree.png", "processor_best.py", "deltas_best.json", "deploy/processor.py",
    "deploy/system_prompt.txt", "deploy/system.json", "deploy/request.json", "deploy/README.md", "history.jsonl",
    "individuals.jsonl", "answers.json", "config",
)  # fmt: skip
"""The files of a finished run that its tracker gets, as far as they are there."""


class Tracker(Callback, ABC):
    """A tracker that follows one session of a run.

    The abstract methods are called in one thread, in order, `begin` first; when that fails, nothing else is called.
    The first failure of a session is raised in the driver's thread, where it is reported; the run goes on.
    """

    name: ClassVar[str]
    """Of its library, and of the extra that installs it."""

    def __init__(self, end_s: float = END_S) -> None:
        try:
            importlib.import_module(self.name)
        except ImportError as error:
            raise ImportError(f"it cannot be used ({error}); pip install '.[{self.name}]'") from None
        self._end_s = end_s  # at most so long the end of a session waits
        self._todo: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._failure: Exception | None = None
        self._is_reported = False

    @abstractmethod
    def begin(self, run: RunInfo) -> None:
        """Begin the run in the tracker, or go on with it there."""

    @abstractmethod
    def metrics(self, step: int, figures: Mapping[str, float]) -> None:
        """Figures of generation `step`; those of the end of a run have the number of generations as step."""

    @abstractmethod
    def artifacts(self, paths: Sequence[Path]) -> None:
        """Files of the finished run."""

    @abstractmethod
    def finish(self, end: RunEnd, summary: str) -> None:
        """The session has ended: send what is not sent.  `summary` is the report's first sentence, or a reason."""

    def on_start(self, run: RunInfo) -> None:
        self._generations = run.done
        self._todo.put(lambda: self.begin(run))
        work = contextvars.copy_context().run  # lines of the log name the run
        self._thread = threading.Thread(target=work, args=(self._work,), name=f"tracker {self.name}", daemon=True)
        self._thread.start()

    def on_generation(self, run: RunInfo, generation: GenerationInfo) -> None:
        self._generations = generation.number + 1
        self._todo.put(lambda: self.metrics(generation.number, figures_of_generation(generation.record)))
        self._report()

    def on_end(self, run: RunInfo, end: RunEnd) -> None:
        self._todo.put(lambda: self._end(run, end))
        self._todo.put(None)
        self._thread.join(self._end_s)
        if self._thread.is_alive() and self._failure is None:
            self._failure = TimeoutError(f"it has not taken everything within {self._end_s:g} s")
        self._report()

    def _report(self) -> None:
        if self._failure is not None and not self._is_reported:
            self._is_reported = True
            raise self._failure

    def _work(self) -> None:
        is_begun = False
        while (step := self._todo.get()) is not None:
            try:
                step()
            except Exception as error:  # whatever a tracker's library raises
                self._failure = self._failure or error
                log.info("the tracker %s failed: %r", self.name, error)
                if not is_begun:
                    return
            is_begun = True

    def _end(self, run: RunInfo, end: RunEnd) -> None:
        from orchestrator.results import RunResults

        summary = end.reason
        try:
            if end.state == "finished":
                if (report := RunResults(run.folder).report) is not None:
                    summary = report.conclusion.sentence
                    self.metrics(self._generations, figures_of_report(report))
                self.artifacts([path for name in ARTIFACTS if (path := run.folder / name).is_file()])
        finally:
            self.finish(end, summary)


def figures_of_generation(record: Mapping[str, Any]) -> dict[str, float]:
    """Those of a line of history.jsonl; "leader/..." are those of the best individual of the population."""
    leader = max(record["population"], key=lambda one: float(one["fitness"]))
    return _flat(
        {
            "fitness": {name: record[name] for name in ("best", "mean", "best_ever")},
            "leader": {name: leader[name] for name in ("mean_tokens", "correctness", "shortness")},
            **{group: record[group] for group in ("evaluations", "seconds", "tokens")},
            "endpoint": {name: record[name] for name in ("calls", "cost_usd")},
        }
    )


def figures_of_report(report: ReportFile) -> dict[str, float]:
    """The plain model ("plain") and the winner ("winner") on each set that they were asked."""
    sides = {"plain": report.system("plain"), "winner": report.system(report.winner)}
    return _flat(
        {
            f"{which}/{side}": {name: getattr(found, name) for name in ("mean_tokens", "right", "whole", "correct")}
            for which in ("training", "ordering", "validation", "test")
            for side, system in sides.items()
            if (found := getattr(system, which)) is not None
        }
    )


def _flat(groups: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    found = {f"{group}/{name}": value for group, values in groups.items() for name, value in values.items()}
    return {name: float(value) for name, value in found.items() if value is not None}


class MlflowTracker(Tracker):
    """A run of the experiment MLFLOW_EXPERIMENT_NAME at MLFLOW_TRACKING_URI.

    A parameter of MLflow cannot change, so a setting that has changed since the first session becomes a tag.
    """

    name = "mlflow"
    longest_param, most_params = 6000, 100  # MLflow's limits of a value, and of a request
    status: ClassVar[Mapping[EndState, str]] = {"finished": "FINISHED", "failed": "FAILED"}

    def begin(self, run: RunInfo) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Param, RunTag

        self._client = MlflowClient()
        experiment = os.environ.get("MLFLOW_EXPERIMENT_ID") or self._experiment()
        found = self._client.search_runs([experiment], f"tags.`whetstone.run` = '{run.id}'", max_results=1)
        tags = {"whetstone.run": run.id, "whetstone.kind": run.kind, "whetstone.folder": str(run.folder.resolve())}
        there = found[0] if found else self._client.create_run(experiment, run_name=run.id, tags=tags)
        self._id = str(there.info.run_id)
        self._client.update_run(self._id, status="RUNNING")
        known = there.data.params
        wanted = {name: str(value)[: self.longest_param] for name, value in run.settings.items()}
        new = [Param(name, value) for name, value in wanted.items() if name not in known]
        for start in range(0, len(new), self.most_params):
            self._client.log_batch(self._id, params=new[start : start + self.most_params])
        changed = {name: value for name, value in wanted.items() if known.get(name, value) != value}
        self._client.log_batch(self._id, tags=[RunTag(f"changed.{name}", value) for name, value in changed.items()])

    def metrics(self, step: int, figures: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._client.log_batch(self._id, metrics=[Metric(name, value, now, step) for name, value in figures.items()])

    def artifacts(self, paths: Sequence[Path]) -> None:
        for path in paths:
            self._client.log_artifact(self._id, str(path))

    def finish(self, end: RunEnd, summary: str) -> None:
        self._client.set_tag(self._id, "mlflow.note.content", summary)
        self._client.set_tag(self._id, "whetstone.state", end.state)
        self._client.set_terminated(self._id, self.status.get(end.state, "KILLED"))

    def _experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "whetstone"
        if (found := self._client.get_experiment_by_name(name)) is not None:
            return str(found.experiment_id)
        kind = {"mlflow.experimentKind": "custom_model_development"}  # has MLflow's pages show charts, not prompts
        return str(self._client.create_experiment(name, tags=kind))


class WandbTracker(Tracker):
    """A run of the project WANDB_PROJECT, with the same id there as here; WANDB_MODE=offline needs no server."""

    name = "wandb"

    def begin(self, run: RunInfo) -> None:
        import wandb

        settings = wandb.Settings(
            silent=True, console="off", x_disable_stats=True, save_code=False, init_timeout=END_S, finish_timeout=END_S
        )
        if wandb.setup().settings.mode in ("online", "shared") and not wandb.login(prompt=False):
            raise RuntimeError("W&B has no API key: set WANDB_API_KEY, or WANDB_MODE=offline")
        self._there = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or "whetstone", id=run.id, name=run.id, job_type=run.kind,
            dir=os.environ.get("WANDB_DIR") or str(run.folder), resume="allow", reinit="create_new", settings=settings,
        )  # fmt: skip
        plain = {name: v if isinstance(v, bool | int | float) else str(v) for name, v in run.settings.items()}
        self._there.config.update(plain, allow_val_change=True)

    def metrics(self, step: int, figures: Mapping[str, float]) -> None:
        self._there.log(dict(figures), step=step)

    def artifacts(self, paths: Sequence[Path]) -> None:
        import wandb

        artifact = wandb.Artifact(f"run-{self._there.id}", type="run")
        for path in paths:
            artifact.add_file(str(path))
        self._there.log_artifact(artifact)
        self._there.log({path.stem: wandb.Image(str(path)) for path in paths if path.suffix == ".png"})

    def finish(self, end: RunEnd, summary: str) -> None:
        self._there.summary.update({"state": end.state, "summary": summary})
        self._there.finish(exit_code=0 if end.state == "finished" else 1)


class TensorboardTracker(Tracker):
    """Event files in the folder `tensorboard` of the run: figures, and plots as images.

    `tensorboard --logdir outputs` compares runs.
    """

    name = "tensorboard"

    def begin(self, run: RunInfo) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer, self._step = EventFileWriter(str(run.folder / "tensorboard")), run.done

    def metrics(self, step: int, figures: Mapping[str, float]) -> None:
        self._step = step
        self._write([{"tag": name, "simple_value": value} for name, value in figures.items()])

    def artifacts(self, paths: Sequence[Path]) -> None:
        for path in paths:
            if path.suffix == ".png":
                png = path.read_bytes()
                width, height = struct.unpack(">II", png[16:24])  # in the first chunk
                image = {"height": height, "width": width, "colorspace": 4, "encoded_image_string": png}
                self._write([{"tag": path.stem, "image": image}])

    def finish(self, end: RunEnd, summary: str) -> None:
        self._writer.close()

    def _write(self, values: Sequence[Mapping[str, Any]]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.add_event(Event(wall_time=time.time(), step=self._step, summary={"value": values}))
        self._writer.flush()
