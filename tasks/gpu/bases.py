"""The job that computes the bases of a model's weights, once, on the card of a worker, where they are kept."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from tasks.gpu.training.start import run_training_child
from tasks.job import Job, JobTask, run_job
from tasks.message import ContentKey, Count, RunId


def compute_bases(job: Job) -> dict[str, Any]:
    return run_training_child(job, "bases")


@shared_task(name="gpu.bases", base=JobTask, card="computes")
def bases_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), compute_bases)
