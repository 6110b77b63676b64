"""One collection, from checked settings to the output file.

What can be refused is refused before anything is started: settings, questions, checkpoints.  Then the farm; and the
output is written once, whole, when everything is there.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import logging
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from orchestrator.collect import build
from orchestrator.collect.build import Split, split
from orchestrator.collect.checkpoints import PAIRS, VERBOSE, Checkpoint
from orchestrator.collect.settings import EMBEDDED, CollectSettings
from orchestrator.output import OutputFolder, write_output
from orchestrator.settings.options import SettingsError
from tasks import logs
from tasks.code_version import code_version
from tasks.collect.collection import COLLECTION, EXAMPLES, Collection
from tasks.dataset import DatasetError, load_examples
from tasks.models import Example
from tasks.openai.provider import Role, listed

if TYPE_CHECKING:
    from orchestrator.collect.pipeline import Gathered
    from orchestrator.farm.connection import FarmConnection
    from tasks.collect.frequencies import ShardCounts
    from tasks.collect.tokenizer import StoredTokenizer

log = logging.getLogger(__name__)
TOP = 20
POLL_S, DRAWING_S = 0.1, 60.0


@dataclass(frozen=True)
class Counted:
    """What the farm found: the examples' pairs, their token ids by key, and the chosen tokens."""

    gathered: Sequence[Gathered]
    ids: dict[str, list[int]]
    selection: dict[str, Any]


def choose_split(settings: CollectSettings) -> Split:
    """Read and split the questions.  Raises: SettingsError for a file that cannot be used."""
    try:
        examples = load_examples(settings.data.financebench_path)
    except DatasetError as error:
        raise SettingsError([f"data.financebench_path: {line}" for line in str(error).splitlines()]) from None
    found = split(examples, settings.data.split_ratios, settings.seed)
    if not found.train:
        raise SettingsError([f"data.split_ratios.train: of {len(examples)} questions it leaves none to learn from"])
    return found


def load_checkpoints(folder: Path, *, resume: bool) -> tuple[Checkpoint, Checkpoint]:
    """The two checkpoints, with what they hold or, for a new start, empty.  Raises: OutputError."""
    verbose, pairs = Checkpoint(folder / VERBOSE), Checkpoint(folder / PAIRS)
    for checkpoint in (verbose, pairs):
        if resume:
            checkpoint.load()
        elif aside := checkpoint.rotate():
            log.info("an earlier checkpoint is now %s", aside)
    return verbose, pairs


