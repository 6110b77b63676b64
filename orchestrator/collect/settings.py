"""What a collection is told to do: every key of phase0_collect.md section 3, as frozen dataclasses.

The names of the fields are the keys, so that `dataclasses.asdict` gives the file back.  None has a default.

What values of the right type must still keep: ranges, choices, placeholders, and a sum that is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from orchestrator.settings.rules import short
from tasks.template import missing_placeholders


@dataclass(frozen=True)
class Sglang:
    """The server of the target. `timeout_s` bounds one request, `max_retries` counts the tries after the first."""

    base_url: str
    timeout_s: float
    max_retries: int


@dataclass(frozen=True)
class Target:
    """The model that answers (section 3.1). `prompt_template` has {context} and {query}; sample j uses seed + j."""

    model_id: str
    sglang: Sglang
    temperature: float
    top_p: float
    max_new_tokens: int
    seed: int
    prompt_template: str


@dataclass(frozen=True)
class Reflector:
    """The model that compresses (section 3.2). `compress_prompt_template` has {query} and {prev_answer}."""

    model_id: str
    api: str
    temperature: float
    top_p: float
    max_new_tokens: int
    seed: int
    compress_prompt_template: str
    api_base: str
    api_key_env: str


@dataclass(frozen=True)
class SplitRatios:
    """Parts of the questions; they add up to 1."""

    train: float
    val: float
    test: float


@dataclass(frozen=True)
class Data:
    financebench_path: str
    split_ratios: SplitRatios


@dataclass(frozen=True)
class FilterSwitches:
    """Which tokens are no candidates (section 4.10)."""

    drop_special_tokens: bool
    drop_whitespace_only: bool
    drop_digit_only: bool


@dataclass(frozen=True)
class Correctness:
    """The judge (section 6). `tolerance` is a relative error; a pair is kept when its score reaches `threshold`."""

    metric: str
    threshold: float
    tolerance: float
    evaluator_model: str
    evaluator_api_base: str
    evaluator_api_key_env: str
    qualitative_forgiving: bool
    evaluator_temperature: float
    evaluator_top_p: float
    evaluator_max_new_tokens: int
    evaluator_seed: int


@dataclass(frozen=True)
class Phase0:
    """`verbose_num_samples` answers a question, `k` tokens to find; concurrencies are calls in flight on the farm."""

    verbose_num_samples: int
    k: int
    filters: FilterSwitches
    output_path: str
    correctness: Correctness
    target_concurrency: int
    reflector_concurrency: int
    judge_concurrency: int


@dataclass(frozen=True)
class CollectSettings:
    """The whole file."""

    seed: int
    device: str
    output_dir: str
    log_level: str
    target: Target
    reflector: Reflector
    data: Data
    phase0: Phase0


EMBEDDED = "embedded"
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
RATIO_TOLERANCE = 1e-6
RATIOS = tuple(f"data.split_ratios.{part}" for part in ("train", "val", "test"))

Check = Callable[[Any], str | None]


def broken_rules(flat: Mapping[str, Any]) -> dict[str, str]:
    """For each key that breaks a rule, why.  `flat` has the keys whose types are right, by dotted name."""
    broken = {name: reason for name, check in RULES.items() if name in flat and (reason := check(flat[name]))}
    if all(name in flat and name not in broken for name in RATIOS):
        total = sum(flat[name] for name in RATIOS)
        if abs(total - 1.0) > RATIO_TOLERANCE:
            broken["data.split_ratios"] = f"train, val and test add up to {total:g}, not to 1"
    bases = [flat.get("reflector.api_base"), flat.get("phase0.correctness.evaluator_api_base")]
    if None not in bases and (bases[0] == EMBEDDED) != (bases[1] == EMBEDDED):
        # The workers of an embedded endpoint have its key in place of the real one.
        broken["phase0.correctness.evaluator_api_base"] = (
            f"{short(str(bases[1]))} beside {short(str(bases[0]))} in reflector.api_base: "
            'both are "embedded" or neither'
        )
    return broken


def _at_least(least: float) -> Check:
    return lambda value: None if value >= least else f"{value} is less than {least:g}"


def _above_zero(value: float) -> str | None:
    return None if value > 0 else f"{value} is not more than 0"


def _share(value: float) -> str | None:
    return None if 0 < value <= 1 else f"{value} is not more than 0 and at most 1"


def _ratio(value: float) -> str | None:
    return None if 0 <= value <= 1 else f"{value} is not between 0 and 1"


def _one_of(*allowed: str) -> Check:
    return lambda value: None if value in allowed else f"{short(value)} is not {' or '.join(allowed)}"


def _with_places(*places: str) -> Check:
    def check(value: str) -> str | None:
        missing = missing_placeholders(value, places)
        return f"has no place for {' and '.join(missing)}" if missing else None

    return check


def _http(value: str) -> str | None:
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        good = False
    return None if good else f"{short(value)} is not an address that begins with http:// or https://"


def _http_or_embedded(value: str) -> str | None:
    return None if value == EMBEDDED else _http(value)


RULES: Mapping[str, Check] = {
    "log_level": _one_of(*LOG_LEVELS),
    "target.sglang.base_url": _http,
    "target.sglang.timeout_s": _above_zero,
    "target.sglang.max_retries": _at_least(0),
    "target.temperature": _at_least(0),
    "target.top_p": _share,
    "target.max_new_tokens": _at_least(1),
    "target.seed": _at_least(0),
    "target.prompt_template": _with_places("context", "query"),
    "reflector.api": _one_of("openai_chat_completions"),
    "reflector.temperature": _at_least(0),
    "reflector.top_p": _share,
    "reflector.max_new_tokens": _at_least(1),
    "reflector.compress_prompt_template": _with_places("query", "prev_answer"),
    "reflector.api_base": _http_or_embedded,
    **dict.fromkeys(RATIOS, _ratio),
    "phase0.verbose_num_samples": _at_least(1),
    "phase0.k": _at_least(1),
    "phase0.correctness.metric": _one_of("remote_verdict"),
    # Above 0, or a wrong answer, whose score is 0, would be kept.
    "phase0.correctness.threshold": _share,
    "phase0.correctness.tolerance": _at_least(0),
    "phase0.correctness.evaluator_api_base": _http_or_embedded,
    "phase0.correctness.evaluator_temperature": _at_least(0),
    "phase0.correctness.evaluator_top_p": _share,
    "phase0.correctness.evaluator_max_new_tokens": _at_least(1),
    "phase0.target_concurrency": _at_least(1),
    "phase0.reflector_concurrency": _at_least(1),
    "phase0.judge_concurrency": _at_least(1),
}
