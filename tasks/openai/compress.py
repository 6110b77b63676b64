"""The compression of one verbose answer by the reflector."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from tasks.collect import compression
from tasks.collect.collection import SampleJob, sample_job
from tasks.common.validation import ContentKey, Count, RunId
from tasks.job import JobTask, run_job
from tasks.openai.calls import StoredReplyCounter, client_for, raised_seed, repeat_unusable, repeated_call_id
from tasks.openai.client import Reply


def compress(job: SampleJob) -> dict[str, Any]:
    """A reply that cannot be used is asked for again with another seed.

    A prompt that is too long is not sent: the result has no text, and the reason as `skipped`.
    """
    collection, settings, store, run = job.collection, job.collection.reflector, job.job.store, job.job.run
    [verbose] = job.texts()
    system, user = compression.messages(collection.compress_template, job.example.question, verbose)
    if reason := collection.too_long((system, user)):
        return {"text": "", "by": "", "skipped": reason}
    client = client_for(store, run, collection.reflector_endpoint)
    counter = StoredReplyCounter(store, run, job.job.key)

    def ask() -> Reply:
        offset = counter.read()
        return client.ask(
            system,
            user,
            model=settings.model,
            schema_name=compression.SCHEMA_NAME,
            schema=compression.SCHEMA,
            temperature=settings.temperature,
            top_p=settings.top_p,
            max_completion_tokens=settings.max_completion_tokens,
            seed=raised_seed(settings.seed, offset),
            call_id=repeated_call_id(job.job.call_id, offset),
        )

    reply = repeat_unusable(ask, counter)
    store.add_providers(run, "reflector", [reply.provider])
    return {"text": compression.rewritten(reply.data), "by": reply.provider}


@shared_task(name="openai.compress", base=JobTask)
def compress_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), lambda job: compress(sample_job(job)))
