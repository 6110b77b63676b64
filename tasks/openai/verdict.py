"""The verdict on one compressed answer (phase0_collect.md sections 4.7 and 6), by the judge that `evolve` has too."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from tasks.message import Count, RunId
from tasks.openai import calling
from tasks.openai.judge import judged_by
from tasks.phase0.job import Job, JobTask, run_job


def decide(job: Job) -> dict[str, Any]:
    """Raises: tasks.openai.errors.CallError, JudgeReplyError: a judge that says nothing usable is no verdict."""
    collection = job.collection
    client = calling.client_for(calling.Caller(collection.id, collection.judge_endpoint), job.store)
    row = (job.example.question, job.example.gold, job.compressed(job.sample))
    verdict = judged_by(client, collection.judge, f"{collection.id}-{key_of(job).replace(':', '-')}", row)
    if verdict["by"]:
        job.store.add_answerers(collection.id, "judge", [verdict["by"]])
    return verdict


def key_of(job: Job) -> str:
    return job.collection.verdict_key(job.example, job.compressed(job.sample))


@shared_task(name="openai.verdict", base=JobTask)
def verdict_task(run: RunId, index: Count, sample: Count, dispatch: Count) -> None:
    run_job((run, index, sample, dispatch), key_of, decide)
