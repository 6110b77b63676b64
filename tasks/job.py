"""How every task of Phase 0 runs: once for each content key, with its failure on record.

A message is `(run, index, sample, attempt)`: which of the examples, which of its samples, and which start of the
command it belongs to.  Texts lie in the store under content keys, and so a task can be run twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from celery.exceptions import Ignore

from tasks import context
from tasks.collect.collection import COLLECTION, EXAMPLES, RECORD, Collection
from tasks.message import discard
from tasks.models import Example
from tasks.store.lock import hold_lock
from tasks.store.store import Store
from tasks.task import FailureLocation, RecordedTask

log = logging.getLogger(__name__)
Message = tuple[str, int, int, int]


@dataclass(frozen=True)
class Job:
    """A task at work: its collection, its example, and what earlier tasks left for it."""

    store: Store
    collection: Collection
    example: Example
    sample: int

    def need(self, keys: list[str]) -> list[dict[str, Any]]:
        """Results of earlier tasks, in the order of `keys`.  Raises: LookupError when one is not there."""
        found = self.store.shared(self.collection.id, keys)
        if missing := [key for key in keys if key not in found]:
            raise LookupError(f"{self.example.id}: {missing[0]} is not in the store")
        return [found[key] for key in keys]

    def verbose(self, sample: int) -> str:
        return str(self.need([self.collection.sample_key(self.example, sample)])[0]["text"])

    def compressed(self, sample: int) -> str:
        key = self.collection.compression_key(self.example, self.verbose(sample))
        return str(self.need([key])[0]["text"])

    def is_correct(self, sample: int) -> bool:
        key = self.collection.verdict_key(self.example, self.compressed(sample))
        return bool(self.need([key])[0]["is_correct"])

    def retained(self) -> list[tuple[str, str]]:
        """The (verbose, compressed) texts of the example's samples that were judged correct, in their order."""
        kept = [j for j in range(self.collection.samples) if self.is_correct(j)]
        return [(self.verbose(j), self.compressed(j)) for j in kept]


class JobTask(RecordedTask):
    """The base of Phase 0's tasks: a failure belongs to its sample, where the command finds it."""

    abstract = True

    def place(self, run: str, index: int, sample: int, attempt: int) -> FailureLocation:
        found_by = {"index": index, "sample": sample, "attempt": attempt}
        return FailureLocation(run, RECORD, f"{self.name}:{index}:{sample}", found_by)


def run_job(message: Message, key_of: Callable[[Job], str], work: Callable[[Job], Mapping[str, Any]]) -> None:
    """Do `work` unless its result is there, and keep what it gives under the content key that `key_of` names.

    Raises: Ignore when the command has been started anew since this message was sent, or has no such sample; whatever
    `work` raises.
    """
    run_id, index, sample, attempt = message
    store = context.store()
    if store.attempt(run_id, RECORD) != attempt:
        raise Ignore(f"{run_id} was started anew")
    collection, examples = _collection(run_id)
    if index >= len(examples) or sample >= collection.samples:
        raise discard(f"collection {run_id} has no sample {sample} of an example {index}")
    job = Job(store, collection, examples[index], sample)
    key = key_of(job)
    with hold_lock(store.redis, key):
        if not store.shared(run_id, [key]):
            started = time.monotonic()
            store.put_shared(run_id, key, work(job))
            log.info("sample %d of %s done in %.3f s", sample, job.example.id, time.monotonic() - started)
    store.notify(run_id)


@lru_cache(maxsize=2)
def _collection(run_id: str) -> tuple[Collection, tuple[Example, ...]]:
    """Safe to keep: the id is a hash of both."""
    text = context.store().metadata(run_id, COLLECTION)
    if text is None:
        raise discard(f"no collection {run_id!r} in the store")
    return Collection.from_json(text), tuple(context.examples(run_id, EXAMPLES))
