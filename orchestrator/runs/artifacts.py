"""Files of a run that workers make: plots on the cpu queue, processors on the gpu queue.

A file that cannot be made is a warning.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.farm.work import Request, Scheduler
from orchestrator.runs.folder import OutputFolder
from tasks.cpu.plot import COLLECTION_PLOTS, COMPARISON_PLOTS, EVOLUTION_PLOTS, ROUTE_PLOTS, Plot
from tasks.records import JobSpec
from tasks.store.keys import content_hash

log = logging.getLogger(__name__)


class ArtifactRequests:
    """Files that workers make, by name; a newer request for a name takes the place of the older."""

    def __init__(self, scheduler: Scheduler, output: OutputFolder, limit_s: float | None = None) -> None:
        self._scheduler, self._output, self._limit_s = scheduler, output, limit_s
        self._store, self._run_id = scheduler.dispatcher.store, scheduler.dispatcher.run_id
        self._requested: dict[str, str] = {}  # file name -> key

    def request_plots(
        self,
        history: Sequence[Mapping[str, Any]],
        tree: Mapping[str, Any],
        baseline_tokens: float | None,
        baseline_name: str,
    ) -> None:
        """Have all plots of an evolution drawn anew."""
        baseline = {"baseline_tokens": baseline_tokens, "baseline_name": baseline_name}
        self._request_plots("evolution", EVOLUTION_PLOTS, {"history": list(history), "tree": tree, **baseline})

    def request_collection_plots(self, v_steer: Sequence[dict[str, Any]]) -> None:
        """Have the plots of a collection drawn."""
        self._request_plots("collection", COLLECTION_PLOTS, {"v_steer": list(v_steer)})

    def request_comparison_plots(self, points: Sequence[dict[str, Any]]) -> None:
        """Have the plots of all measured systems drawn; `points` are those of `plot_points`."""
        self._request_plots("comparison", COMPARISON_PLOTS, {"points": list(points)})

    def request_route_plots(
        self, rates: Sequence[dict[str, Any]], held_out: str, rows: Mapping[str, Sequence[dict[str, Any]]]
    ) -> None:
        """Have the plots of a `route` run drawn, of its rates in the mode `held_out` and of the rows of each arm."""
        seen = {
            name: [{key: row[key] for key in ("step", "splits") if key in row} for row in found]
            for name, found in rows.items()
        }
        shown = [row for row in rates if row["mode"] == held_out]
        self._request_plots("route", ROUTE_PLOTS, {"rates": shown, "held_out": held_out, "rows": seen})

    def request_processor(self, name: str, deltas: Sequence[float], clustering: str) -> None:
        """Have the file of a processor made of these deltas, in canonical order, of this clustering."""
        arguments = {"name": name, "deltas": list(deltas), "clustering": clustering}
        self._request("gpu.processor", name, arguments)

    def save_ready(self) -> None:
        """Write the files that are ready."""
        results, failures = self._scheduler.poll()
        for failure in failures:
            log.warning("%s could not be made: %s", failure.node, failure.error)
            self._requested = {name: key for name, key in self._requested.items() if key != failure.name}
        for request, result in results:
            name = result["file"]
            if self._requested.get(name) == request.key:  # and no newer one
                del self._requested[name]
                if data := self._store.file(self._run_id, request.key):
                    self._output.write(name, data)
            self._store.forget_file(self._run_id, request.key)

    def wait(self, timeout_s: float) -> None:
        """Save until all that is requested is saved, `timeout_s` seconds at most."""
        deadline = time.monotonic() + timeout_s
        for _ in self._scheduler.dispatcher.wait(self._scheduler):
            self.save_ready()
            if time.monotonic() > deadline:
                break
        for name in self._requested:
            log.warning("%s was not made in time", name)

    def _request_plots(self, kind: str, plots: Sequence[Plot], data: dict[str, Any]) -> None:
        text, file = json.dumps(data).encode(), f"{kind}_plots.json"
        self._store.put_file(self._run_id, file, text)
        for plot in plots:
            self._request("cpu.plot", plot.file, {"name": plot.file, "data": file}, content_hash(text.decode()))

    def _request(self, task: str, name: str, arguments: dict[str, Any], *determined_by: str) -> None:
        key = "file:" + content_hash(self._run_id, name, arguments, *determined_by)
        self._requested[name] = key
        self._scheduler.submit(Request(key, JobSpec(task, name, arguments, self._limit_s)))
