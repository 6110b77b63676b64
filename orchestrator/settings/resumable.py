"""What was changed between two settings of a run, and which options may be."""

from __future__ import annotations

from orchestrator.settings.options import Settings, options

RESUMABLE = (
    "FARM",
    "FARM_DIR",
    "SGLANG_LIFECYCLE",
    "SGLANG_URL",
    "SGLANG_COMMAND",
    "TARGET_CONCURRENCY",
    "NGEN",
    "EVALUATION_CACHE",
    "REFLECTOR_MODEL",
    "REFLECTOR_TEMPERATURE",
    "REFLECTOR_MAX_COMPLETION_TOKENS",
    "OPENAI_BASE_URL",
    "OPENAI_API_KEY_ENV",
    "OPENAI_PARAMETERS",
    "OPENAI_CONTEXT_TOKENS",
    "OPENAI_REQUESTS_PER_MINUTE",
    "OPENAI_TOKENS_PER_MINUTE",
    "OPENAI_PRICES",
    "BUDGET_USD",
    "OUTPUT_DIR",
    "TRACKERS",
    "CALLBACKS",
)
"""The options that may change before a run is resumed: where, how fast, how long and at what cost it is computed, and
which model reflects.

With any other option changed the run would be another one.  Each change is recorded with its generation
(orchestrator/evolve/changes.py).
"""


def changed_options(a: Settings, b: Settings) -> list[str]:
    """The names, without CONFIG_, of the options that differ between `a` and `b`, in the order of Kconfig."""
    return [option.name for option in options() if getattr(a, option.field) != getattr(b, option.field)]
