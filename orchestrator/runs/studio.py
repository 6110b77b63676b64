"""What workers make for the output folder: pictures on the cpu queue, processors on the gpu queue.

They are asked for and left to be made; `collect` fetches those that are ready.  A picture that fails is told and
does not stop a run.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from celery import Celery

from orchestrator.dispatch.single import send, task_end
from orchestrator.output import OutputFolder
from tasks.cpu.plot import DATA, PICTURES, WASTED
from tasks.store import Store

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Wanted:
    """A task that makes a file, and what it was asked with."""

    id: str
    task: str
    arguments: list[Any]


class Studio:
    """Files in the making, by name; a newer request for a name takes the place of the older."""

    def __init__(self, app: Celery, store: Store, run_id: str, output: OutputFolder) -> None:
        self.app = app
        self.store = store
        self.run_id = run_id
        self.output = output
        self._wanted: dict[str, _Wanted] = {}  # by file name

    def draw(self, history: Sequence[dict[str, Any]], tree: dict[str, Any], baseline_tokens: float | None) -> None:
        """Have all pictures of the run drawn anew."""
        data = {"history": list(history), "tree": tree, "baseline_tokens": baseline_tokens}
        self.store.put_file(self.run_id, DATA, json.dumps(data).encode())
        for name in PICTURES:
            self._want(name, "cpu.plot", [self.run_id, name])

    def draw_wasted(self, v_steer: Sequence[dict[str, Any]]) -> None:
        """Have Phase 0's picture drawn."""
        self.store.put_file(self.run_id, DATA, json.dumps({"v_steer": list(v_steer)}).encode())
        self._want(WASTED, "cpu.plot", [self.run_id, WASTED])

    def processor(self, name: str, deltas: Sequence[float]) -> None:
        """Have a processor file made for these deltas (in canonical order)."""
        self._want(name, "gpu.processor", [self.run_id, name, list(deltas)])

    def collect(self) -> None:
        """Write the files that are ready."""
        for name, wanted in list(self._wanted.items()):
            status, result = task_end(self.app, wanted.id)
            if status is None:
                continue
            del self._wanted[name]
            data = self.store.file(self.run_id, name)
            if status != "SUCCESS" or data is None:
                log.warning("%s could not be made: %s", name, result)
            else:
                self.output.write(name, data)

    def wait(self, pause: Callable[[], None], until: float, clock: Callable[[], float]) -> None:
        """Collect until nothing is wanted, or until the clock says so; what takes long is asked for once more.

        A worker that is killed may take a message with it (see `FarmEvaluator`), and a file can be made twice.
        """
        again = (clock() + until) / 2
        while self._wanted and clock() < until:
            self.collect()
            if self._wanted and clock() > again:
                again = until
                for name, wanted in self._wanted.items():
                    self._want(name, wanted.task, wanted.arguments)
            if self._wanted:
                pause()
        for name in self._wanted:
            log.warning("%s was not made in time", name)

    def _want(self, name: str, task: str, arguments: list[Any]) -> None:
        self._wanted[name] = _Wanted(send(self.app, task, arguments), task, arguments)
