"""Jobs that several kinds of runs send, and the files that workers make: one that cannot be made is a warning."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from orchestrator.farm.work import Request, Scheduler
from orchestrator.runs.folder import OutputFolder, append_lines, load_lines
from tasks.cpu.plots import Plot
from tasks.records import Example, JobSpec, Target
from tasks.store.keys import content_hash

log = logging.getLogger(__name__)


def ask_server(scheduler: Scheduler, target: Target, limit_s: float | None) -> dict[str, Any]:
    """What the gpu queue says of the server of `target`; `limit_s` is the job's, None the run's own."""
    # With the attempt in its key: at each start the server may be another one.
    key = "server:" + content_hash(scheduler.dispatcher.run_id, scheduler.attempt)
    found = scheduler.result(key, JobSpec("gpu.identity", "server", {"target": asdict(target)}, limit_s))
    say_template(scheduler, found)
    return found


def say_template(scheduler: Scheduler, found: Mapping[str, Any]) -> None:
    """Say what a job has noted of the chat template."""
    for note in found.get("template", ()):
        scheduler.dispatcher.notify(f"the model's chat template {note}")


@dataclass(frozen=True)
class LongPrompts:
    """Lengths by id of the prompts longer than `limit` tokens, beside an answer of `cap` tokens."""

    limit: int | None
    cap: int
    lengths: Mapping[str, int]

    def listed(self) -> str:
        """The questions with their lengths, such as "q7 (9,312 tokens)"."""
        return ", ".join(f"{name} ({length:,} tokens)" for name, length in self.lengths.items())

    def reason(self) -> str:
        fit = f"more than the {self.limit:,} tokens that fit the target beside an answer of {self.cap:,}"
        return f"prompts have {fit}: {self.listed()}"


def find_long_prompts(
    scheduler: Scheduler,
    target: Target,
    examples: Sequence[Example],
    watch: Callable[[], None] = lambda: None,
) -> LongPrompts:
    """Measure the prompts of these examples."""
    shown = [asdict(example) for example in examples]
    arguments: dict[str, Any] = {"target": asdict(target), "examples": shown}
    key = "lengths:" + content_hash(scheduler.dispatcher.run_id, arguments)
    result = scheduler.result(key, JobSpec("gpu.lengths", "prompts", arguments), watch)
    return LongPrompts(result["limit"], target.sampling.max_new_tokens, result["lengths"])


class ArtifactRequests:
    """Files that workers make, by name; a newer request for a name takes the place of the older."""

    def __init__(self, scheduler: Scheduler, output: OutputFolder, limit_s: float | None = None) -> None:
        self._scheduler, self._output, self._limit_s = scheduler, output, limit_s
        self._store, self._run_id = scheduler.dispatcher.store, scheduler.dispatcher.run_id
        self._requested: dict[str, str] = {}  # file name -> key

    def request_plots(self, kind: str, plots: Sequence[Plot], data: Mapping[str, Any]) -> None:
        """Have plots drawn of `data`, which has what they name; `kind` is the plots' own."""
        text, file = json.dumps(data).encode(), f"{kind}_plots.json"
        self._store.put_file(self._run_id, file, text)
        for plot in plots:
            self._request("cpu.plot", plot.file, {"name": plot.file, "data": file}, content_hash(text.decode()))

    def request_processor(self, name: str, deltas: Sequence[float], clustering: str) -> None:
        """Have the file of a processor made of these deltas, in canonical order, of this clustering."""
        self._request("gpu.processor", name, {"name": name, "deltas": list(deltas), "clustering": clustering})

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

    def _request(self, task: str, name: str, arguments: dict[str, Any], *determined_by: str) -> None:
        key = "file:" + content_hash(self._run_id, name, arguments, *determined_by)
        self._requested[name] = key
        self._scheduler.submit(Request(key, JobSpec(task, name, arguments, self._limit_s)))


JOURNAL = "journal.jsonl"


class JournalLine(TypedDict):
    """A key with its result; or how many replies there were when a mission parked, as too many were of no use."""

    key: NotRequired[str]
    result: NotRequired[dict[str, Any]]
    parked_at: NotRequired[int]


class Journal:
    """Every result that a run, or a part of one, was given, so that it outlives its store.

    A job that is submitted with it is not done again (`Scheduler.submit`).  `results` are by content key; `parked_at`
    has the parks, oldest first.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.results: dict[str, dict[str, Any]] = {}
        self.parked_at: list[int] = []
        for line in load_lines(path, JournalLine, "result", repair=True):
            if "parked_at" in line:
                self.parked_at.append(line["parked_at"])
            elif "key" in line and "result" in line:
                self.results[line["key"]] = line["result"]

    def add(self, results: Mapping[str, dict[str, Any]]) -> None:
        """Write those that are new; when this returns, a power cut does not take them away."""
        new = {key: result for key, result in results.items() if key not in self.results}
        self.results |= new
        if new:
            append_lines(self._path, [{"key": key, "result": result} for key, result in new.items()])

    def add_park(self, replies: int) -> None:
        """Write that it parks after so many replies."""
        self.parked_at.append(replies)
        append_lines(self._path, [{"parked_at": replies}])
