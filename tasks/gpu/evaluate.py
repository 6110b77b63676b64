"""The job that samples and grades what one checkpoint would deploy: many splits and modes, quarantine off or on.

Each evaluation has a content key of its own, under which its result is in the store as soon as it is there.
"""

from __future__ import annotations

import hashlib
from typing import Any

from celery import shared_task

from tasks.gpu.training.start import run_training_child
from tasks.job import Job, JobTask, run_job
from tasks.message import ContentKey, Count, RunId


def evaluate_checkpoint(job: Job) -> dict[str, Any]:
    """{"evaluations": the results in the order of the job}; those that the store has are not computed again.

    Raises: LookupError when the store no longer has the checkpoint, or has another one.
    """
    keys = [asked["key"] for asked in job.arguments["evaluations"]]

    def answered() -> list[str]:
        return list(job.store.shared(job.run, keys))

    if len(answered()) < len(keys):
        found = job.store.checkpoint(job.run, job.arguments["checkpoint"])
        if found is None or hashlib.sha256(found).hexdigest() != job.arguments["sha256"]:
            raise LookupError(f"{job.arguments['checkpoint']} is not in the store as it was when its training ended")
        run_training_child(job, "evaluate", job.arguments["checkpoint"], lambda: {"answered": answered()})
    return {"evaluations": job.results(keys)}


@shared_task(name="gpu.evaluate", base=JobTask, card="computes")
def evaluate_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), evaluate_checkpoint)
