"""From the train split to judged and tokenized pairs: what is asked of the farm, in which order, and what is kept.

The samples of an example go their own ways: a verbose answer is compressed as soon as it is there, a compressed one
judged.  An example whose samples have all come is a line of the first checkpoint, one that is judged of the second.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.collect.checkpoints import Checkpoint
from orchestrator.dispatch.scheduler import Request, Requests
from tasks.collect.collection import Collection
from tasks.models import Example
from tasks.store.store import Store

log = logging.getLogger(__name__)
SAMPLE, TOKENIZER, COMPRESS, VERDICT, TOKENIZE = (
    "gpu.sample", "gpu.tokenizer", "openai.compress", "openai.verdict", "cpu.tokenize"
)  # fmt: skip
CORRECTNESS = ("is_correct", "confidence", "category", "reasoning")


@dataclass(frozen=True)
class Pair:
    """One generated pair, and what the judge said of its compressed answer."""

    verbose: str
    compressed: str
    correctness: Mapping[str, Any]

    @property
    def score(self) -> float:
        return 1.0 if self.correctness["is_correct"] else 0.0


@dataclass
class Gathered:
    """What is there of one example. `token_keys` has two keys a retained pair, of verbose and compressed ids."""

    verbose: dict[int, str] = field(default_factory=dict)
    compressed: dict[int, str] = field(default_factory=dict)
    correctness: dict[int, dict[str, Any]] = field(default_factory=dict)
    token_keys: list[str] = field(default_factory=list)

    def pairs(self) -> list[Pair]:
        return [Pair(self.verbose[j], self.compressed[j], self.correctness[j]) for j in sorted(self.correctness)]

    def retained(self, threshold: float) -> list[Pair]:
        return [pair for pair in self.pairs() if pair.score >= threshold]

    def discarded(self, threshold: float) -> list[Pair]:
        return [pair for pair in self.pairs() if pair.score < threshold]


@dataclass
class Gathering:
    """The train split at work."""

    collection: Collection
    examples: Sequence[Example]
    threshold: float
    requests: Requests
    verbose: Checkpoint
    pairs: Checkpoint
    _until_tokenizer: list[Request] | None = field(default_factory=list)  # None: it is there

    def run(self) -> list[Gathered]:
        """Everything of every example, in their order.  Raises: CollectionFailed."""
        found = [Gathered() for _ in self.examples]
        self.requests.want(Request(TOKENIZER, self.collection.tokenizer_key(), 0))
        for index, example in enumerate(self.examples):
            for sample in range(self.collection.samples):
                self.requests.want(Request(SAMPLE, self.collection.sample_key(example, sample), index, sample))
        for request, value in self.requests.results():
            if request.task == TOKENIZER:
                self._tokenize_from_here()
            else:
                self._keep(request, value, found[request.index])
        return found

    def _tokenize_from_here(self) -> None:
        for request in self._until_tokenizer or ():
            self.requests.want(request)
        self._until_tokenizer = None

    def _tokenize(self, request: Request) -> None:
        if self._until_tokenizer is None:
            self.requests.want(request)
        else:
            self._until_tokenizer.append(request)

    def _keep(self, request: Request, value: dict[str, Any], gathered: Gathered) -> None:
        example, sample = self.examples[request.index], request.sample
        if request.task == SAMPLE:
            gathered.verbose[sample] = value["text"]
            key = self.collection.compression_key(example, value["text"])
            self.requests.want(Request(COMPRESS, key, request.index, sample))
            if len(gathered.verbose) == self.collection.samples:
                self._checkpoint_verbose(example, gathered)
        elif request.task == COMPRESS:
            gathered.compressed[sample] = value["text"]
            key = self.collection.verdict_key(example, value["text"])
            self.requests.want(Request(VERDICT, key, request.index, sample))
        elif request.task == VERDICT:
            gathered.correctness[sample] = {name: value[name] for name in CORRECTNESS}
            if len(gathered.correctness) == self.collection.samples:
                self._judged(request.index, example, gathered)
        else:
            gathered.token_keys = value["keys"]

    def _checkpoint_verbose(self, example: Example, gathered: Gathered) -> None:
        fingerprint = self.collection.verbose_fingerprint(example)
        if not self.verbose.holds(example.id, fingerprint):
            answers = [gathered.verbose[j] for j in range(self.collection.samples)]
            self.verbose.append({"example_id": example.id, "key": fingerprint, "verbose_answers": answers})

    def _judged(self, index: int, example: Example, gathered: Gathered) -> None:
        retained = gathered.retained(self.threshold)
        tell(example, gathered, self.threshold)
        if texts := [text for pair in retained for text in (pair.verbose, pair.compressed)]:
            # What is tokenized is what the workers find correct; above 0 every threshold means that.
            self._tokenize(Request(TOKENIZE, self.collection.tokenized_key(texts), index))
        fingerprint = self.collection.pairs_fingerprint(example)
        if not self.pairs.holds(example.id, fingerprint):
            lines = [
                {"verbose_answer": p.verbose, "compressed_answer": p.compressed, "correctness": dict(p.correctness)}
                for p in gathered.pairs()
            ]
            self.pairs.append({"example_id": example.id, "key": fingerprint, "pairs": lines})


def tell(example: Example, gathered: Gathered, threshold: float) -> None:
    """Log how an example came out (section 8)."""
    generated, retained = len(gathered.verbose), len(gathered.retained(threshold))
    weight = f"{1 / retained:.4f}" if retained else "none"
    log.info(
        "%s: %d verbose answers, %d retained, %d discarded, sample weight %s",
        example.id, generated, retained, generated - retained, weight,
    )  # fmt: skip
    if not retained:
        log.warning("%s: no pair was retained; it counts for nothing", example.id)


def seed_store(
    store: Store, collection: Collection, examples: Sequence[Example], verbose: Checkpoint, pairs: Checkpoint
) -> int:
    """Give the store what the checkpoints hold, so that none of it is asked for again, whatever became of the store.

    Lines that other settings made are passed over.  Returns how many examples are judged already.
    """
    judged = 0
    for example in examples:
        if verbose.holds(example.id, collection.verbose_fingerprint(example)):
            for sample, text in enumerate(verbose.lines[example.id]["verbose_answers"]):
                store.put_shared(collection.id, collection.sample_key(example, sample), {"text": text})
        if pairs.holds(example.id, collection.pairs_fingerprint(example)):
            judged += 1
            for sample, line in enumerate(pairs.lines[example.id]["pairs"]):
                said, short = line["verbose_answer"], line["compressed_answer"]
                store.put_shared(collection.id, collection.sample_key(example, sample), {"text": said})
                store.put_shared(collection.id, collection.compression_key(example, said), {"text": short})
                store.put_shared(collection.id, collection.verdict_key(example, short), line["correctness"])
    return judged
