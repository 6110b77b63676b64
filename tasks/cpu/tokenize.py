"""The token ids of an example's retained pairs."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from tasks.collect.tokenizer import encode, encoder
from tasks.job import Job, JobTask, run_job
from tasks.message import Count, RunId


def texts_of(job: Job) -> list[str]:
    """Of each retained pair the verbose text, then the compressed one."""
    return [text for pair in job.retained() for text in pair]


def tokenize(job: Job) -> dict[str, Any]:
    """Puts the ids of each text into the store under a key of its own; returns the keys."""
    collection, texts = job.collection, texts_of(job)
    tokenizer = encoder(collection.id, collection.tokenizer_key(), job.store)
    keys = [collection.tokens_key(text) for text in texts]
    for key, ids in zip(keys, encode(tokenizer, texts), strict=True):
        job.store.put_shared(collection.id, key, {"ids": ids})
    return {"keys": keys}


@shared_task(name="cpu.tokenize", base=JobTask)
def tokenize_task(run: RunId, index: Count, sample: Count, attempt: Count) -> None:
    run_job((run, index, sample, attempt), lambda job: job.collection.tokenized_key(texts_of(job)), tokenize)
