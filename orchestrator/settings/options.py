"""`Settings`: every option of Kconfig as a typed field, and how the texts of the options become values."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from orchestrator.settings.inputs import FORK, SHIPPED, ZERO
from orchestrator.settings.value_checks import (
    EMBEDDED,
    EXISTING,
    EXTERNAL,
    FILLED,
    FOLDER,
    call_parameters,
    callback_names,
    column_names,
    farm_address,
    file_or,
    http_address,
    judge_name,
    model_name,
    no_password,
    optional,
    placeholders,
    price_list,
    row_selection,
    server_address,
    server_arguments,
    tracker_names,
    variable_name,
)
from tasks.common.validation import OPTION_CHARACTERS, fault_of
from tasks.records import ClusteredBy

_DECODED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class SettingsError(Exception):
    """The settings cannot be used.  `problems` has one line for each wrong option, which begins with its name."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True)
class Settings:
    """The checked settings of a run: one field for each CONFIG_ option, its name in lower case.

    Made by `load_settings`.  Kconfig describes each option and has the range of whole numbers; other bounds are here.
    Prompts hold real newlines.  `tournament_size` and `truncation_top_k` are -1 when they are not set, which is
    allowed when the selection does not need them.
    """

    # Farm
    farm: Annotated[str, FILLED, AfterValidator(farm_address), no_password("WHETSTONE_REDIS_PASSWORD")]
    farm_dir: Annotated[Path, FOLDER]

    # Data
    data_path: Annotated[Path, EXISTING]
    data_columns: Annotated[str, AfterValidator(column_names)]
    training: Annotated[str, FILLED, AfterValidator(row_selection)]
    validation: Annotated[str, AfterValidator(row_selection)]
    test: Annotated[str, AfterValidator(row_selection)]
    too_long: Literal["error", "drop", "truncate"]

    # Target
    target_model: Annotated[str, FILLED, AfterValidator(model_name)]
    device: Literal["cpu", "cuda"]
    sglang_lifecycle: Literal["resident", "restart"]
    sglang_url: Annotated[str, optional(server_address), no_password("the variable SGLANG_API_KEY")]
    sglang_command: Annotated[str, FILLED, AfterValidator(server_arguments)]
    sglang_args: Annotated[str, AfterValidator(server_arguments)]
    target_concurrency: int
    target_system_prompt: str
    target_prompt_template: Annotated[str, FILLED, placeholders("context", "query")]
    target_max_new_tokens: int
    whole: bool
    target_temperature: Annotated[float, Field(ge=0, le=2)]

    # Clusters
    clusters_by: ClusteredBy
    embedder_model: Annotated[str, FILLED, AfterValidator(model_name)]
    clusters: int
    clusters_from: Annotated[Path, file_or()] | None
    cluster_descriptions_path: Annotated[Path, file_or()] | None

    # Genetic evolution: no defaults
    lambda_shortness: Annotated[float, Field(ge=0, le=1)]
    lambda_correctness: Annotated[float, Field(ge=0, le=1)]
    initial_deltas_path: Annotated[Path, file_or(ZERO, FORK)]
    population_size: Annotated[int, Field(ge=2)]
    ngen: Annotated[int, Field(ge=1)]
    cxpb: Annotated[float, Field(ge=0, le=1)]
    mutpb: Annotated[float, Field(ge=0, le=1)]
    elitism_size: Annotated[int, Field(ge=0)]
    selection: Literal["tournament", "truncation"]
    tournament_size: int
    truncation_top_k: int

    # Systems and the choice
    prompts_path: Annotated[Path, file_or(SHIPPED)] | None
    goal: Literal["shortest", "most_right"]
    margin: Annotated[float, Field(gt=0, le=0.49)]

    # Optimiser
    optimiser: Literal["reflective", "cma", "lineage", "random"]
    delta_bound: Annotated[float, Field(gt=0, le=100)]

    # Evolution, other
    seed: int
    shortness_scale: Annotated[float, Field(gt=0, le=1e9)]
    objective: Literal["specification", "constrained"]
    evaluation_cache: bool

    # Reflector
    reflector_model: Annotated[str, FILLED]
    reflector_temperature: Annotated[float, Field(ge=0, le=2)] | None
    reflector_max_completion_tokens: int

    # Judge
    judge: Annotated[str, FILLED, AfterValidator(judge_name)]
    judge_model: Annotated[str, FILLED]
    judge_tolerance: Annotated[float, Field(ge=0, le=1)]
    judge_forgiving: bool
    judge_max_completion_tokens: int

    # OpenAI
    openai_base_url: Annotated[str, optional(http_address), no_password("the variable that OPENAI_API_KEY_ENV names")]
    openai_api_key_env: Annotated[str, FILLED, AfterValidator(variable_name)]
    openai_parameters: Annotated[str, AfterValidator(call_parameters)]
    openai_context_tokens: int
    openai_requests_per_minute: int
    openai_tokens_per_minute: int
    openai_prices: Annotated[str, optional(price_list)]
    budget_usd: Annotated[float, Field(ge=0, le=1e9)]

    # Output
    output_dir: Annotated[Path, FOLDER]
    trackers: Annotated[str, optional(tracker_names)]
    callbacks: Annotated[str, optional(callback_names)]

    @property
    def is_embedded(self) -> bool:
        """Whether a farm is started on this machine."""
        return self.farm == EMBEDDED

    @property
    def redis_url(self) -> str:
        """The address of an external farm; "" for that of the environment."""
        return "" if self.farm in (EMBEDDED, EXTERNAL) else self.farm


