"""What all trackers share: they follow a run in a thread of their own, so that a slow server holds up nothing.

A tracker's own id of the run and the number of generations that it has are in the output folder, in
tracker_NAME.json.  A resumed run goes on in the same run of the tracker, with the generations that it lacks, also
those of an earlier session in which it did not answer.
"""

from __future__ import annotations

import contextvars
import dataclasses
import logging
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import NonNegativeInt

from orchestrator.callbacks import Callback, GenerationInfo, RunEnd, RunInfo
from orchestrator.history import read_history
from orchestrator.output import OutputFolder, read_state
from orchestrator.trackers.figures import figures_of_generation, figures_of_report, read_report

log = logging.getLogger(__name__)

END_S = 60.0
ARTIFACTS = (
    "report.html", "report.txt", "report.json", "measurements.jsonl", "pareto.json", "pareto.png", "fitness.png",
    "evolution_lengths.png", "evolution_tree.png", "processor_best.py", "deltas_best.json",
    "system_prompt.txt", "history.jsonl", "individuals.jsonl", "answers.json", "config",
)  # fmt: skip
"""The files of a finished run that its tracker gets, as far as they are there."""


class TrackerTimeout(Exception):
    """A tracker has not taken everything in time."""


@dataclass(frozen=True)
class TrackerState:
    """tracker_NAME.json: the run, its id in the tracker, and how many generations the tracker has.

    `finished` is the number of generations that the run had when its last figures were sent; 0 before.
    """

    run: str
    id: str = ""
    generations: NonNegativeInt = 0
    finished: NonNegativeInt = 0


class Tracker(Callback, ABC):
    """A tracker that follows one session of a run.

    The abstract methods are called in one thread, in order, `begin` first.  When one has failed, all that is missing is
    tried again with the next generation.  The first failure of a session is raised in the driver's thread, where it is
    reported; the run goes on.
    """

    name: ClassVar[str]

    def __init__(self, end_s: float = END_S) -> None:
        self._end_s = end_s  # at most so long the end of a session waits
        self._todo: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._is_reported = self._is_begun = False
        self._earlier: list[dict[str, Any]] = []  # generations of earlier sessions
        self._records: list[Mapping[str, Any]] = []  # and of this one

    @abstractmethod
    def begin(self, run: RunInfo, known: str) -> str:
        """Begin the run in the tracker, or go on with `known` if it is not "".  Returns the id there.

        The tracker shows `run.settings`, also those that have changed since an earlier session.
        """

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
        self._run, self._output = run, OutputFolder(run.folder)
        work = contextvars.copy_context().run  # lines of the log name the run
        self._thread = threading.Thread(target=work, args=(self._work,), name=f"tracker {self.name}", daemon=True)
        self._thread.start()
        self._todo.put(self._catch_up)

    def on_generation(self, run: RunInfo, generation: GenerationInfo) -> None:
        self._records.append(generation.record)
        self._todo.put(self._catch_up)
        self._report()

    def on_end(self, run: RunInfo, end: RunEnd) -> None:
        """Raises: TrackerTimeout when it takes too long; the first failure of the session, unless it was reported."""
        self._todo.put(lambda: self._end(end))
        self._todo.put(None)
        if self._thread is not None:
            self._thread.join(self._end_s)
            if self._thread.is_alive() and self._failure is None:
                self._failure = TrackerTimeout(f"it has not taken everything within {self._end_s:g} s")
        self._report()

    def _report(self) -> None:
        if self._failure is not None and not self._is_reported:
            self._is_reported = True
            raise self._failure

    def _work(self) -> None:
        while (step := self._todo.get()) is not None:
            try:
                step()
            except Exception as error:  # whatever a tracker's library raises
                self._failure = self._failure or error
                log.info("the tracker %s failed: %r", self.name, error)

    def _catch_up(self) -> None:
        """Begin, unless that is done, and send the generations that the tracker lacks."""
        if not self._is_begun:
            self._state = self._read_state()
            self._earlier = read_history(self._output.history)[: self._run.done]
            self._keep(id=self.begin(self._run, self._state.id))
            self._is_begun = True
        for record in [*self._earlier, *self._records][self._state.generations :]:
            self.metrics(record["generation"], figures_of_generation(record))
            self._keep(generations=record["generation"] + 1)

    def _end(self, end: RunEnd) -> None:
        summary = end.reason
        try:
            self._catch_up()
            if end.state == "finished":
                report, generations = read_report(self._run.folder), self._state.generations
                if report is not None:
                    summary = report.verdict
                    if self._state.finished != generations:
                        self.metrics(generations, figures_of_report(report))
                        self._keep(finished=generations)
                self.artifacts([path for name in ARTIFACTS if (path := self._run.folder / name).is_file()])
        finally:
            if self._is_begun:
                self.finish(end, summary)

    @property
    def _file(self) -> str:
        return f"tracker_{self.name}.json"

    def _read_state(self) -> TrackerState:
        """What an earlier session of this run has left; a copy of its folder is another run."""
        try:
            known = read_state(self._run.folder / self._file, TrackerState)
        except FileNotFoundError:
            return TrackerState(self._run.id)
        return known if known.run == self._run.id else TrackerState(self._run.id)

    def _keep(self, **changed: Any) -> None:
        self._state = dataclasses.replace(self._state, **changed)
        self._output.write_state(self._file, dataclasses.asdict(self._state))
