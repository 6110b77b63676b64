"""The token ids of an example's retained pairs."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from tasks.collect.collection import SampleJob, sample_job
from tasks.collect.tokenizer import encode, encoder
from tasks.job import JobTask, run_job
from tasks.message import ContentKey, Count, RunId


def tokenize(job: SampleJob) -> dict[str, Any]:
    """Keeps the ids of each text under a key of its own, from which they are counted; returns the keys."""
    collection, texts, store, run = job.collection, job.texts(), job.job.store, job.job.run
    tokenizer = encoder(run, collection.tokenizer_key(), store)
    keys = [collection.tokens_key(text) for text in texts]
    for key, ids in zip(keys, encode(tokenizer, texts), strict=True):
        store.put_shared(run, key, {"ids": ids})
    return {"keys": keys}


@shared_task(name="cpu.tokenize", base=JobTask)
def tokenize_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), lambda job: tokenize(sample_job(job)))
