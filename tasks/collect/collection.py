"""A collection as its jobs see it: its settings, what determines each of its results, and one sample in progress."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tasks.collect import compression
from tasks.common.text import estimate_tokens, smallest_limit
from tasks.common.validation import JsonRecord
from tasks.job import Job
from tasks.judging.verdict import verdict_key
from tasks.openai.endpoint import EMBEDDED
from tasks.records import Endpoint, Example, Judge, Reflector, Sampling, Target
from tasks.store.keys import content_hash
from tasks.task import current_store, discard

COLLECTION = "collection"  # under which the store has it
EXAMPLES = "train"


@dataclass(frozen=True)
class Collection(JsonRecord):
    """Everything that a job of a collection must know.

    The target's `sampling.seed` is that of sample 0; sample j uses seed + j.
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
    context_tokens: int = 0  # of the reflector's prompt and reply together; 0 is no limit

    def sampling(self, sample: int) -> Sampling:
        first = self.target.sampling
        return dataclasses.replace(first, seed=first.seed + sample)

    # The content keys: a result that is in the store under one is not computed again.

    def sample_key(self, example: Example, sample: int) -> str:
        """Of one verbose answer.  The server's identity covers the model, and with its tokenizer the prompt's ids."""
        return "sample:" + content_hash(
            [self.server, self.target.system_prompt, self.target.prompt_template],
            dataclasses.asdict(self.sampling(sample)),
            [example.context, example.question],
            *self._salt(),
        )

    def compression_key(self, example: Example, verbose: str) -> str:
        messages = compression.messages(self.compress_template, example.question, verbose)
        asked = [
            dataclasses.asdict(self.reflector),
            self.reflector_endpoint.base_url,
            compression.SCHEMA,
        ]
        skipped = ["skipped"] if self.too_long(messages) else []  # another limit may allow the call
        return "compression:" + content_hash(asked, messages, *skipped, *self._salt())

    def too_long(self, messages: tuple[str, str]) -> str:
        """Why the messages of a compression do not fit the reflector; "" where they do.

        A verbose answer is not cut: the compression of a part would make the rest look wasted.
        """
        limit = smallest_limit(self.context_tokens, self.reflector_endpoint.tokens_per_minute)
        longest, tokens = limit - self.reflector.max_completion_tokens, sum(map(estimate_tokens, messages))
        if not limit or tokens <= longest:
            return ""
        return f"the prompt has about {tokens:,} tokens, and {max(0, longest):,} are allowed"

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

    # -- what a line of a checkpoint was made with -------------------------------------------------------------------

    def verbose_fingerprint(self, example: Example) -> str:
        return content_hash([self.sample_key(example, j) for j in range(self.samples)])

    def pairs_fingerprint(self, example: Example) -> str:
        parts: list[Any] = [self.verbose_fingerprint(example)]
        parts += [self.compression_key(example, ""), self.verdict_key(example, "")]
        return content_hash(parts)


@dataclass(frozen=True)
class SampleJob:
    """One sample of one example, in progress.  `inputs` are the keys of the results that it starts from."""

    job: Job
    collection: Collection
    example: Example
    sample: int
    inputs: tuple[str, ...]

    def texts(self) -> list[str]:
        """The texts of the inputs, in their order."""
        return [str(result["text"]) for result in self.job.results(self.inputs)]


def sample_job(job: Job) -> SampleJob:
    text = job.store.metadata(job.run, COLLECTION)
    if text is None:
        raise discard(f"no collection {job.run!r} in the store")
    examples = current_store().examples(job.run)[EXAMPLES]
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
