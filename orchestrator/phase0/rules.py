"""What values of the right type must still keep: ranges, choices, placeholders, and a sum that is 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from orchestrator.settings.rules import short
from tasks.template import lacking

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
        missing = lacking(value, places)
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
