"""`Settings`: every option of Kconfig as a typed field, and how the text of an option becomes its value."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import AfterValidator

from orchestrator.settings.kconfig import decoded, symbols
from orchestrator.settings.references import FORK, SHIPPED, ZERO
from orchestrator.settings.value_checks import (
    EMBEDDED,
    EXISTING,
    EXTERNAL,
    FILLED,
    above,
    between,
    call_parameters,
    callback_names,
    column_names,
    farm_address,
    file_or,
    http_address,
    judge_name,
    least,
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
from tasks.common.text import quote
from tasks.common.validation import OPTION_CHARACTERS
from tasks.records import ClusteredBy

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


@dataclass(frozen=True)
class Settings:
    """The checked settings of a run: one field for each CONFIG_ option, its name in lower case.

    Made by `load_settings`.  Kconfig describes each option and has the range of whole numbers; other bounds are here.
    Prompts hold real newlines.  `tournament_size` and `truncation_top_k` are -1 when they are not set, which is
    allowed when the selection does not need them.
    """

    # Farm
    farm: Annotated[str, FILLED, AfterValidator(farm_address), no_password("WHETSTONE_REDIS_PASSWORD")]
    farm_dir: Path

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
    target_temperature: Annotated[float, between(0, 2)]

    # Clusters
    clusters_by: ClusteredBy
    embedder_model: Annotated[str, FILLED, AfterValidator(model_name)]
    clusters: int
    clusters_from: Annotated[Path | None, file_or()]
    cluster_descriptions_path: Annotated[Path | None, file_or()]

    # Genetic evolution: no defaults
    lambda_shortness: Annotated[float, between(0, 1)]
    lambda_correctness: Annotated[float, between(0, 1)]
    initial_deltas_path: Annotated[Path, file_or(ZERO, FORK)]
    population_size: Annotated[int, least(2)]
    ngen: Annotated[int, least(1)]
    cxpb: Annotated[float, between(0, 1)]
    mutpb: Annotated[float, between(0, 1)]
    elitism_size: Annotated[int, least(0)]
    selection: Literal["tournament", "truncation"]
    tournament_size: int
    truncation_top_k: int

    # Systems and the choice
    prompts_path: Annotated[Path | None, file_or(SHIPPED)]
    goal: Literal["shortest", "most_right"]
    margin: Annotated[float, above(0, 0.49)]

    # Optimiser
    optimiser: Literal["reflective", "cma", "lineage", "random"]
    delta_bound: Annotated[float, above(0, 100)]

    # Evolution, other
    seed: int
    shortness_scale: Annotated[float, above(0, 1e9)]
    objective: Literal["specification", "constrained"]
    evaluation_cache: bool

    # Reflector
    reflector_model: Annotated[str, FILLED]
    reflector_temperature: Annotated[float | None, between(0, 2)]
    reflector_max_completion_tokens: int

    # Judge
    judge: Annotated[str, FILLED, AfterValidator(judge_name)]
    judge_model: Annotated[str, FILLED]
    judge_tolerance: Annotated[float, between(0, 1)]
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
    budget_usd: Annotated[float, between(0, 1e9)]

    # Output
    output_dir: Path
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
    checks: tuple[AfterValidator, ...]

    @property
    def field(self) -> str:
        return self.name.lower()

    def read(self, typed: str) -> Any:
        """The value of the text that a person types into menuconfig."""
        if len(typed) > OPTION_CHARACTERS:
            raise ValueError(f"is longer than {OPTION_CHARACTERS:,} characters")
        value = self._parse(typed)
        for check in self.checks if value is not None else ():
            value = check.func(value)  # type: ignore[call-arg]  # none of them takes pydantic's second argument
        return value

    def _parse(self, typed: str) -> Any:
        optional = type(None) in get_args(self.kind)
        kind = get_args(self.kind)[0] if optional else self.kind
        if not typed.strip() and kind is not str:
            if optional:
                return None
            raise ValueError("is empty")
        if kind is bool:
            if typed not in ("y", "n"):
                raise ValueError(f"{quote(typed)} is neither y nor n")
            return typed == "y"
        if kind is int:
            return self._whole(typed)
        if kind is float:
            if not _FLOAT.fullmatch(typed) or not isfinite(float(typed)):
                raise ValueError(f"{quote(typed)} is not a finite number")
            return float(typed)
        if get_origin(kind) is Literal and typed not in get_args(kind):
            raise ValueError(f"{quote(typed)} is not one of: {', '.join(get_args(kind))}")
        return self._text(kind, decoded(typed))

    def _whole(self, typed: str) -> int:
        if not _WHOLE.fullmatch(typed):
            raise ValueError(f"{quote(typed)} is not a whole number")
        for low, high, _ in symbols()[self.name].ranges:
            if not int(low.str_value) <= int(typed) <= int(high.str_value):
                raise ValueError(f"{quote(typed)} is out of range ({low.str_value} to {high.str_value})")
        return int(typed)

    @staticmethod
    def _text(kind: Any, text: str) -> Any:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{quote(text)} is not UTF-8") from None
        if kind is Path and "\0" in text:
            raise ValueError(f"{quote(text)} is not a path")
        return Path(text) if kind is Path else text


@functools.cache
def options() -> tuple[Option, ...]:
    """Every option, in the order of the fields."""
    kinds = get_type_hints(Settings, include_extras=True)
    return tuple(_option(field.name.upper(), kinds[field.name]) for field in dataclasses.fields(Settings))


def _option(name: str, annotated: Any) -> Option:
    kind, *checks = get_args(annotated) if get_origin(annotated) is Annotated else (annotated,)
    return Option(name, kind, tuple(checks))


class SettingsError(Exception):
    """The settings cannot be used.  `problems` has one line for each wrong option, which begins with its name."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
