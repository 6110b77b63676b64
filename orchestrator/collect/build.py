"""From the settings of a collection to what its jobs must know, its embedded farm, and the split of its questions."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.collect.settings import CollectOptions, CollectSettings, SplitRatios
from orchestrator.farm.embedded import FarmSpec
from orchestrator.report.announcement import announce, highest_cost, provider_at
from orchestrator.settings import SettingsError
from orchestrator.settings.run import endpoint_at
from orchestrator.settings.value_checks import EMBEDDED
from tasks import records
from tasks.collect.collection import Collection
from tasks.common.text import smallest_limit
from tasks.dataset import DatasetError
from tasks.questions import read_questions
from tasks.records import Example

SYSTEM_PROMPT = "Answer the question using the provided context."
TARGET_READY_S = 600.0


def make_collection(settings: CollectSettings, options: CollectOptions, run_id: str) -> Collection:
    """What the jobs must know; a fresh collection has content keys of its own."""
    reflector, correctness = settings.reflector, settings.phase0.correctness
    return Collection(
        samples=settings.phase0.verbose_num_samples,
        target=_target(settings),
        target_retries=settings.target.sglang.max_retries,
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
            context_tokens=smallest_limit(options.context_tokens, options.tokens_per_minute),
        ),
        judge_endpoint=endpoint_at(correctness.evaluator_api_base, correctness.evaluator_api_key_env, options),
        salt=run_id if options.is_fresh else "",
        context_tokens=options.context_tokens,
    )


def collect_farm_spec(settings: CollectSettings, options: CollectOptions) -> FarmSpec:
    """An embedded farm with as many slots as calls may be in flight."""
    phase0 = settings.phase0
    return FarmSpec(
        folder=str(Path(options.farm_dir).resolve()),
        gpu_slots=phase0.target_concurrency,
        openai_threads=phase0.reflector_concurrency + phase0.judge_concurrency,
        cpu_workers=1,
        log_level=settings.log_level,
        embedded_endpoint=settings.reflector.api_base == EMBEDDED,
        offline=settings.target.model_id == EMBEDDED,
    )


def _target(settings: CollectSettings) -> records.Target:
    target = settings.target
    embedded = target.model_id == EMBEDDED
    return records.Target(
        model=target.model_id,
        engine="embedded" if embedded else "sglang",
        lifecycle="resident",
        url="" if embedded else target.sglang.base_url,
        command="",
        args="",
        device=settings.device,
        dtype="auto",
        ready_timeout_s=TARGET_READY_S,
        request_timeout_s=target.sglang.timeout_s,
        concurrency=settings.phase0.target_concurrency,
        system_prompt=SYSTEM_PROMPT,
        prompt_template=target.prompt_template,
        sampling=records.Sampling(target.max_new_tokens, target.temperature, target.top_p, target.seed),
    )


def collect_announcement(settings: CollectSettings, options: CollectOptions) -> str:
    """Who reflects and judges, and what it may cost at most."""
    reflector, judge = settings.reflector, settings.phase0.correctness
    rules, external = reflector.api_base == EMBEDDED, options.farm == "external"
    endpoint = endpoint_at(reflector.api_base, reflector.api_key_env, options)
    judge_endpoint = endpoint_at(judge.evaluator_api_base, judge.evaluator_api_key_env, options)
    return announce(
        provider_at(reflector.model_id, endpoint, rules=rules, external=external),
        provider_at(judge.evaluator_model, judge_endpoint, rules=rules, external=external),
        highest_cost(endpoint, rules=rules),
    )


@dataclass(frozen=True)
class Split:
    """The three parts, each in the order of the shuffle."""

    train: tuple[Example, ...]
    val: tuple[Example, ...]
    test: tuple[Example, ...]


def split(examples: Sequence[Example], ratios: SplitRatios, seed: int) -> Split:
    """Sort by id, shuffle with `random.Random(seed)`, cut at the floors of the ratios; the rest is the test part."""
    shuffled = sorted(examples, key=lambda example: example.id)
    random.Random(seed).shuffle(shuffled)
    first = math.floor(len(shuffled) * ratios.train)
    second = first + math.floor(len(shuffled) * ratios.val)
    return Split(tuple(shuffled[:first]), tuple(shuffled[first:second]), tuple(shuffled[second:]))


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
