"""The job that trains one trajectory with one seed.  Any worker goes on with the checkpoint that another one left."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from tasks.gpu.training.start import run_training_child
from tasks.job import Job, JobTask, run_job
from tasks.message import ContentKey, Count, RunId


def train(job: Job) -> dict[str, Any]:
    found = run_training_child(job, "train", checkpoint=job.arguments["checkpoint"])
    return {**found, "checkpoint": job.arguments["checkpoint"]}


@shared_task(name="gpu.train", base=JobTask, card="computes")
def train_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), train)