@dataclass(frozen=True)
class Option:
    """One field of `Settings`.  `name` is without CONFIG_, `kind` is the type without its annotations."""

    name: str
    kind: Any

    @property
    def field(self) -> str:
        return self.name.lower()


@functools.cache
def options() -> tuple[Option, ...]:
    """Every option, in the order of the fields."""
    kinds = get_type_hints(Settings)
    return tuple(Option(field.name.upper(), kinds[field.name]) for field in dataclasses.fields(Settings))


@functools.cache
def _adapter() -> TypeAdapter[Any]:
    """Of any of the fields, so that those that are sound have values beside those that are not."""
    hints = get_type_hints(Settings, include_extras=True)
    fields: Any = TypedDict("fields", hints, total=False)  # type: ignore[misc]  # a type checker wants a literal
    setattr(fields, "__pydantic_config__", ConfigDict(allow_inf_nan=False))  # noqa: B010  # where pydantic looks
    return TypeAdapter(fields)


def read_values(typed: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The values of options whose texts a person has typed, by field; and what is wrong with others, by name."""
    given: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for option in options():
        text = typed.get(option.name)
        if text is None:
            continue
        if len(text) > OPTION_CHARACTERS:
            problems[option.name] = f"is longer than {OPTION_CHARACTERS:,} characters"
        elif text.strip() or option.kind is str:
            given[option.field] = decoded(text)
        elif type(None) in get_args(option.kind):
            given[option.field] = None
        else:
            problems[option.name] = "is empty"
    try:
        return _adapter().validate_python(given), problems
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            field = str(detail["loc"][0])
            given.pop(field, None)
            problems.setdefault(field.upper(), fault_of(detail))
        return _adapter().validate_python(given), problems


def decoded(typed: str) -> str:
    r"""The string that `typed` stands for; an unknown escape such as ``\d`` stays as it is."""
    return _ESCAPE.sub(lambda match: _DECODED.get(match[1], match[0]), typed)


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
(orchestrator/evolve/resume.py).
"""


def changed_options(a: Settings, b: Settings) -> list[str]:
    """The names, without CONFIG_, of the options that differ between `a` and `b`, in the order of Kconfig."""
    return [option.name for option in options() if getattr(a, option.field) != getattr(b, option.field)]
