"""The compression of one verbose answer by the reflector."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from tasks.collect import compression
from tasks.job import Job, JobTask, run_job
from tasks.message import Count, RunId
from tasks.openai import calls


def compress(job: Job) -> dict[str, Any]:
    """Raises: tasks.openai.errors.CallError."""
    collection, settings = job.collection, job.collection.reflector
    verbose = job.verbose(job.sample)
    client = calls.client_for(calls.Caller(collection.id, collection.reflector_endpoint), job.store)
    system, user = compression.messages(collection.compress_template, job.example.question, verbose)
    reply = client.ask(
        system,
        user,
        model=settings.model,
        schema_name=compression.SCHEMA_NAME,
        schema=compression.SCHEMA,
        temperature=settings.temperature,
        top_p=settings.top_p,
        max_completion_tokens=settings.max_completion_tokens,
        seed=settings.seed,
        call_id=f"{collection.id}-{key_of(job).replace(':', '-')}",
    )
    job.store.add_providers(collection.id, "reflector", [reply.provider])
    return {"text": compression.rewritten(reply.data)}


def key_of(job: Job) -> str:
    return job.collection.compression_key(job.example, job.verbose(job.sample))


@shared_task(name="openai.compress", base=JobTask)
def compress_task(run: RunId, index: Count, sample: Count, attempt: Count) -> None:
    run_job((run, index, sample, attempt), key_of, compress)
