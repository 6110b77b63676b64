"""The kind of runs that `orchestrator collect` starts: from settings and questions to the output file."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from orchestrator.callbacks import Callback, Callbacks, load_callbacks
from orchestrator.collect.report import Split
from orchestrator.collect.settings import (
    CollectOptions,
    CollectSettings,
    SplitRatios,
    check_surroundings,
    collect_settings_from,
)
from orchestrator.runs.folder import OutputFolder, check_inputs, write_output
from orchestrator.runs.kinds import PROGRESS_FILE, SETTINGS_FILE, Figures, RunKind, YamlKind
from orchestrator.settings import SettingsError
from orchestrator.settings.farm import unwritable_folder
from orchestrator.settings.options import EMBEDDED
from orchestrator.settings.run import endpoint_at
from tasks import records
from tasks.collect.collection import Collection
from tasks.openai.endpoint import is_priced
from tasks.questions import read_questions
from tasks.records import Example
from tasks.tables import DatasetError

if TYPE_CHECKING:
    from orchestrator.farm.connection import FarmSpec
    from orchestrator.runs.session import Ending

log = logging.getLogger(__name__)
JOB_LIMIT_S = 1800.0  # hard limit of one job
SYSTEM_PROMPT = "Answer the question using the provided context."


class CollectKind(YamlKind[CollectSettings, CollectOptions]):
    """A collection, by its output folder.

    What may change before it is resumed does not alter results, or says who compresses and judges.  The keys of
    compressions and verdicts cover the latter, so those of another model, address or sampling are computed anew, and an
    output is never of two judges.
    """

    name, unit, options = "collect", "examples", CollectOptions
    fixed = ("is_fresh",)
    resumable = (
        "log_level",
        *(f"target.sglang.{key}" for key in ("base_url", "timeout_s", "max_retries")),
        *(f"reflector.{key}" for key in ("model_id", "api_base", "api_key_env")),
        *(f"reflector.{key}" for key in ("temperature", "top_p", "max_new_tokens", "seed")),
        *(f"phase0.correctness.evaluator_{key}" for key in ("model", "api_base", "api_key_env")),
        *(f"phase0.correctness.evaluator_{key}" for key in ("temperature", "top_p", "max_new_tokens", "seed")),
        *(f"phase0.{key}_concurrency" for key in ("target", "reflector", "judge")),
        "phase0.output_path",
    )

    def settings_from(self, values: dict[str, Any], folder: Path) -> CollectSettings:
        return collect_settings_from(values)

    def farm_spec(self, settings: CollectSettings, options: CollectOptions) -> FarmSpec:
        """With as many slots as calls may be in flight."""
        from orchestrator.farm.connection import FarmSpec

        phase0 = settings.phase0
        return FarmSpec(
            folder=str(options.folder),
            gpu_slots=phase0.target_concurrency,
            openai_threads=phase0.reflector_concurrency + phase0.judge_concurrency,
            cpu_workers=1,
            log_level=settings.log_level,
            embedded_endpoint=settings.reflector.api_base == EMBEDDED,
            offline=settings.target.model_id == EMBEDDED,
        )

    def go_on(self, settings: CollectSettings, options: CollectOptions, only: Sequence[str]) -> int:
        return start_collection(settings, options, resume=True, only=only).exit(settings.phase0.output_path)

    def resume(self, folder: Path, overrides: Sequence[str], only: Sequence[str], *, plain: bool) -> int:
        settings, options = self.load(folder, overrides)
        return self.go_on(dataclasses.replace(settings, output_dir=str(folder)), options, only)

    def figure_lines(self, figures: Figures) -> Sequence[tuple[str, str]]:
        retained = figures.get("retained_pairs")
        return () if retained is None else (("retained", f"{retained:,.0f} pairs of the judged examples"),)

    def summary(self, figures: Figures) -> str:
        retained = figures.get("retained_pairs")
        return "" if retained is None else f"{retained:,.0f} pairs retained"


COLLECT = CollectKind()
KIND: RunKind = COLLECT


def start_collection(
    settings: CollectSettings,
    options: CollectOptions,
    *,
    resume: bool,
    only: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    stream: TextIO | None = None,
) -> Ending:
    """Collect, and write to `stream` (standard error) how it goes.

    Of what has failed, `only` names what is to be retried.  `callbacks` are called beside those that the options name.
    A fresh collection sets the one aside that the output folder holds; when it is resumed, it stays a fresh one.
    """
    # Imported here: a command that only shows a collection does not need them.
    from orchestrator.collect.session import PAIRS, VERBOSE, Checkpoint, Collector
    from orchestrator.report.format import announce, highest_cost, provider_at
    from orchestrator.runs.session import open_session

    stream = stream or sys.stderr
    check_surroundings(settings, options)
    path = Path(settings.phase0.output_path)
    check_inputs("phase0.output_path", path, {"data.financebench_path": Path(settings.data.financebench_path)})
    parts = choose_split(settings)
    told = Callbacks([*load_callbacks(options.callbacks, "--callbacks"), *callbacks])
    output = OutputFolder(Path(settings.output_dir))
    if resume and (output.path / SETTINGS_FILE).exists():
        options = dataclasses.replace(options, is_fresh=COLLECT.load(output.path)[1].is_fresh)
    elif options.is_fresh and (aside := output.rotate()):
        print(f"the earlier collection is now in {aside}", file=stream)
    output.check_kind(COLLECT.name)
    output.open()
    if path.is_dir():
        raise SettingsError([f"phase0.output_path: {path}: it is a folder"])
    if problems := [*unwritable_folder("phase0.output_path", path.parent)]:
        raise SettingsError(problems)
    collection = make_collection(settings, options, output.run_id(COLLECT.name))
    reflector, rules = collection.reflector_endpoint, settings.reflector.api_base == EMBEDDED
    asked = {"rules": rules, "external": options.farm == "external"}
    judge = provider_at(collection.judge.model, collection.judge_endpoint, **asked)
    compressor, cost = provider_at(collection.reflector.model, reflector, **asked), highest_cost(reflector, **asked)
    print(announce(compressor, judge, cost), file=stream, flush=True)

    again = "the same command with --resume"
    with COLLECT.driving(output, settings, options, told, settings.log_level, again, stream) as driving:
        log.info("settings: %s", json.dumps(dataclasses.asdict(settings), ensure_ascii=False))
        log.info("split: train %d, val %d, test %d", len(parts.train), len(parts.val), len(parts.test))
        if not resume:
            output.remove(PROGRESS_FILE)
        verbose, pairs = (Checkpoint(output.path / name, is_resumed=resume) for name in (VERBOSE, PAIRS))
        priced = is_priced(collection.judge_endpoint) and is_priced(collection.reflector_endpoint)
        farm = COLLECT.connect(settings, options)
        with open_session(
            output, COLLECT.name, farm, collection.target.model, job_s=JOB_LIMIT_S, retry_wait_s=options.retry_wait_s,
            only=only, budget_usd=options.budget_usd, is_priced=priced, unit=COLLECT.unit,
            needs_rules="reflector.api_base" if rules else "",
        ) as session:  # fmt: skip
            collector = Collector(session, settings, parts, collection, verbose, pairs, resume)
            with session.working(told, settings, options, len(parts.train)):
                text = json.dumps(collector.document(), ensure_ascii=False, indent=1, allow_nan=False) + "\n"
                write_output(path, text)
                log.info("wrote %s, %s bytes", path, f"{path.stat().st_size:,}")
                session.report(collector.progress(is_finished=True))
    return driving.ending


def make_collection(settings: CollectSettings, options: CollectOptions, run_id: str) -> Collection:
    """What the jobs must know; a fresh collection has content keys of its own."""
    target, reflector, correctness = settings.target, settings.reflector, settings.phase0.correctness
    embedded = target.model_id == EMBEDDED
    return Collection(
        samples=settings.phase0.verbose_num_samples,
        target=records.Target(
            model=target.model_id,
            engine="embedded" if embedded else "sglang",
            url="" if embedded else target.sglang.base_url,
            device=settings.device,
            request_timeout_s=target.sglang.timeout_s,
            concurrency=settings.phase0.target_concurrency,
            system_prompt=SYSTEM_PROMPT,
            prompt_template=target.prompt_template,
            sampling=records.Sampling(target.max_new_tokens, target.temperature, target.top_p, target.seed),
        ),
        target_retries=target.sglang.max_retries,
        reflector=records.Reflector(
            model=reflector.model_id,
            temperature=reflector.temperature,
            top_p=reflector.top_p,
            max_completion_tokens=reflector.max_new_tokens,
            seed=reflector.seed,
        ),
        compress_template=reflector.compress_prompt_template,
        reflector_endpoint=endpoint_at(reflector.api_base, reflector.api_key_env, options),
        judge=records.Judge(
            model=correctness.evaluator_model,
            tolerance=correctness.tolerance,
            forgiving=correctness.qualitative_forgiving,
            temperature=correctness.evaluator_temperature,
            top_p=correctness.evaluator_top_p,
            max_completion_tokens=correctness.evaluator_max_new_tokens,
            seed=correctness.evaluator_seed,
            concurrency=1,
            context_tokens=options.tokens_per_minute,
        ),
        judge_endpoint=endpoint_at(correctness.evaluator_api_base, correctness.evaluator_api_key_env, options),
        salt=run_id if options.is_fresh else "",
    )


def choose_split(settings: CollectSettings) -> Split:
    """Read and split the questions."""
    try:
        examples = [question.example for question in read_questions(settings.data.financebench_path)]
    except DatasetError as error:
        raise SettingsError([f"data.financebench_path: {line}" for line in str(error).splitlines()]) from None
    parts = split(examples, settings.data.split_ratios, settings.seed)
    if not parts.train:
        raise SettingsError([f"data.split_ratios.train: of {len(examples)} questions it leaves none to learn from"])
    return parts


def split(examples: Sequence[Example], ratios: SplitRatios, seed: int) -> Split:
    """Sort by id, shuffle with `random.Random(seed)`, cut at the floors of the ratios; the rest is the test part."""
    shuffled = sorted(examples, key=lambda example: example.id)
    random.Random(seed).shuffle(shuffled)
    first = math.floor(len(shuffled) * ratios.train)
    second = first + math.floor(len(shuffled) * ratios.val)
    return Split(tuple(shuffled[:first]), tuple(shuffled[first:second]), tuple(shuffled[second:]))
