"""The jobs of a collection on the openai queue: the compression of one verbose answer, and the verdict on it."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from tasks.collect import compression
from tasks.collect.collection import SampleJob, sample_job
from tasks.common.validation import ContentKey, Count, RunId
from tasks.job import JobTask, run_job
from tasks.openai.calls import ask_until_usable, client_for
from tasks.openai.judge import verdict_record


def compress(job: SampleJob) -> dict[str, Any]:
    """A prompt that is too long is not sent: the result has no text, and the reason as `skipped`."""
    collection, store, run = job.collection, job.job.store, job.job.run
    [verbose] = job.texts()
    messages = compression.messages(collection.compress_template, job.example.question, verbose)
    if reason := collection.too_long(messages):
        return {"text": "", "by": "", "skipped": reason}
    client, call = client_for(store, run, collection.reflector_endpoint), job.job.call_id
    found, written = ask_until_usable(client, messages, compression.Compression, collection.reflector, call, store, run)
    store.add_providers(run, "reflector", [written.provider])
    return {"text": found.rewritten_answer, "by": written.provider}


def judge_sample(job: SampleJob) -> dict[str, Any]:
    collection, store, run = job.collection, job.job.store, job.job.run
    client = client_for(store, run, collection.judge_endpoint)
    [compressed] = job.texts()
    row = (job.example.question, job.example.gold, compressed)
    verdict = verdict_record(client, collection.judge, job.job.call_id, row, store, run)
    if verdict["by"]:
        store.add_providers(run, "judge", [verdict["by"]])
    return verdict


@shared_task(name="openai.compress", base=JobTask)
def compress_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), lambda job: compress(sample_job(job)))


@shared_task(name="openai.verdict", base=JobTask)
def verdict_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), lambda job: judge_sample(sample_job(job)))
