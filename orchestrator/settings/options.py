"""`Settings`: every option of Kconfig as a typed field, and which options may change before a run is resumed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import AfterValidator

from orchestrator.settings.fields import (
    EMPTY_IS_NONE,
    FolderPath,
    Rule,
    Switch,
    existing_file,
    existing_path,
    float_range,
    int_range,
    string,
)
from orchestrator.settings.references import BEST_VECTOR, FORK, SHIPPED, ZERO
from orchestrator.settings.value_checks import (
    callback_names,
    faults,
    http_address,
    judge_name,
    model_name,
    no_password,
    optional,
    placeholders,
    redis_address,
    server_address,
    server_arguments,
    tracker_names,
    variable_name,
)
from tasks.models import ClusteredBy, EngineName

_SEED = 2**31 - 1
_DAY = 86_400
_DOLLARS = "US dollars a million tokens"


@dataclass(frozen=True)
class Settings:
    """The checked settings of a run: one field for each CONFIG_ option, its name in lower case.

    Made by `load_settings`.  Kconfig describes each option; the type, the bounds and the unit are here.  Prompts hold
    real newlines.  `tournament_size` and `truncation_top_k` are -1 when they are not set, which is allowed when the
    selection does not need them.
    """

    # Farm
    farm: Literal["embedded", "external"]
    redis_url: Annotated[str, optional(redis_address), no_password("WHETSTONE_REDIS_PASSWORD")]
    farm_dir: FolderPath
    gpu_slots: Annotated[int, int_range(1, 256, "tasks")]
    openai_workers: Annotated[int, int_range(1, 64, "processes")]
    openai_threads: Annotated[int, int_range(1, 256, "threads a process")]
    cpu_workers: Annotated[int, int_range(1, 256, "processes")]
    store_mb: Annotated[int, int_range(64, 1048576, "MB")]
    embedded_endpoint: Literal["rules", "openai"]
    embedded_faults: Annotated[str, optional(faults)]
    embedded_dtype: Literal["auto", "float32", "bfloat16"]
    stage_timeout_s: Annotated[int, int_range(1, _DAY, "seconds")]
    retry_wait_s: Annotated[int, int_range(0, 7 * _DAY, "seconds")]

    # Data
    data_path: Annotated[Path, existing_path()]
    data_format: Literal["auto", "financebench", "jsonl", "csv", "parquet", "datasets"]
    question_column: Annotated[str, string()]
    answer_column: Annotated[str, string()]
    context_column: str
    id_column: str
    split_column: str
    training_split: str
    training_indices: Annotated[str, string()]
    validation_split: str
    validation_indices: str
    test_split: str
    test_indices: str
    too_long: Literal["error", "drop", "truncate"]

    # Target
    target_model: Annotated[str, string(), AfterValidator(model_name)]
    target_engine: EngineName
    device: Literal["cpu", "cuda"]
    sglang_lifecycle: Literal["resident", "restart"]
    sglang_url: Annotated[str, optional(server_address), no_password("the variable that SGLANG_API_KEY_ENV names")]
    sglang_api_key_env: Annotated[str, string(), AfterValidator(variable_name)]
    sglang_command: Annotated[str, string(), AfterValidator(server_arguments)]
    sglang_args: Annotated[str, AfterValidator(server_arguments)]
    sglang_ready_timeout_s: Annotated[int, int_range(1, 7200, "seconds")]
    target_timeout_s: Annotated[int, int_range(1, _DAY, "seconds")]
    target_concurrency: Annotated[int, int_range(1, 8192, "requests")]
    target_system_prompt: str
    target_prompt_template: Annotated[str, string(), placeholders("context", "query")]
    target_max_new_tokens: Annotated[int, int_range(1, 131_072, "tokens")]
    steered_min_new_tokens: Annotated[int, int_range(0, 131_072, "tokens")]
    target_temperature: Annotated[float, float_range(0, 2, "none")]
    target_top_p: Annotated[float, float_range(0, 1, "none", above=True)]
    target_seed: Annotated[int, int_range(0, _SEED, "none")]
    samples: Annotated[int, int_range(1, 1000, "answers a question")]

    # Clusters
    clusters_dir: FolderPath
    clusters_by: ClusteredBy
    embedder_model: Annotated[str, string(), AfterValidator(model_name)]
    kmeans_clusters: Annotated[int, int_range(1, 1000, "clusters")]
    pca_components: Annotated[int, int_range(1, 4096, "components")]
    cluster_seed: Annotated[int, int_range(0, _SEED, "none")]
    embed_batch_size: Annotated[int, int_range(1, 65_536, "tokens a batch")]
    clusters_from: Annotated[Path | None, existing_file()]
    waste_buckets: Annotated[int, int_range(1, 1000, "clusters")]
    clusters_waste_from: Annotated[Path | None, existing_file()]
    cluster_descriptions_path: Annotated[Path | None, existing_file()]

    # Genetic evolution: no defaults
    lambda_shortness: Annotated[float, float_range(0, 1, "none", unset=True)]
    lambda_correctness: Annotated[float, float_range(0, 1, "none", unset=True)]
    initial_deltas_path: Annotated[Path, existing_file(unset=True, or_words=(ZERO, BEST_VECTOR, FORK))]
    population_size: Annotated[int, int_range(2, 10_000, "individuals", unset=True)]
    ngen: Annotated[int, int_range(1, 1_000_000, "generations", unset=True)]
    cxpb: Annotated[float, float_range(0, 1, "none", unset=True)]
    mutpb: Annotated[float, float_range(0, 1, "none", unset=True)]
    elitism_size: Annotated[int, int_range(0, 9999, "individuals", unset=True)]
    selection: Annotated[Literal["tournament", "truncation"], string(unset=True)]
    tournament_size: Annotated[
        int, int_range(2, 10_000, "individuals", unset=True, needed_when=("selection", "tournament"))
    ]
    truncation_top_k: Annotated[
        int, int_range(2, 10_000, "individuals", unset=True, needed_when=("selection", "truncation"))
    ]

    # Baselines
    prompts_path: Annotated[Path | None, existing_file(or_words=(SHIPPED,))]

    # Optimiser
    optimiser: Literal["reflective", "cma", "lineage", "random"]
    delta_bound: Annotated[float, float_range(0, 100, "logits", above=True)]
    step_size: Annotated[float, float_range(0, 100, "logits", above=True)]

    # Evolution, other
    seed: Annotated[int, int_range(0, _SEED, "none")]
    shortness_scale: Annotated[float, float_range(0, 1e9, "tokens", above=True)]
    objective: Literal["specification", "constrained"]
    margin: Annotated[float, float_range(0, 1, "none")]
    evaluation_cache: Switch
    cache_days: Annotated[int, int_range(1, 3650, "days")]

    # Reflector
    reflector_model: Annotated[str, string()]
    reflector_temperature: Annotated[float | None, float_range(0, 2, "none"), EMPTY_IS_NONE]
    reflector_top_p: Annotated[float | None, float_range(0, 1, "none", above=True), EMPTY_IS_NONE]
    reflector_max_completion_tokens: Annotated[int, int_range(1, 131_072, "tokens")]
    reflector_context_tokens: Annotated[int, int_range(0, 100_000_000, "tokens")]
    reflector_seed: Annotated[int | None, int_range(0, _SEED, "none"), EMPTY_IS_NONE]

    # Judge
    judge: Annotated[str, string(), AfterValidator(judge_name)]
    judge_model: Annotated[str, string()]
    judge_tolerance: Annotated[float, float_range(0, 1, "none")]
    judge_forgiving: Switch
    judge_temperature: Annotated[float | None, float_range(0, 2, "none"), EMPTY_IS_NONE]
    judge_top_p: Annotated[float | None, float_range(0, 1, "none", above=True), EMPTY_IS_NONE]
    judge_max_completion_tokens: Annotated[int, int_range(1, 131_072, "tokens")]
    judge_context_tokens: Annotated[int, int_range(0, 100_000_000, "tokens")]
    judge_seed: Annotated[int | None, int_range(0, _SEED, "none"), EMPTY_IS_NONE]
    judge_concurrency: Annotated[int, int_range(1, 1024, "calls")]

    # OpenAI
    openai_base_url: Annotated[str, optional(http_address), no_password("the variable that OPENAI_API_KEY_ENV names")]
    openai_api_key_env: Annotated[str, string(), AfterValidator(variable_name)]
    openai_timeout_s: Annotated[int, int_range(1, _DAY, "seconds")]
    openai_max_tries: Annotated[int, int_range(1, 100, "tries")]
    openai_requests_per_minute: Annotated[int, int_range(1, 10_000_000, "requests a minute")]
    openai_tokens_per_minute: Annotated[int, int_range(1, 2_000_000_000, "tokens a minute")]
    openai_price_prompt: Annotated[float | None, float_range(0, 1e6, _DOLLARS), EMPTY_IS_NONE]
    openai_price_cached: Annotated[float | None, float_range(0, 1e6, _DOLLARS), EMPTY_IS_NONE]
    openai_price_completion: Annotated[float | None, float_range(0, 1e6, _DOLLARS), EMPTY_IS_NONE]
    budget_usd: Annotated[float, float_range(0, 1e9, "US dollars")]

    # Output
    output_dir: FolderPath
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
    trackers: Annotated[str, optional(tracker_names)]
    callbacks: Annotated[str, optional(callback_names)]


@dataclass(frozen=True)
class Option:
    """One field of `Settings`.  `name` is without CONFIG_, `kind` is the type without its annotations."""

    name: str
    kind: Any
    rule: Rule
    annotation: Any

    @property
    def field(self) -> str:
        return self.name.lower()


@functools.cache
def options() -> tuple[Option, ...]:
    """Every option, in the order of the fields."""
    kinds = get_type_hints(Settings, include_extras=True)
    return tuple(_option(field.name.upper(), kinds[field.name]) for field in dataclasses.fields(Settings))


def _option(name: str, annotated: Any) -> Option:
    kind, *metadata = get_args(annotated) if get_origin(annotated) is Annotated else (annotated,)
    rule = next((one for one in metadata if isinstance(one, Rule)), Rule())
    return Option(name, kind, rule, annotated)


class SettingsError(Exception):
    """The settings cannot be used.  `problems` has one line for each wrong option, which begins with its name."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
