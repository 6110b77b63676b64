"""A collection as its jobs see it, and the two jobs on the openai queue: compress a verbose answer, and judge it.

The prompt of a compression has the question and the answer and never the context, so nothing can be added that was not
said.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from celery import shared_task
from pydantic import AfterValidator

from tasks.common.text import break_control_tokens, fill
from tasks.common.validation import JsonRecord, ReplyModel
from tasks.judging.verdict import verdict_key
from tasks.openai.calls import ask_until_usable, client_for
from tasks.openai.endpoint import EMBEDDED
from tasks.openai.judge import verdict_record
from tasks.records import Endpoint, Example, Judge, Reflector, Sampling, Target
from tasks.store.keys import content_hash
from tasks.task import Job, JobTask, run_job

COLLECTION, EXAMPLES = "collection", "train"  # under which the store has the collection and its questions
SYSTEM = """\
You shorten answers. Given a question and a previous answer to it, write the answer again in as few words as possible.
Keep what the previous answer claims: its numbers with their signs, units and scale, its yes or no, its names and, where
the question asks for one, its reason. Leave out greetings, repetitions of the question, hedging and steps of a
calculation. Add nothing, correct nothing: an answer that is wrong stays wrong, only shorter.
Reply with one JSON object that has the field rewritten_answer."""


class Compression(ReplyModel):
    """The compressed answer."""

    schema_name: ClassVar = "compression"
    rewritten_answer: Annotated[str, AfterValidator(str.strip)]


SCHEMA = Compression.model_json_schema()  # part of the key of a compression


def compression_messages(template: str, query: str, prev_answer: str) -> tuple[str, str]:
    """The system and the user message; the user message is the filled template and nothing else."""
    texts = {"query": break_control_tokens(query), "prev_answer": break_control_tokens(prev_answer)}
    return SYSTEM, fill(template, texts)


@dataclass(frozen=True)
class Collection(JsonRecord):
    """Everything that a job of a collection must know, and the content keys of its results.

    A result that is in the store under its key is not computed again.  The target's `sampling.seed` is that of sample
    0; sample j uses seed + j.
    """

    samples: int
    target: Target
    target_retries: int
    reflector: Reflector
    compress_template: str  # {query} and {prev_answer}
    reflector_endpoint: Endpoint
    judge: Judge
    judge_endpoint: Endpoint
    server: Mapping[str, Any] = field(default_factory=dict)  # the identity of the target's server (tasks/gpu/host.py)
    salt: str = ""  # of a collection that takes no result of another

    def sampling(self, sample: int) -> Sampling:
        first = self.target.sampling
        return dataclasses.replace(first, seed=first.seed + sample)

    def sample_key(self, example: Example, sample: int) -> str:
        """Of one verbose answer.  The server's identity covers the model, and with its tokenizer the prompt's ids."""
        return "sample:" + content_hash(
            [self.server, self.target.system_prompt, self.target.prompt_template],
            dataclasses.asdict(self.sampling(sample)),
            [example.context, example.question],
            *self._salt(),
        )

    def compression_key(self, example: Example, verbose: str) -> str:
        messages = compression_messages(self.compress_template, example.question, verbose)
        asked = [dataclasses.asdict(self.reflector), self.reflector_endpoint.base_url, SCHEMA]
        return "compression:" + content_hash(asked, messages, *self._salt())

    def verdict_key(self, example: Example, compressed: str) -> str:
        address = self.judge_endpoint.base_url or EMBEDDED
        key = verdict_key(example.question, example.gold, compressed, self.judge, address)
        return "verdict:" + (content_hash(key, self.salt) if self.salt else key)

    def _salt(self) -> list[str]:
        return [self.salt] if self.salt else []

    def tokenizer_key(self) -> str:
        return "tokenizer:" + content_hash(self.target.model, self.server)

    def tokens_key(self, pairs: Sequence[tuple[int, str, str]]) -> str:
        """Of the token ids and frequencies of pairs: m, the verbose and the compressed text."""
        return "tokens:" + content_hash(self.target.model, self.server, list(pairs))

    def verbose_fingerprint(self, example: Example) -> str:
        """What a line of the first checkpoint was made with."""
        return content_hash([self.sample_key(example, j) for j in range(self.samples)])

    def pairs_fingerprint(self, example: Example) -> str:
        """What a line of the second checkpoint was made with."""
        keys = [self.compression_key(example, ""), self.verdict_key(example, "")]
        return content_hash([self.verbose_fingerprint(example), *keys])


def collection_of(job: Job) -> tuple[Collection, Example]:
    """The collection of a job, and the example that it works on."""
    examples = job.store.examples(job.run)[EXAMPLES]
    return job.context(COLLECTION, Collection), examples[job.arguments["example"]]


def compress(job: Job) -> dict[str, Any]:
    collection, example = collection_of(job)
    [verbose] = job.results(job.arguments["inputs"])
    messages = compression_messages(collection.compress_template, example.question, verbose["text"])
    client, store, run = client_for(job.store, job.run, collection.reflector_endpoint), job.store, job.run
    found, written = ask_until_usable(client, messages, Compression, collection.reflector, job.call_id, store, run)
    store.add_providers(run, "reflector", [written.provider])
    return {"text": found.rewritten_answer, "by": written.provider}


def judge_sample(job: Job) -> dict[str, Any]:
    collection, example = collection_of(job)
    [compressed] = job.results(job.arguments["inputs"])
    row = (example.question, example.gold, compressed["text"])
    client = client_for(job.store, job.run, collection.judge_endpoint)
    verdict = verdict_record(client, collection.judge, job.call_id, row, job.store, job.run)
    if verdict["by"]:
        job.store.add_providers(job.run, "judge", [verdict["by"]])
    return verdict


@shared_task(name="openai.compress", base=JobTask)
def compress_task(run: str, key: str, attempt: int) -> None:
    run_job((run, key, attempt), compress)


@shared_task(name="openai.verdict", base=JobTask)
def verdict_task(run: str, key: str, attempt: int) -> None:
    run_job((run, key, attempt), judge_sample)
