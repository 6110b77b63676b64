"""`Settings`: every option of Kconfig as a typed field, annotated with what it may hold.

The one error of this package.

Which settings may change between the stop of a run and its resumption.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from orchestrator.settings.rules import Rule, file, real, text, whole

_SEED = 2**31 - 1
_DAY = 86_400
_DOLLARS = "US dollars a million tokens"


@dataclass(frozen=True)
class Settings:
    """What one run was told, checked: a field for each CONFIG_ option, its name in lower case.

    Made by `load_settings` (genetic_evolution_plan.md section 2, evolution_plan.md section 3).  Kconfig says what each
    option is for; here stand its type, its bounds and its unit.  Prompts hold real newlines.  `tournament_size` and
    `truncation_top_k` are -1 when the selection does not need them and nobody set them.
    """

    # Farm
    farm: Literal["embedded", "external"]
    redis_url: str
    farm_dir: Path
    gpu_slots: Annotated[int, whole(1, 64, "tasks")]
    openai_workers: Annotated[int, whole(1, 64, "processes")]
    openai_threads: Annotated[int, whole(1, 256, "threads a process")]
    cpu_workers: Annotated[int, whole(1, 256, "processes")]
    embedded_faults: str
    embedded_dtype: Literal["auto", "float32", "bfloat16"]
    stage_timeout_s: Annotated[int, whole(1, _DAY, "seconds")]
    retry_wait_s: Annotated[int, whole(0, 7 * _DAY, "seconds")]

    # Data
    financebench_path: Annotated[Path, file()]
    financebench_pool_indices: Annotated[str, text(filled=True)]
    validation_indices: str

    # Target
    target_model: Annotated[str, text(filled=True)]
    target_engine: Literal["embedded", "sglang"]
    device: Literal["cpu", "cuda"]
    sglang_lifecycle: Literal["resident", "restart"]
    sglang_url: str
    sglang_api_key_env: Annotated[str, text(filled=True)]
    sglang_command: Annotated[str, text(filled=True)]
    sglang_args: str
    sglang_ready_timeout_s: Annotated[int, whole(1, 7200, "seconds")]
    target_timeout_s: Annotated[int, whole(1, _DAY, "seconds")]
    target_concurrency: Annotated[int, whole(1, 4096, "requests")]
    target_system_prompt: str
    target_prompt_template: Annotated[str, text(filled=True)]
    target_max_new_tokens: Annotated[int, whole(1, 131_072, "tokens")]
    target_temperature: Annotated[float, real(0, 2, "none")]
    target_top_p: Annotated[float, real(0, 1, "none", above=True)]
    target_seed: Annotated[int, whole(0, _SEED, "none")]

    # Clusters
    clusters_dir: Path
    embedder_model: Annotated[str, text(filled=True)]
    kmeans_clusters: Annotated[int, whole(1, 1000, "clusters")]
    pca_components: Annotated[int, whole(1, 4096, "components")]
    cluster_seed: Annotated[int, whole(0, _SEED, "none")]
    embed_batch_size: Annotated[int, whole(1, 65_536, "tokens a batch")]
    clusters_from: Annotated[Path | None, file()]
    cluster_descriptions_path: Annotated[Path | None, file()]

    # Genetic evolution: no defaults
    lambda_shortness: Annotated[float, real(0, 1, "none", unset=True)]
    lambda_correctness: Annotated[float, real(0, 1, "none", unset=True)]
    initial_deltas_path: Annotated[Path, file(unset=True)]
    population_size: Annotated[int, whole(2, 10_000, "individuals", unset=True)]
    ngen: Annotated[int, whole(1, 1_000_000, "generations", unset=True)]
    cxpb: Annotated[float, real(0, 1, "none", unset=True)]
    mutpb: Annotated[float, real(0, 1, "none", unset=True)]
    elitism_size: Annotated[int, whole(0, 9999, "individuals", unset=True)]
    selection: Annotated[Literal["tournament", "truncation"], text(unset=True)]
    tournament_size: Annotated[
        int, whole(2, 10_000, "individuals", unset=True, needed_when=("selection", "tournament"))
    ]
    truncation_top_k: Annotated[
        int, whole(2, 10_000, "individuals", unset=True, needed_when=("selection", "truncation"))
    ]

    # Evolution, other
    seed: Annotated[int, whole(0, _SEED, "none")]
    shortness_scale: Annotated[float, real(0, 1e9, "tokens", above=True)]
    evaluation_cache: bool

    # Reflector
    reflector_model: Annotated[str, text(filled=True)]
    reflector_temperature: Annotated[float, real(0, 2, "none")]
    reflector_top_p: Annotated[float, real(0, 1, "none", above=True)]
    reflector_max_completion_tokens: Annotated[int, whole(1, 131_072, "tokens")]
    reflector_seed: Annotated[int, whole(0, _SEED, "none")]

    # Judge
    judge_model: Annotated[str, text(filled=True)]
    judge_tolerance: Annotated[float, real(0, 1, "none")]
    judge_forgiving: bool
    judge_temperature: Annotated[float, real(0, 2, "none")]
    judge_top_p: Annotated[float, real(0, 1, "none", above=True)]
    judge_max_completion_tokens: Annotated[int, whole(1, 131_072, "tokens")]
    judge_seed: Annotated[int, whole(0, _SEED, "none")]
    judge_concurrency: Annotated[int, whole(1, 1024, "calls")]

    # OpenAI
    openai_base_url: str
    openai_api_key_env: Annotated[str, text(filled=True)]
    openai_timeout_s: Annotated[int, whole(1, _DAY, "seconds")]
    openai_max_tries: Annotated[int, whole(1, 100, "tries")]
    openai_requests_per_minute: Annotated[int, whole(1, 10_000_000, "requests a minute")]
    openai_tokens_per_minute: Annotated[int, whole(1, 2_000_000_000, "tokens a minute")]
    openai_price_prompt: Annotated[float, real(0, 1e6, _DOLLARS)]
    openai_price_cached: Annotated[float, real(0, 1e6, _DOLLARS)]
    openai_price_completion: Annotated[float, real(0, 1e6, _DOLLARS)]
    budget_usd: Annotated[float, real(0, 1e9, "US dollars")]

    # Output
    output_dir: Path
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]


@dataclass(frozen=True)
class Option:
    """One field of `Settings`: the option's name without CONFIG_, its type, and what it may hold."""

    name: str
    kind: Any
    rule: Rule

    @property
    def field(self) -> str:
        return self.name.lower()


@functools.cache
def options() -> tuple[Option, ...]:
    """Every option, in the order of the fields."""
    kinds = get_type_hints(Settings, include_extras=True)
    return tuple(_option(field.name.upper(), kinds[field.name]) for field in dataclasses.fields(Settings))


def _option(name: str, annotated: Any) -> Option:
    kind, rule = get_args(annotated) if get_origin(annotated) is Annotated else (annotated, Rule())
    return Option(name, kind, rule)


class SettingsError(Exception):
    """The settings cannot be used.  `problems` has one line an option, each with the option's name, in their order."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


RESUMABLE = (
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


def changed_options(a: Settings, b: Settings) -> list[str]:
    """The names, without CONFIG_, of the options that differ between `a` and `b`, in the order of Kconfig."""
    return [option.name for option in options() if getattr(a, option.field) != getattr(b, option.field)]
