"""One session of a collection, from checked settings to the output file.

What can be refused is refused before anything is started: settings, questions, checkpoints.  Then the farm; and the
output is written once, whole, when everything is there.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator.callbacks import Callbacks, RunInfo
from orchestrator.collect import pipeline
from orchestrator.collect.build import Split, collect_farm_spec, make_collection
from orchestrator.collect.checkpoints import PAIRS, VERBOSE, Checkpoint
from orchestrator.collect.document import make_document
from orchestrator.collect.pipeline import Gathered, Pipeline, providers, seed_store
from orchestrator.collect.settings import CollectOptions, CollectSettings
from orchestrator.farm import FarmUnavailable
from orchestrator.farm.connection import (
    FarmConnection,
    embedded_farm,
    external_farm,
)
from orchestrator.farm.dispatcher import Dispatcher, WaitLimits
from orchestrator.farm.jobs import Scheduler
from orchestrator.runs.artifacts import ArtifactRequests
from orchestrator.runs.folder import OutputFolder, write_output
from orchestrator.runs.lengths import find_long_prompts
from orchestrator.runs.provenance import keep_versions
from orchestrator.runs.sameness import current_server
from orchestrator.runs.session import run_session
from orchestrator.runs.status import StatusPublisher, clear_parked_state
from orchestrator.settings import SettingsError
from orchestrator.settings.documents import flatten
from orchestrator.settings.value_checks import EMBEDDED
from tasks.collect.collection import COLLECTION, EXAMPLES
from tasks.collect.selection import Filters, TokenShare, Vocabulary, select_tokens
from tasks.openai.endpoint import is_priced, listed
from tasks.store.keys import LIMIT
from tasks.store.results import DAY_S, KEPT_S
from tasks.store.workers import code_version

log = logging.getLogger(__name__)
KIND_NAME, PROGRESS_FILE = "collect", "progress.json"
JOB_LIMIT_S = 1800.0  # hard limit of one job
NO_PROGRESS_S = 60.0  # beyond the hard limit of a job, which is reported as that job's failure
PUBLISH_EVERY_S, DRAWING_S = 1.0, 60.0
TOP = 20


def open_collect_farm(
    settings: CollectSettings, options: CollectOptions, notify: Callable[[str], None] = log.info
) -> AbstractContextManager[FarmConnection]:
    if options.farm == "external":
        return external_farm(options.redis_url, notify)
    return embedded_farm(collect_farm_spec(settings, options), notify)


def load_checkpoints(folder: Path, *, resume: bool) -> tuple[Checkpoint, Checkpoint]:
    """The two checkpoints, with what they hold or, for a new start, without it."""
    verbose, pairs = Checkpoint(folder / VERBOSE), Checkpoint(folder / PAIRS)
    if resume:
        verbose.load()
        pairs.load()
    return verbose, pairs


@dataclass
class Collector:
    """One session of a collection.  `run` returns the path of the output; what it raises is how the session ended."""

    settings: CollectSettings
    options: CollectOptions
    parts: Split
    output: OutputFolder
    is_resumed: bool
    callbacks: Callbacks = field(default_factory=lambda: Callbacks(()))
    only: tuple[str, ...] = ()  # the failed tasks to retry; without names, all

    def run(self) -> Path:
        log.info("settings: %s", json.dumps(dataclasses.asdict(self.settings), ensure_ascii=False))
        counts = {name: len(getattr(self.parts, name)) for name in ("train", "val", "test")}
        log.info("split: train %(train)d, val %(val)d, test %(test)d", counts)
        checkpoints = load_checkpoints(self.output.path, resume=self.is_resumed)
        run_id = self.output.run_id(KIND_NAME)
        opened = open_collect_farm(self.settings, self.options)
        with run_session(self.output, run_id, KIND_NAME, opened, log.warning) as farm:
            session = _Session(self, farm, run_id, checkpoints)
            session.begin()
            self.callbacks.start(session.info(run_id))
            with session.publisher.publish_final_state():
                document = session.document()
                path = self._write(document)
                farm.store.release_shared(run_id)
                session.report(is_finished=True)
                return path

    def _write(self, document: dict[str, Any]) -> Path:
        path = Path(self.settings.phase0.output_path)
        write_output(path, json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n")
        log.info("wrote %s, %s bytes", path, f"{path.stat().st_size:,}")
        return path


@dataclass
class _Session:
    """The parts of a session, once its farm is up."""

    collector: Collector
    farm: FarmConnection
    run_id: str
    checkpoints: tuple[Checkpoint, Checkpoint]
    _gathered: Sequence[Gathered] = ()
    _reported: float = field(default=float("-inf"))

    def __post_init__(self) -> None:
        self.settings, self.train = self.collector.settings, self.collector.parts.train
        self.threshold = self.settings.phase0.correctness.threshold
        self.options = self.collector.options
        self.collection = make_collection(self.settings, self.options, self.run_id)
        about = {"kind": KIND_NAME, "unit": "examples"}
        priced = is_priced(self.collection.judge_endpoint) and is_priced(self.collection.reflector_endpoint)
        output, budget = self.collector.output, self.options.budget_usd
        self.publisher = StatusPublisher(self.run_id, self.farm.store, output, about, budget, priced)

    @cached_property
    def scheduler(self) -> Scheduler:
        limits = WaitLimits(JOB_LIMIT_S + NO_PROGRESS_S, self.collector.options.retry_wait_s)
        dispatcher = Dispatcher(self.farm, self.run_id, limits, log.warning, self.collector.only)
        phase0 = self.settings.phase0
        in_flight = {
            pipeline.TOKENIZER: 1,
            pipeline.SAMPLE: phase0.target_concurrency,
            pipeline.COMPRESS: phase0.reflector_concurrency,
            pipeline.VERDICT: phase0.judge_concurrency,
            pipeline.TOKENIZE: 1,
        }
        return Scheduler(dispatcher, in_flight)

    def begin(self) -> None:
        """Put the run into the store."""
        store = self.farm.store
        if self.settings.reflector.api_base == EMBEDDED and not self.farm.rules:
            raise FarmUnavailable('the farm has no embedded endpoint, and reflector.api_base is "embedded"')
        store.retention.apply_rule(self.run_id, KEPT_S / DAY_S)
        store.set_requirements(self.run_id, code_version(), self.collection.target.model)
        store.put_metadata(self.run_id, COLLECTION, self.collection.to_json())
        store.put_metadata(self.run_id, LIMIT, str(JOB_LIMIT_S))
        store.put_examples(self.run_id, {EXAMPLES: self.train})
        self.publisher.restore([])
        keep_versions(self.collector.output)
        clear_parked_state(self.collector.output)  # not earlier: a start that is refused leaves the run parked

    def info(self, run_id: str) -> RunInfo:
        """The run, as callbacks are told of it."""
        settings = {**flatten(dataclasses.asdict(self.settings)), **flatten({"farm": dataclasses.asdict(self.options)})}
        return RunInfo(run_id, KIND_NAME, self.collector.output.path, settings, len(self.train))

    def document(self) -> dict[str, Any]:
        """Everything that needs the farm, and the document that is made of it."""
        self._check_prompts()
        if not self.collector.is_resumed:
            self._set_checkpoints_aside()
        self._identify_server()
        jobs = Pipeline(
            self.collection, self.train, self.threshold, self.scheduler, *self.checkpoints, JOB_LIMIT_S, self._watch
        )
        gathered = jobs.run()
        self._log_totals(gathered)
        tokenized = jobs.tokenize(gathered)
        selection = self._select(tokenized["tokens"])
        self._draw(selection)
        created = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return make_document(self.settings, self.collector.parts, gathered, tokenized["ids"], selection, created)

    def _set_checkpoints_aside(self) -> None:
        """Those of an earlier start, once this one cannot be refused any more."""
        for checkpoint in self.checkpoints:
            if aside := checkpoint.rotate():
                log.info("an earlier checkpoint is now %s", aside)

    def _identify_server(self) -> None:
        """Learn which server answers, because all keys cover it, and take up the checkpoints."""
        server = current_server(self.scheduler, self.collection.target, JOB_LIMIT_S)
        self.collection = dataclasses.replace(self.collection, server=server)
        self.farm.store.put_metadata(self.run_id, COLLECTION, self.collection.to_json())
        judged = seed_store(self.farm.store, self.run_id, self.collection, self.train, *self.checkpoints)
        log.info("%d of %d examples are in the checkpoints", judged, len(self.train))

    def _check_prompts(self) -> None:
        """Whether all questions fit the target."""
        found = find_long_prompts(self.scheduler, self.collection.target, self.train, truncate=False)
        if found.lengths:
            raise SettingsError([f"data.financebench_path: {found.reason()}; leave these questions out"])

    def _watch(self, gathered: Sequence[Gathered]) -> None:
        self._gathered = gathered
        if time.monotonic() - self._reported > PUBLISH_EVERY_S:
            self.report()

    def report(self, *, is_finished: bool = False) -> None:
        """Publish how far the collection is, and write it into the output folder."""
        judged = [g for g in self._gathered if len(g.correctness) == self.collection.samples]
        progress = {
            "done": len(judged),
            "total": len(self.train),
            "retained_pairs": sum(len(g.retained(self.threshold)) for g in judged),
        }
        self.collector.output.write_state(PROGRESS_FILE, {**progress, "is_finished": is_finished})
        self.publisher.publish(progress)
        self._reported = time.monotonic()

    def _select(self, shares: Sequence[TokenShare]) -> dict[str, Any]:
        key = self.collection.tokenizer_key()
        found = self.farm.store.shared(self.run_id, [key])[key]
        vocabulary = Vocabulary(found["texts"], frozenset(found["special"]), found["eos"])
        top = ", ".join(f"{vocabulary.texts[token]!r} {delta:+.5f}" for token, delta, _, _ in shares[:TOP])
        log.info("the %d largest differences, before the filters: %s", len(shares[:TOP]), top or "none")
        filters = Filters(**dataclasses.asdict(self.settings.phase0.filters))
        return select_tokens(shares, vocabulary, self.settings.phase0.k, filters)

    def _draw(self, selection: dict[str, Any]) -> None:
        """The picture of the most wasted tokens, beside the checkpoints; one that cannot be drawn is a warning."""
        artifacts = ArtifactRequests(self.scheduler, self.collector.output, JOB_LIMIT_S)
        artifacts.request_collection_plots(selection["v_steer"])
        artifacts.wait(DRAWING_S)

    def _log_totals(self, gathered: Sequence[Gathered]) -> None:
        retained = [len(found.retained(self.threshold)) for found in gathered]
        log.info("%d of %d examples retained, %d of %d pairs", sum(m > 0 for m in retained), len(retained),
                 sum(retained), self.collection.samples * len(retained))  # fmt: skip
        by = [listed(providers(g.compressed_by for g in gathered)), listed(providers(g.judged_by for g in gathered))]
        log.info("compressed by %s; judged by %s", *by)
        self._log_cached()

    def _log_cached(self) -> None:
        """Say plainly what was not computed by this command."""
        tasks = (pipeline.SAMPLE, pipeline.COMPRESS, pipeline.VERDICT)
        samples, compressions, verdicts = (self.scheduler.cached[task] for task in tasks)
        hint = "" if self.collector.is_resumed else "; --fresh computes everything anew"
        if samples or compressions or verdicts:
            what = f"{samples} verbose answers, {compressions} compressions, {verdicts} verdicts"
            log.warning("not computed by this command, but taken from the store or the checkpoints: %s%s", what, hint)
