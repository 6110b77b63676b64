"""What was changed between two settings of a run, and which options may be."""

from __future__ import annotations

from orchestrator.settings.options import Settings, options

RESUMABLE = (
    "FARM",
    "REDIS_URL",
    "FARM_DIR",
    "GPU_SLOTS",
    "OPENAI_WORKERS",
    "OPENAI_THREADS",
    "CPU_WORKERS",
    "STORE_MB",
    "EMBEDDED_ENDPOINT",
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
    "CACHE_DAYS",
    "REFLECTOR_MODEL",
    "REFLECTOR_TEMPERATURE",
    "REFLECTOR_TOP_P",
    "REFLECTOR_MAX_COMPLETION_TOKENS",
    "REFLECTOR_CONTEXT_TOKENS",
    "REFLECTOR_SEED",
    "JUDGE_MODEL",
    "JUDGE_TEMPERATURE",
    "JUDGE_TOP_P",
    "JUDGE_MAX_COMPLETION_TOKENS",
    "JUDGE_CONTEXT_TOKENS",
    "JUDGE_SEED",
    "JUDGE_CONCURRENCY",
    "OPENAI_BASE_URL",
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
    "TRACKERS",
    "CALLBACKS",
)
"""The options that may change before a run is resumed: where, how fast, how long and at what cost it is computed, and
which models reflect and judge.

With any other option changed the run would be another one.  Each change is recorded with its generation, and what was
judged by another judge is judged again (orchestrator/runs/changes.py).
"""


def changed_options(a: Settings, b: Settings) -> list[str]:
    """The names, without CONFIG_, of the options that differ between `a` and `b`, in the order of Kconfig."""
    return [option.name for option in options() if getattr(a, option.field) != getattr(b, option.field)]