def collect(settings: CollectSettings, options: build.FarmOptions, parts: Split, *, resume: bool) -> Path:
    """Collect, and write the output; returns its path.

    Raises: OutputError, FarmUnavailable, CollectionFailed, DocumentError.
    """
    from orchestrator.collect.document import make_document, validate

    log.info("settings: %s", json.dumps(dataclasses.asdict(settings), ensure_ascii=False))
    counts = {name: len(getattr(parts, name)) for name in ("train", "val", "test")}
    log.info("split: train %(train)d, val %(val)d, test %(test)d", counts)
    verbose, pairs = load_checkpoints(Path(settings.output_dir), resume=resume)
    collection = build.make_collection(settings, options, parts.train)
    with open_farm(settings, options) as farm:
        counted = work(farm, settings, collection, parts.train, (verbose, pairs))
    created = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    document = make_document(settings, parts, counted.gathered, counted.ids, counted.selection, created)
    validate(document)
    path = Path(settings.phase0.output_path)
    write_output(path, json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n")
    log.info("wrote %s, %s bytes", path, f"{path.stat().st_size:,}")
    return path


def open_farm(settings: CollectSettings, options: build.FarmOptions) -> AbstractContextManager[FarmConnection]:
    from orchestrator.farm.connection import embedded_farm, external_farm

    if options.farm == "external":
        return external_farm(options.redis_url, log.info)
    return embedded_farm(build.farm_spec(settings, options), log.info)


def work(
    farm: FarmConnection,
    settings: CollectSettings,
    collection: Collection,
    train: Sequence[Example],
    checkpoints: tuple[Checkpoint, Checkpoint],
) -> Counted:
    """All that needs the farm.  Raises: FarmUnavailable, CollectionFailed."""
    from orchestrator.collect import pipeline
    from orchestrator.collect.counting import count
    from orchestrator.dispatch.scheduler import Requests
    from orchestrator.farm.connection import FarmUnavailable

    store, run_id = farm.store, collection.id
    if options_want_rules(settings) and not farm.rules:
        raise FarmUnavailable('the farm has no embedded endpoint, and reflector.api_base is "embedded"')
    store.put_metadata(run_id, COLLECTION, collection.to_json())
    store.set_requirements(run_id, code_version(), collection.target.model)
    store.put_examples(run_id, {EXAMPLES: [dataclasses.asdict(example) for example in train]})
    judged = pipeline.seed_store(store, collection, train, *checkpoints)
    logs.now_about({"run": run_id})
    log.info("%d of %d examples are in the checkpoints", judged, len(train))
    phase0 = settings.phase0
    limits = {
        pipeline.TOKENIZER: 1,
        pipeline.SAMPLE: phase0.target_concurrency,
        pipeline.COMPRESS: phase0.reflector_concurrency,
        pipeline.VERDICT: phase0.judge_concurrency,
        pipeline.TOKENIZE: 8,
    }
    requests = Requests(farm.app, store, run_id, limits, farm.check)
    threshold = phase0.correctness.threshold
    gathered = pipeline.Gathering(collection, train, threshold, requests, *checkpoints).run()
    _tell_totals(gathered, collection.samples, threshold)
    by = {role: listed(store.providers(run_id, role)) for role in get_args(Role)}
    log.info("compressed by %(reflector)s; judged by %(judge)s", by)
    pairs = [
        (len(found.token_keys) // 2, found.token_keys[at], found.token_keys[at + 1])
        for found in gathered
        for at in range(0, len(found.token_keys), 2)
    ]
    keys = sorted({key for _, *both in pairs for key in both})
    ids = {key: value["ids"] for key, value in store.shared(run_id, keys).items()}
    counts = count(farm.app, store, run_id, pairs, farm.check)
    selection = _select(farm, settings, collection, counts)
    _draw(farm, settings, run_id, selection)
    return Counted(gathered, ids, selection)


def options_want_rules(settings: CollectSettings) -> bool:
    """Whether the reflector and the judge are the embedded endpoint's rules."""
    return settings.reflector.api_base == EMBEDDED


def _select(
    farm: FarmConnection, settings: CollectSettings, collection: Collection, counts: ShardCounts
) -> dict[str, Any]:
    from tasks.collect.frequencies import frequencies
    from tasks.collect.selection import Filters, choose
    from tasks.collect.tokenizer import StoredTokenizer

    key = collection.tokenizer_key()
    tokenizer = StoredTokenizer.from_json(farm.store.shared(collection.id, [key])[key])
    found = frequencies(counts)
    _tell_top(found.order[:TOP], found.delta, tokenizer)
    filters = Filters(**dataclasses.asdict(settings.phase0.filters))
    return choose(found, tokenizer, settings.phase0.k, filters).to_json()


def _draw(farm: FarmConnection, settings: CollectSettings, run_id: str, selection: dict[str, Any]) -> None:
    """The picture of the most wasted tokens, beside the checkpoints; one that cannot be drawn is a warning."""
    from orchestrator.runs.artifacts import ArtifactRequests

    def pause() -> None:
        farm.check()
        farm.store.wait(run_id, POLL_S)

    studio = ArtifactRequests(farm.app, farm.store, run_id, OutputFolder(Path(settings.output_dir)))
    studio.draw_wasted(selection["v_steer"])
    studio.wait(pause, time.monotonic() + DRAWING_S, time.monotonic)


def _tell_top(order: Sequence[int], delta: Any, tokenizer: StoredTokenizer) -> None:
    listed = ", ".join(f"{tokenizer.decode([i])!r} {delta[i]:+.5f}" for i in order)
    log.info("the %d largest differences, before the filters: %s", len(order), listed or "none")


def _tell_totals(gathered: Sequence[Gathered], samples: int, threshold: float) -> None:
    retained = [len(found.retained(threshold)) for found in gathered]
    log.info("%d of %d examples retained, %d of %d pairs", sum(m > 0 for m in retained), len(retained),
             sum(retained), samples * len(retained))  # fmt: skip
