"""Which settings may change between the stop of a run and its resumption."""

from __future__ import annotations

from orchestrator.settings.model import Settings, options

MAY_CHANGE = (
    "FARM",
    "REDIS_URL",
    "FARM_DIR",
    "GPU_SLOTS",
    "OPENAI_WORKERS",
    "OPENAI_THREADS",
    "CPU_WORKERS",
    "EMBEDDED_FAULTS",
    "STAGE_TIMEOUT_S",
    "RETRY_WAIT_S",
    "SGLANG_LIFECYCLE",
    "SGLANG_URL",
    "SGLANG_API_KEY_ENV",
    "SGLANG_COMMAND",
    "SGLANG_READY_TIMEOUT_S",
    "TARGET_TIMEOUT_S",
    "TARGET_CONCURRENCY",
    "CLUSTERS_DIR",
    "NGEN",
    "EVALUATION_CACHE",
    "JUDGE_CONCURRENCY",
    "OPENAI_API_KEY_ENV",
    "OPENAI_TIMEOUT_S",
    "OPENAI_MAX_TRIES",
    "OPENAI_REQUESTS_PER_MINUTE",
    "OPENAI_TOKENS_PER_MINUTE",
    "OPENAI_PRICE_PROMPT",
    "OPENAI_PRICE_CACHED",
    "OPENAI_PRICE_COMPLETION",
    "BUDGET_USD",
    "OUTPUT_DIR",
    "LOG_LEVEL",
)
"""The options that say where and how fast a run is computed, what it may cost and how long it goes on.

All others alter what is computed: a run that was started with one value cannot go on with another.
"""


def changed(a: Settings, b: Settings) -> list[str]:
    """The names, without CONFIG_, of the options that differ between `a` and `b`, in the order of Kconfig."""
    return [option.name for option in options() if getattr(a, option.field) != getattr(b, option.field)]
