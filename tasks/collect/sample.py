"""A job of a collection: its collection, its example, and the texts that it starts from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tasks import context
from tasks.collect.collection import COLLECTION, EXAMPLES, Collection
from tasks.job import Job
from tasks.message import discard
from tasks.models import Example


@dataclass(frozen=True)
class SampleJob:
    """One sample of one example at work.  `inputs` are the keys of the results that it starts from."""

    job: Job
    collection: Collection
    example: Example
    sample: int
    inputs: tuple[str, ...]

    def texts(self) -> list[str]:
        """The texts of the inputs, in their order.  Raises: LookupError when one is missing."""
        return [str(result["text"]) for result in self.job.results(self.inputs)]


def sample_job(job: Job) -> SampleJob:
    """Raises: Ignore when the store knows no such collection."""
    text = job.store.metadata(job.run, COLLECTION)
    if text is None:
        raise discard(f"no collection {job.run!r} in the store")
    examples = context.examples(job.run, EXAMPLES)
    arguments = job.arguments
    return SampleJob(
        job=job,
        collection=_collection(text),
        example=examples[arguments["example"]],
        sample=arguments["sample"],
        inputs=tuple(arguments["inputs"]),
    )


@lru_cache(maxsize=2)
def _collection(text: str) -> Collection:
    return Collection.from_json(text)
