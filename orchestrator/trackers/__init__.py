"""Experiment trackers: what CONFIG_TRACKERS names (docs/trackers.md).  Each is one module, and one line of TRACKERS.

They follow a run in a thread of their own, so that a slow server holds up nothing.
"""

from __future__ import annotations

import contextvars
import importlib
import logging
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from orchestrator.callbacks import Callback, GenerationInfo, RunEnd, RunInfo

if TYPE_CHECKING:
    from orchestrator.report.model import ReportFile

log = logging.getLogger(__name__)

TRACKERS: Mapping[str, str] = {
    "mlflow": "orchestrator.trackers.mlflow:MlflowTracker",
    "tensorboard": "orchestrator.trackers.tensorboard:TensorboardTracker",
    "wandb": "orchestrator.trackers.wandb:WandbTracker",
}
"""The class of each, by name; the name is also that of the extra which installs its library."""
END_S = 60.0
ARTIFACTS = (
    "report.html", "report.txt", "report.json", "systems.json", "front.json", "pareto.png", "fitness.png",
    "evolution_lengths.png", "evolution_tree.png", "processor_best.py", "deltas_best.json", "deploy/processor.py",
    "deploy/system_prompt.txt", "deploy/system.json", "deploy/request.json", "deploy/README.md", "history.jsonl",
    "individuals.jsonl", "answers.json", "config",
)  # fmt: skip
"""The files of a finished run that its tracker gets, as far as they are there."""


def make_trackers(names: Sequence[str]) -> tuple[Tracker, ...]:
    """The trackers of these names."""
    return tuple(map(_make, names))


def _make(name: str) -> Tracker:
    module, _, kind = TRACKERS[name].partition(":")
    try:
        made: Tracker = getattr(importlib.import_module(module), kind)()
    except ImportError as error:
        raise ImportError(f"{name} cannot be used ({error}); pip install '.[{name}]'") from None
    return made


class Tracker(Callback, ABC):
    """A tracker that follows one session of a run.

    The abstract methods are called in one thread, in order, `begin` first; when that fails, nothing else is called.
    The first failure of a session is raised in the driver's thread, where it is reported; the run goes on.
    """

    name: ClassVar[str]

    def __init__(self, end_s: float = END_S) -> None:
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
    return {
        f"{group}/{name}": float(value)
        for group, values in groups.items()
        for name, value in values.items()
        if value is not None
    }
