"""The worker's side: what a child that trains is given, and what becomes of what it reports.  Imports nothing heavy."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tasks.gpu import host
from tasks.gpu.compute.process import ComputeChild, Report, run_child
from tasks.job import Job
from tasks.models import Target
from tasks.progress import PROGRESS_CLOCK
from tasks.store.keys import PROGRESS
from tasks.task import raise_if_cancelled
from tasks.validation import parse_json

log = logging.getLogger(__name__)
Work = Literal["bases", "train", "evaluate"]


def run_training_child(
    job: Job, work: Work, checkpoint: str = "", more: Callable[[], Mapping[str, Any]] = dict
) -> dict[str, Any]:
    """What the child returns.  It computes on the card of this worker, which serves nobody meanwhile.

    It begins with the checkpoint that the store has under the key `checkpoint`, and each that it makes goes there.
    Results that it reports by content key go into the store at once.  What `more` returns is given to it beside the
    job's arguments, each time a child is started.  A child that finds no memory on the card beside others is started
    again from the latest checkpoint when another one has ended.

    Raises: ChildFailed; Cancelled; LookupError when data are not in the store.
    """
    worker, reports = host.current(), _Reports(job, checkpoint)
    target = parse_json(Target, json.dumps(job.arguments["inputs"]["target"]))
    given = {
        **job.arguments,
        "data": _texts(job, job.arguments["inputs"]["data"]),
        "teacher": job.results([job.arguments["pool"]])[0]["rows"] if job.arguments.get("pool") else [],
        "model_folder": worker.model_folder(target),
        "bases_folder": str(worker.bases_folder()),
    }

    def check() -> None:
        raise_if_cancelled(job.store, job.run)

    def attempt() -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="whetstone-train-") as folder:
            begin = Path(folder) / "begin"
            found = job.store.checkpoint(job.run, checkpoint) if checkpoint else None
            if found is not None:
                begin.write_bytes(found)
            here = {"begin": str(begin) if found is not None else "", "folder": folder}
            stdin = json.dumps({**given, **more(), **here}).encode()
            child = ComputeChild("training", "tasks.gpu.training", (work,), stdin, worker.environment(target.device))
            return run_child(child, reports.take, check)

    with worker.computing(check):
        return worker.share_memory(attempt, check, reports.take_notice)


@dataclass
class _Reports:
    """What becomes of a child's reports: checkpoints, results, and how far it is, beside a notice for the user."""

    job: Job
    checkpoint: str
    progress: Report = field(default_factory=dict)

    def take(self, report: Report) -> None:
        PROGRESS_CLOCK.note()
        store, run = self.job.store, self.job.run
        if "checkpoint" in report:
            store.put_checkpoint(run, self.checkpoint, Path(report["checkpoint"]).read_bytes())
        elif "results" in report:
            for key, result in report["results"].items():
                store.put_shared(run, key, result)
        else:
            self.progress = {**report, "job": self.job.key}
            self._publish(self.progress)

    def take_notice(self, notice: str) -> None:
        log.warning("%s", notice)
        self._publish({**self.progress, "notice": notice})

    def _publish(self, progress: Report) -> None:
        text = json.dumps(progress)
        self.job.store.put_metadata(self.job.run, PROGRESS, text)
        self.job.store.put_metadata(self.job.run, progress_field(self.job.key), text)


def progress_field(key: str) -> str:
    """The field of a run's metadata that says how far the job with this key is, as JSON: stage, done, total.

    While it waits for something it has a `notice`, the sentence that says why.
    """
    return f"{PROGRESS}:{key}"


def _texts(job: Job, keys: Mapping[str, str]) -> dict[str, str]:
    names = list(keys)
    found = job.results([keys[name] for name in names])
    return {name: value["text"] for name, value in zip(names, found, strict=True)}
