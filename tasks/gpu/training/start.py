"""The worker's side: what a child that trains is given, and what becomes of what it reports.  Imports nothing heavy."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
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

Work = Literal["bases", "train", "evaluate"]


def run_training_child(job: Job, work: Work, checkpoint: str = "", **more: Any) -> dict[str, Any]:
    """What the child returns.  It computes on the card of this worker, which serves nobody meanwhile.

    It begins with the checkpoint that the store has under the key `checkpoint`, and each that it makes goes there.
    Results that it reports by content key go into the store at once.  `more` is given to it beside the job's arguments.
    Raises: ChildFailed; Cancelled; LookupError when data are not in the store.
    """
    store, run, worker = job.store, job.run, host.current()
    inputs = job.arguments["inputs"]
    target = parse_json(Target, json.dumps(inputs["target"]))

    def check() -> None:
        raise_if_cancelled(store, run)

    with tempfile.TemporaryDirectory(prefix="whetstone-train-") as folder, worker.computing(check):
        begin = Path(folder) / "begin"
        found = store.checkpoint(run, checkpoint) if checkpoint else None
        if found is not None:
            begin.write_bytes(found)
        given = {
            **job.arguments,
            **more,
            "data": _texts(job, inputs["data"]),
            "teacher": job.results([job.arguments["pool"]])[0]["rows"] if job.arguments.get("pool") else [],
            "model_folder": worker.model_folder(target),
            "bases_folder": str(worker.bases_folder()),
            "begin": str(begin) if found is not None else "",
            "folder": folder,
        }

        def on_report(report: Report) -> None:
            PROGRESS_CLOCK.note()
            if "checkpoint" in report:
                store.put_checkpoint(run, checkpoint, Path(report["checkpoint"]).read_bytes())
            elif "results" in report:
                for key, result in report["results"].items():
                    store.put_shared(run, key, result)
            else:
                progress = json.dumps({**report, "job": job.key})
                store.put_metadata(run, PROGRESS, progress)
                store.put_metadata(run, progress_field(job.key), progress)

        child = ComputeChild(
            "training",
            "tasks.gpu.training",
            (work,),
            json.dumps(given).encode(),
            worker.environment(target.device),
        )
        return run_child(child, on_report, check)


def progress_field(key: str) -> str:
    """The field of a run's metadata that says how far the job with this key is, as JSON."""
    return f"{PROGRESS}:{key}"


def _texts(job: Job, keys: Mapping[str, str]) -> dict[str, str]:
    names = list(keys)
    found = job.results([keys[name] for name in names])
    return {name: value["text"] for name, value in zip(names, found, strict=True)}
