"""From the train split to judged pairs and their tokens: which jobs are submitted, in which order, and what is kept.

Each sample moves on by itself: a verbose answer is compressed as soon as it arrives, a compressed one is judged.  An
example is a line of the first checkpoint when all its samples have arrived, and of the second when all are judged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.collect.checkpoints import Checkpoint
from orchestrator.farm.jobs import Request, Scheduler
from tasks.collect.collection import Collection
from tasks.job import JobSpec
from tasks.records import Example
from tasks.store.store import Store

log = logging.getLogger(__name__)
SAMPLE, TOKENIZER, COMPRESS, VERDICT, TOKENIZE = (
    "gpu.sample", "gpu.tokenizer", "openai.compress", "openai.verdict", "cpu.tokenize"
)  # fmt: skip
CORRECTNESS = ("is_correct", "confidence", "category", "reasoning")


@dataclass(frozen=True)
class JudgedPair:
    """One generated pair, and the verdict on its compressed answer."""

    sample: int
    verbose: str
    compressed: str
    correctness: Mapping[str, Any]

    @property
    def score(self) -> float:
        return 1.0 if self.correctness["is_correct"] else 0.0


@dataclass
class Gathered:
    """The results of one example so far, by sample."""

    verbose: dict[int, str] = field(default_factory=dict)
    compressed: dict[int, str] = field(default_factory=dict)
    correctness: dict[int, dict[str, Any]] = field(default_factory=dict)
    compressed_by: dict[int, str] = field(default_factory=dict)  # who wrote it
    skipped: dict[int, str] = field(default_factory=dict)  # why a verbose answer was not compressed
    judged_by: dict[int, str] = field(default_factory=dict)  # likewise; "" for the judge's own rules

    def pairs(self) -> list[JudgedPair]:
        return [JudgedPair(j, self.verbose[j], self.compressed[j], self._verdict(j)) for j in sorted(self.correctness)]

    def _verdict(self, sample: int) -> dict[str, Any]:
        """What was not compressed was judged as an empty answer; the reason says more."""
        reason = self.skipped.get(sample)
        return self.correctness[sample] | ({"reasoning": f"Not compressed: {reason}."} if reason else {})

    def retained(self, threshold: float) -> list[JudgedPair]:
        return [pair for pair in self.pairs() if pair.score >= threshold]

    def discarded(self, threshold: float) -> list[JudgedPair]:
        return [pair for pair in self.pairs() if pair.score < threshold]


Watch = Callable[[Sequence["Gathered"]], None]


@dataclass
class Pipeline:
    """The jobs of the train split.  `watch` is called with the results of each example, whenever they may have changed.

    `limit_s` is the hard time limit of a job.
    """

    collection: Collection
    examples: Sequence[Example]
    threshold: float
    scheduler: Scheduler
    verbose: Checkpoint
    pairs: Checkpoint
    limit_s: float
    watch: Watch

    def run(self) -> list[Gathered]:
        """Everything of every example, in their order."""
        gathered = [Gathered() for _ in self.examples]
        self._submit(TOKENIZER, self.collection.tokenizer_key(), 0, label="tokenizer")
        for index, example in enumerate(self.examples):
            for sample in range(self.collection.samples):
                self._submit(SAMPLE, self.collection.sample_key(example, sample), index, sample)
        for request, value in self.scheduler.results(lambda: self.watch(gathered)):
            if request.spec.task != TOKENIZER:
                index, sample = request.spec.arguments["example"], request.spec.arguments["sample"]
                self._keep(request.spec.task, index, sample, value, gathered[index])
        return gathered

    def tokenize(self, gathered: Sequence[Gathered]) -> dict[str, Any]:
        """The result of `cpu.tokenize` for all retained pairs, in their order."""
        keys, texts = [], []
        for example, found in zip(self.examples, gathered, strict=True):
            retained = found.retained(self.threshold)
            for pair in retained:
                sample_key = self.collection.sample_key(example, pair.sample)
                keys.append((len(retained), sample_key, self.collection.compression_key(example, pair.verbose)))
                texts.append((len(retained), pair.verbose, pair.compressed))
        arguments = {"tokenizer": self.collection.tokenizer_key(), "pairs": keys}
        spec = JobSpec(TOKENIZE, "tokens", arguments, self.limit_s)
        self.scheduler.submit(Request(self.collection.tokens_key(texts), spec))
        [(_, value)] = self.scheduler.results()
        return value

    def _submit(
        self, task: str, key: str, index: int, sample: int = 0, inputs: Sequence[str] = (), label: str = ""
    ) -> None:
        """`inputs` are the keys of the results that the job starts from."""
        name = label or f"{'_'.join(self.examples[index].id.split())}/{sample}"
        arguments = {"example": index, "sample": sample, "inputs": list(inputs)}
        self.scheduler.submit(Request(key, JobSpec(task, name, arguments, self.limit_s)))

    def _keep(self, task: str, index: int, sample: int, value: dict[str, Any], gathered: Gathered) -> None:
        example, collection = self.examples[index], self.collection
        if task == SAMPLE:
            gathered.verbose[sample] = value["text"]
            key = collection.compression_key(example, value["text"])
            self._submit(COMPRESS, key, index, sample, [collection.sample_key(example, sample)])
            if len(gathered.verbose) == collection.samples:
                self._checkpoint_verbose(example, gathered)
        elif task == COMPRESS:
            gathered.compressed[sample] = value["text"]
            gathered.compressed_by[sample] = value["by"]
            if reason := value.get("skipped"):
                gathered.skipped[sample] = reason
                log.warning("%s, sample %d is not compressed: %s", example.id, sample, reason)
            key = collection.verdict_key(example, value["text"])
            self._submit(VERDICT, key, index, sample, [collection.compression_key(example, gathered.verbose[sample])])
        elif task == VERDICT:
            gathered.correctness[sample] = {name: value[name] for name in CORRECTNESS}
            gathered.judged_by[sample] = value["by"]
            if len(gathered.correctness) == collection.samples:
                self._judged(example, gathered)

    def _checkpoint_verbose(self, example: Example, gathered: Gathered) -> None:
        fingerprint = self.collection.verbose_fingerprint(example)
        if not self.verbose.holds(example.id, fingerprint):
            answers = [gathered.verbose[j] for j in range(self.collection.samples)]
            self.verbose.append({"example_id": example.id, "key": fingerprint, "verbose_answers": answers})

    def _judged(self, example: Example, gathered: Gathered) -> None:
        log_example(example, gathered, self.threshold)
        fingerprint = self.collection.pairs_fingerprint(example)
        if not self.pairs.holds(example.id, fingerprint):
            lines = [_line(gathered, sample) for sample in sorted(gathered.correctness)]
            self.pairs.append({"example_id": example.id, "key": fingerprint, "pairs": lines})


def providers(by_sample: Iterable[Mapping[int, str]]) -> set[str]:
    """Who answered, over all samples."""
    return {name for names in by_sample for name in names.values() if name}


def _line(gathered: Gathered, sample: int) -> dict[str, Any]:
    """A pair as the second checkpoint has it."""
    return {
        "verbose_answer": gathered.verbose[sample],
        "compressed_answer": gathered.compressed[sample],
        "correctness": dict(gathered.correctness[sample]),
        "compressed_by": gathered.compressed_by[sample],
        "judged_by": gathered.judged_by[sample],
        **({"skipped": gathered.skipped[sample]} if sample in gathered.skipped else {}),
    }


def log_example(example: Example, gathered: Gathered, threshold: float) -> None:
    """Log how an example came out."""
    generated, retained = len(gathered.verbose), len(gathered.retained(threshold))
    weight = f"{1 / retained:.4f}" if retained else "none"
    log.info(
        "%s: %d verbose answers, %d retained, %d discarded, sample weight %s",
        example.id, generated, retained, generated - retained, weight,
    )  # fmt: skip
    if not retained:
        log.warning("%s: no pair was retained; it counts for nothing", example.id)


def seed_store(
    store: Store,
    run_id: str,
    collection: Collection,
    examples: Sequence[Example],
    verbose: Checkpoint,
    pairs: Checkpoint,
) -> int:
    """Put what the checkpoints hold into the store, so that none of it is computed again, whatever became of the store.

    Lines that were made with other settings are skipped.  Returns how many examples are judged already.
    """
    judged = 0
    for example in examples:
        if verbose.holds(example.id, collection.verbose_fingerprint(example)):
            for sample, text in enumerate(verbose.lines[example.id]["verbose_answers"]):
                store.put_shared(run_id, collection.sample_key(example, sample), {"text": text})
        if pairs.holds(example.id, collection.pairs_fingerprint(example)):
            judged += 1
            for sample, line in enumerate(pairs.lines[example.id]["pairs"]):
                verbose_text, short = line["verbose_answer"], line["compressed_answer"]
                store.put_shared(run_id, collection.sample_key(example, sample), {"text": verbose_text})
                compression = {"text": short, "by": line["compressed_by"]}
                compression |= {"skipped": line["skipped"]} if "skipped" in line else {}
                store.put_shared(run_id, collection.compression_key(example, verbose_text), compression)
                verdict = {**line["correctness"], "by": line["judged_by"]}
                store.put_shared(run_id, collection.verdict_key(example, short), verdict)
    return judged
