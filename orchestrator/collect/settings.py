"""The settings of a collection: every key of its YAML file, as frozen dataclasses.

The names of the fields are the keys, so that `dataclasses.asdict` gives the file back.  No key has a default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictFloat, StrictInt

from orchestrator.settings import SettingsError
from orchestrator.settings.documents import (
    Count,
    Document,
    Natural,
    Ratio,
    Share,
    Temperature,
    Text,
    parse_document,
    read_document,
)
from orchestrator.settings.farm import EndpointOptions, missing_key
from orchestrator.settings.options import EMBEDDED, http_address, http_or_embedded, placeholders
from tasks.common.text import quote
from tasks.records import Filters

EndpointAddress = Annotated[Text, AfterValidator(http_or_embedded)]


@dataclass(frozen=True)
class SglangSettings(Document):
    """The server of the target. `timeout_s` limits one request, `max_retries` counts the tries after the first."""

    base_url: Annotated[Text, AfterValidator(http_address)]
    timeout_s: Annotated[StrictFloat, Field(gt=0)]
    max_retries: Natural


@dataclass(frozen=True)
class TargetSettings(Document):
    """The model that answers. `prompt_template` has {context} and {query}; sample j uses seed + j."""

    model_id: Text
    sglang: SglangSettings
    temperature: Temperature
    top_p: Share
    max_new_tokens: Count
    seed: Natural
    prompt_template: Annotated[Text, placeholders("context", "query")]


@dataclass(frozen=True)
class ReflectorSettings(Document):
    """The model that compresses answers. `compress_prompt_template` has {query} and {prev_answer}.

    A null `temperature`, `top_p` or `seed` is not sent; some models refuse them.
    """

    model_id: Text
    api: Literal["openai_chat_completions"]
    temperature: Temperature | None
    top_p: Share | None
    max_new_tokens: Count
    seed: StrictInt | None
    compress_prompt_template: Annotated[Text, placeholders("query", "prev_answer")]
    api_base: EndpointAddress
    api_key_env: Text


@dataclass(frozen=True)
class SplitRatios(Document):
    """Parts of the questions; they add up to 1."""

    train: Ratio
    val: Ratio
    test: Ratio


@dataclass(frozen=True)
class DataSettings(Document):
    financebench_path: Text
    split_ratios: SplitRatios


@dataclass(frozen=True)
class CorrectnessSettings(Document):
    """The judge. `tolerance` is a relative error; a pair is kept when its score reaches `threshold`.

    A null `evaluator_temperature`, `evaluator_top_p` or `evaluator_seed` is not sent.
    """

    metric: Literal["remote_verdict"]
    threshold: Share  # above 0, or a wrong answer, whose score is 0, would be kept
    tolerance: Annotated[StrictFloat, Field(ge=0)]
    evaluator_model: Text
    evaluator_api_base: EndpointAddress
    evaluator_api_key_env: Text
    qualitative_forgiving: StrictBool
    evaluator_temperature: Temperature | None
    evaluator_top_p: Share | None
    evaluator_max_new_tokens: Count
    evaluator_seed: StrictInt | None


@dataclass(frozen=True)
class Phase0Settings(Document):
    """`verbose_num_samples` answers to a question, `k` tokens to select; concurrencies are calls in flight."""

    verbose_num_samples: Count
    k: Count
    filters: Filters
    output_path: Text
    correctness: CorrectnessSettings
    target_concurrency: Count
    reflector_concurrency: Count
    judge_concurrency: Count


@dataclass(frozen=True)
class CollectSettings(Document):
    """The whole file."""

    seed: StrictInt
    device: Text
    output_dir: Text
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
    target: TargetSettings
    reflector: ReflectorSettings
    data: DataSettings
    phase0: Phase0Settings


@dataclass(frozen=True)
class CollectOptions(EndpointOptions):
    """The options of the command line, for which the file has no keys."""

    is_fresh: Annotated[
        StrictBool,
        Field(
            description="set aside the collection in the output folder, and compute everything anew (otherwise results "
            "of equal settings are taken from the store)"
        ),
    ] = False


def read_collect_settings(path: Path) -> CollectSettings:
    return read_document(path, CollectSettings, CROSS_CHECKS)


def collect_settings_from(values: Mapping[str, Any]) -> CollectSettings:
    return parse_document(values, CollectSettings, CROSS_CHECKS)


def _check_ratios(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    names = [f"data.split_ratios.{part}" for part in ("train", "val", "test")]
    if all(name in values for name in names) and abs((total := sum(values[name] for name in names)) - 1.0) > 1e-6:
        yield "data.split_ratios", f"train, val and test add up to {total:g}, not to 1"


def _check_embedded(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The workers of an embedded endpoint have its key in place of a real one, so both calls go to it or neither."""
    reflector, judge = values.get("reflector.api_base"), values.get("phase0.correctness.evaluator_api_base")
    if reflector and judge and (reflector == EMBEDDED) != (judge == EMBEDDED):
        reason = f'{quote(judge)} beside {quote(reflector)} in reflector.api_base: both are "embedded" or neither'
        yield "phase0.correctness.evaluator_api_base", reason


CROSS_CHECKS = (_check_ratios, _check_embedded)


def check_surroundings(settings: CollectSettings, options: CollectOptions) -> None:
    """Check what settings and options must keep together, at each start."""
    if problems := [*_problems(settings, options)]:
        raise SettingsError(problems)


def _problems(settings: CollectSettings, options: CollectOptions) -> Iterator[str]:
    reflector, judge = settings.reflector, settings.phase0.correctness
    if reflector.api_base == EMBEDDED:
        if options.farm == "external":
            yield 'reflector.api_base: "embedded" needs --farm embedded'
    elif options.farm == "embedded":  # workers of an external farm have their own environment; these have ours
        yield from missing_key("reflector.api_key_env", reflector.api_key_env)
        yield from missing_key("phase0.correctness.evaluator_api_key_env", judge.evaluator_api_key_env)
    limit = options.tokens_per_minute  # which a prompt and its longest reply share
    for key, tokens in (
        ("reflector.max_new_tokens", reflector.max_new_tokens),
        ("phase0.correctness.evaluator_max_new_tokens", judge.evaluator_max_new_tokens),
    ):
        if limit <= tokens:
            yield f"--tokens-per-minute: {limit} leaves no room for a prompt: it must be more than {key} ({tokens})"
