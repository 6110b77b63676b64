"""The jobs that train: what their child is given, and what becomes of what it reports.  Imports nothing heavy.

bases      the bases of a model's weights, once, on the card of a worker, where they are kept
train      one trajectory with one seed; any worker goes on with the checkpoint that another one left
evaluate   samples and grades what one checkpoint would deploy; each evaluation has a content key of its own
"""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from celery import shared_task

from tasks.common.validation import ContentKey, Count, RunId
from tasks.gpu import host
from tasks.gpu.compute.process import CardMemoryFull, ComputeChild, Report, run_child
from tasks.job import Job, JobTask, run_job
from tasks.records import Sampling, Target
from tasks.store.keys import PROGRESS
from tasks.task import raise_if_cancelled

log = logging.getLogger(__name__)
Work = Literal["bases", "train", "evaluate"]


def run_training_child(
    job: Job, work: Work, checkpoint: str = "", more: Callable[[], Mapping[str, Any]] = dict
) -> dict[str, Any]:
    """What the child returns.  It computes on the card of this worker, which serves nobody meanwhile.

    It begins with the checkpoint that the store has under the key `checkpoint`, and each that it makes goes there.
    Results that it reports by content key go into the store at once.  What `more` returns is given to it beside the
    job's arguments, each time a child is started.  A child that finds the memory of the card full is started once more,
    from the latest checkpoint, when it has the card to itself.
    """
    worker, store, run = host.current(), job.store, job.run
    values = job.arguments["inputs"]["target"]
    target = Target(**{**values, "sampling": Sampling(**values["sampling"])})
    given = {
        **job.arguments,
        "data": _texts(job, job.arguments["inputs"]["data"]),
        "teacher": job.results([job.arguments["pool"]])[0]["rows"] if job.arguments.get("pool") else [],
        "model_folder": worker.model_folder(target),
        "bases_folder": str(worker.bases_folder()),
    }

    def check() -> None:
        raise_if_cancelled(store, run)

    def take(report: Report) -> None:
        if "checkpoint" in report:
            store.put_checkpoint(run, checkpoint, Path(report["checkpoint"]).read_bytes())
        elif "results" in report:
            for key, result in report["results"].items():
                store.put_shared(run, key, result)
        else:
            progress = json.dumps({**report, "job": job.key})
            store.put_metadata(run, PROGRESS, progress)
            store.put_metadata(run, progress_field(job.key), progress)

    def attempt() -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="whetstone-train-") as folder:
            begin = Path(folder) / "begin"
            found = store.checkpoint(run, checkpoint) if checkpoint else None
            if found is not None:
                begin.write_bytes(found)
            here = {"begin": str(begin) if found is not None else "", "folder": folder}
            stdin = json.dumps({**given, **more(), **here}).encode()
            child = ComputeChild("training", "tasks.gpu.training", (work,), stdin, worker.environment(target.device))
            return run_child(child, take, check)

    try:
        with worker.computing(check):
            return attempt()
    except CardMemoryFull as error:
        log.warning(
            "%s; it starts again when it has the card to itself (fewer GPU_SLOTS or --gpu-jobs avoid that)", error
        )
    with worker.computing(check, alone=True):
        return attempt()


def progress_field(key: str) -> str:
    """The field of a run's metadata that says how far the job with this key is, as JSON: stage, done, total."""
    return f"{PROGRESS}:{key}"


def _texts(job: Job, keys: Mapping[str, str]) -> dict[str, str]:
    names = list(keys)
    found = job.results([keys[name] for name in names])
    return {name: value["text"] for name, value in zip(names, found, strict=True)}


def compute_bases(job: Job) -> dict[str, Any]:
    return run_training_child(job, "bases")


def train(job: Job) -> dict[str, Any]:
    found = run_training_child(job, "train", checkpoint=job.arguments["checkpoint"])
    return {**found, "checkpoint": job.arguments["checkpoint"]}


def evaluate_checkpoint(job: Job) -> dict[str, Any]:
    """{"evaluations": the results in the order of the job}; those that the store has are not computed again."""
    keys = [asked["key"] for asked in job.arguments["evaluations"]]

    def answered() -> list[str]:
        return list(job.store.shared(job.run, keys))

    if len(answered()) < len(keys):
        found = job.store.checkpoint(job.run, job.arguments["checkpoint"])
        if found is None or hashlib.sha256(found).hexdigest() != job.arguments["sha256"]:
            raise LookupError(f"{job.arguments['checkpoint']} is not in the store as it was when its training ended")
        run_training_child(job, "evaluate", job.arguments["checkpoint"], lambda: {"answered": answered()})
    return {"evaluations": job.results(keys)}


@shared_task(name="gpu.bases", base=JobTask, card="computes")
def bases_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), compute_bases)


@shared_task(name="gpu.train", base=JobTask, card="computes")
def train_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), train)


@shared_task(name="gpu.evaluate", base=JobTask, card="computes")
def evaluate_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), evaluate_checkpoint)
