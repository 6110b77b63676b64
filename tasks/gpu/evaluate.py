"""The job that samples and grades what one checkpoint would deploy: one split and mode, quarantine off or on."""

from __future__ import annotations

import hashlib
from typing import Any

from celery import shared_task

from tasks.gpu.training.start import run_training_child
from tasks.job import Job, JobTask, run_job
from tasks.message import ContentKey, Count, RunId


def evaluate_deployment(job: Job) -> dict[str, Any]:
    """Raises: LookupError when the store no longer has the checkpoint, or has another one."""
    found = job.store.checkpoint(job.run, job.arguments["checkpoint"])
    if found is None or hashlib.sha256(found).hexdigest() != job.arguments["sha256"]:
        raise LookupError(f"{job.arguments['checkpoint']} is not in the store as it was when its training ended")
    return run_training_child(job, "evaluate", checkpoint=job.arguments["checkpoint"])


@shared_task(name="gpu.evaluate", base=JobTask, card="computes")
def evaluate_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), evaluate_deployment)
