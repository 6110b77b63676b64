"""One session of a collection, once its farm is up: from the train split to judged pairs and their tokens.

Each sample moves on by itself: a verbose answer is compressed as soon as it arrives, a compressed one is judged.  An
example is a line of the first checkpoint when all its samples have arrived, and of the second when all are judged.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from orchestrator.collect.report import Pair, Split, make_document, retained
from orchestrator.collect.settings import CollectSettings
from orchestrator.farm.work import Request, Scheduler
from orchestrator.runs.folder import append_lines, load_lines
from orchestrator.runs.jobs import ArtifactRequests, ask_server, find_long_prompts
from orchestrator.runs.kinds import ProgressFile
from orchestrator.runs.session import Session
from orchestrator.settings import SettingsError
from tasks.collect.collection import COLLECTION, EXAMPLES, Collection
from tasks.collect.tokens import TokenShare, Vocabulary, select_tokens
from tasks.cpu.plots import COLLECTION_PLOTS
from tasks.openai.endpoint import join_providers
from tasks.records import Example, JobSpec

log = logging.getLogger(__name__)
SAMPLE, TOKENIZER, COMPRESS, VERDICT, TOKENIZE = (
    "gpu.sample", "gpu.tokenizer", "openai.compress", "openai.verdict", "cpu.tokenize"
)  # fmt: skip
CORRECTNESS = ("is_correct", "confidence", "category", "reasoning")
VERBOSE, PAIRS = "phase0_verbose.jsonl", "phase0_pairs.jsonl"
DRAWING_S = 60.0
TOP = 20


class CheckpointLine(TypedDict):
    """`key` is the fingerprint of the settings that the line was made with."""

    example_id: str
    key: str


class Checkpoint:
    """One object for each example, appended and synced to disk at once; the latest line of an example holds."""

    def __init__(self, path: Path, *, is_resumed: bool) -> None:
        self.path = path
        found = load_lines(path, CheckpointLine, "checkpoint of an example", repair=True) if is_resumed else []
        self.lines: dict[str, dict[str, Any]] = {line["example_id"]: line for line in found}

    def set_aside(self) -> None:
        """Move the file of an earlier start to `<name>.1`, `<name>.2`, ..."""
        if self.path.exists():
            names = (self.path.with_name(f"{self.path.name}.{number}") for number in itertools.count(1))
            aside = self.path.replace(next(name for name in names if not name.exists()))
            log.info("an earlier checkpoint is now %s", aside)

    def holds(self, example: str, fingerprint: str) -> bool:
        """Whether there is a line for the example that was made with these settings."""
        return example in self.lines and self.lines[example]["key"] == fingerprint

    def append(self, example: str, fingerprint: str, **values: Any) -> None:
        """Add one example, unless it is there; when this returns, a power cut does not take it away."""
        if not self.holds(example, fingerprint):
            self.lines[example] = {"example_id": example, "key": fingerprint, **values}
            append_lines(self.path, [self.lines[example]])


@dataclass
class Collector:
    """The jobs of one session, and what has come of them."""

    session: Session
    settings: CollectSettings
    parts: Split
    collection: Collection
    verbose: Checkpoint
    pairs: Checkpoint
    is_resumed: bool

    def __post_init__(self) -> None:
        self.examples, self.store, self.run_id = self.parts.train, self.session.farm.store, self.session.run_id
        self.gathered: list[dict[int, Pair]] = [{} for _ in self.examples]
        self.store.put_examples(self.run_id, {EXAMPLES: self.examples})
        self._put_collection()
        phase0 = self.settings.phase0
        in_flight = {
            TOKENIZER: 1,
            SAMPLE: phase0.target_concurrency,
            COMPRESS: phase0.reflector_concurrency,
            VERDICT: phase0.judge_concurrency,
            TOKENIZE: 1,
        }
        self.scheduler = Scheduler(self.session.dispatcher, in_flight)

    def document(self) -> dict[str, Any]:
        """Everything that needs the farm, and the document that is made of it."""
        found = find_long_prompts(self.scheduler, self.collection.target, self.examples)
        if found.lengths:
            raise SettingsError([f"data.financebench_path: {found.reason()}; leave these questions out"])
        if not self.is_resumed:  # this start cannot be refused any more
            self.verbose.set_aside()
            self.pairs.set_aside()
        server = ask_server(self.scheduler, self.collection.target, self.session.job_s)["server"]
        self.collection = dataclasses.replace(self.collection, server=server)  # all keys cover it
        self._put_collection()
        log.info("%d of %d examples are in the checkpoints", self._seed_store(), len(self.examples))
        self._gather()
        self._log_totals()
        tokenized = self._tokenize()
        selection = self._select(tokenized["tokens"])
        artifacts = ArtifactRequests(self.scheduler, self.session.output, self.session.job_s)
        artifacts.request_plots("collection", COLLECTION_PLOTS, {"v_steer": selection["v_steer"]})
        artifacts.wait(DRAWING_S)
        created = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return make_document(self.settings, self.parts, self.gathered, tokenized["ids"], selection, created)

    def progress(self, *, is_finished: bool = False) -> ProgressFile:
        complete = [found for found in self.gathered if self._is_judged(found)]
        figures: dict[str, float | None] = {"retained_pairs": float(sum(map(len, map(retained, complete))))}
        return ProgressFile(done=len(complete), total=len(self.examples), is_finished=is_finished, figures=figures)

    def _is_judged(self, samples: Mapping[int, Pair]) -> bool:
        return sum(pair.correctness is not None for pair in samples.values()) == self.collection.samples

    def _put_collection(self) -> None:
        self.store.put_metadata(self.run_id, COLLECTION, self.collection.to_json())

    def _seed_store(self) -> int:
        """Put what the checkpoints hold into the store, so that none of it is computed again; how many are judged.

        Lines that were made with other settings are skipped.
        """
        collection, judged = self.collection, 0
        results: dict[str, Mapping[str, Any]] = {}
        for example in self.examples:
            if self.verbose.holds(example.id, collection.verbose_fingerprint(example)):
                for sample, text in enumerate(self.verbose.lines[example.id]["verbose_answers"]):
                    results[collection.sample_key(example, sample)] = {"text": text}
            if self.pairs.holds(example.id, collection.pairs_fingerprint(example)):
                judged += 1
                for sample, line in enumerate(self.pairs.lines[example.id]["pairs"]):
                    verbose, short = line["verbose_answer"], line["compressed_answer"]
                    results[collection.sample_key(example, sample)] = {"text": verbose}
                    results[collection.compression_key(example, verbose)] = {"text": short, "by": line["compressed_by"]}
                    results[collection.verdict_key(example, short)] = {**line["correctness"], "by": line["judged_by"]}
        for key, result in results.items():
            self.store.put_shared(self.run_id, key, result)
        return judged

    def _gather(self) -> None:
        """Everything of every example."""
        self._submit(TOKENIZER, self.collection.tokenizer_key(), 0, label="tokenizer")
        for index, example in enumerate(self.examples):
            for sample in range(self.collection.samples):
                self._submit(SAMPLE, self.collection.sample_key(example, sample), index, sample)
        for request, value in self.scheduler.results(lambda: self.session.report_sometimes(self.progress)):
            if request.spec.task != TOKENIZER:
                given = request.spec.arguments
                self._keep(request.spec.task, given["example"], given["sample"], value)

    def _submit(
        self, task: str, key: str, index: int, sample: int = 0, inputs: Sequence[str] = (), label: str = ""
    ) -> None:
        """`inputs` are the keys of the results that the job starts from."""
        name = label or f"{'_'.join(self.examples[index].id.split())}/{sample}"
        arguments = {"example": index, "sample": sample, "inputs": list(inputs)}
        self.scheduler.submit(Request(key, JobSpec(task, name, arguments, self.session.job_s)))

    def _keep(self, task: str, index: int, sample: int, value: dict[str, Any]) -> None:
        """Note a result, and ask for what comes next."""
        example, collection, found = self.examples[index], self.collection, self.gathered[index]
        if task == SAMPLE:
            found[sample] = Pair(value["text"])
            key = collection.compression_key(example, value["text"])
            self._submit(COMPRESS, key, index, sample, [collection.sample_key(example, sample)])
            if len(found) == collection.samples:
                texts = [found[number].verbose_answer for number in sorted(found)]
                self.verbose.append(example.id, collection.verbose_fingerprint(example), verbose_answers=texts)
            return
        pair = found[sample]
        if task == COMPRESS:
            pair.compressed_answer, pair.compressed_by = value["text"], value["by"]
            key = collection.verdict_key(example, pair.compressed_answer)
            self._submit(VERDICT, key, index, sample, [collection.compression_key(example, pair.verbose_answer)])
            return
        pair.correctness, pair.judged_by = {name: value[name] for name in CORRECTNESS}, value["by"]
        if self._is_judged(found):
            self._log_example(example, found)
            lines = [dataclasses.asdict(found[number]) for number in sorted(found)]
            self.pairs.append(example.id, collection.pairs_fingerprint(example), pairs=lines)

    def _tokenize(self) -> dict[str, Any]:
        """The result of `cpu.tokenize` for all retained pairs, in their order."""
        keys, texts, collection = [], [], self.collection
        for example, samples in zip(self.examples, self.gathered, strict=True):
            m = len(retained(samples))
            for number, pair in sorted(samples.items()):
                if pair.is_retained:
                    sample_key = collection.sample_key(example, number)
                    keys.append((m, sample_key, collection.compression_key(example, pair.verbose_answer)))
                    texts.append((m, pair.verbose_answer, pair.compressed_answer))
        arguments = {"tokenizer": collection.tokenizer_key(), "pairs": keys}
        spec = JobSpec(TOKENIZE, "tokens", arguments, self.session.job_s)
        return dict(self.scheduler.result(collection.tokens_key(texts), spec))

    def _select(self, shares: Sequence[TokenShare]) -> dict[str, Any]:
        key = self.collection.tokenizer_key()
        found = self.store.shared(self.run_id, [key])[key]
        vocabulary = Vocabulary(found["texts"], frozenset(found["special"]), frozenset(found["ends"]))
        top = ", ".join(f"{vocabulary.texts[token]!r} {delta:+.5f}" for token, delta, _, _ in shares[:TOP])
        log.info("the %d largest differences, before the filters: %s", len(shares[:TOP]), top or "none")
        return select_tokens(shares, vocabulary, self.settings.phase0.k, self.settings.phase0.filters)

    def _log_example(self, example: Example, samples: Mapping[int, Pair]) -> None:
        generated, kept = len(samples), len(retained(samples))
        weight = f"{1 / kept:.4f}" if kept else "none"
        said = "%s: %d verbose answers, %d retained, %d discarded, sample weight %s"
        log.info(said, example.id, generated, kept, generated - kept, weight)
        if not kept:
            log.warning("%s: no pair was retained; it counts for nothing", example.id)

    def _log_totals(self) -> None:
        """How much was retained, who compressed and judged, and plainly what was not computed by this command."""
        counts = [len(retained(found)) for found in self.gathered]
        pairs = [pair for found in self.gathered for pair in found.values()]
        said = "%d of %d examples retained, %d of %d pairs"
        log.info(said, sum(m > 0 for m in counts), len(counts), sum(counts), len(pairs))
        by = join_providers(pair.compressed_by for pair in pairs), join_providers(pair.judged_by for pair in pairs)
        log.info("compressed by %s; judged by %s", *by)
        samples, compressions, verdicts = (self.scheduler.cached[task] for task in (SAMPLE, COMPRESS, VERDICT))
        hint = "" if self.is_resumed else "; --fresh computes everything anew"
        if samples or compressions or verdicts:
            what = f"{samples} verbose answers, {compressions} compressions, {verdicts} verdicts"
            log.warning("not computed by this command, but taken from the store or the checkpoints: %s%s", what, hint)
