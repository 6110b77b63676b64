"""`Settings`: every option of Kconfig as a typed field, and the types of their values.

A type's check returns the value, or raises ValueError with a message that continues the option's name.
"""

from __future__ import annotations

import dataclasses
import functools
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field
from typing_extensions import TypedDict

from orchestrator.settings.inputs import FORK, SHIPPED, ZERO, parse_selection
from tasks.common.files import unix_path
from tasks.common.named import NAME
from tasks.common.text import missing_placeholders, quote
from tasks.common.validation import parse_json
from tasks.questions import parse_columns
from tasks.records import ClusteredBy
from tasks.store.address import password_in

EMBEDDED = "embedded"
"""In place of a model's name or an endpoint's address: those of the embedded farm."""
EXTERNAL = "external"
"""In place of a farm's address: the one in the environment."""

OWN_ARGUMENTS = {
    "--model-path": "is TARGET_MODEL",
    "--host": "is set by Whetstone: a server that a worker starts listens on a Unix socket",
    "--port": "is set by Whetstone: a server that a worker starts listens on a Unix socket",
    "--api-key": "is set by Whetstone: a server that a worker starts gets a key of its own",
    "--tokenizer-worker-num": "must be 1: SGLang checks no key with more, and listens on a port",
    "--enable-http2": "listens on a port: a server that a worker starts listens on a Unix socket",
    "--config": "is set by Whetstone: write the contents of the file as arguments",
    "--speculative-algorithm": "samples without the deltas",
}


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


def _folder(path: Path) -> Path:
    if "\0" in str(path):
        raise ValueError(f"{quote(str(path))} is not a path")
    return path


def _file(path: Path) -> Path:
    try:
        if not path.is_file():
            raise ValueError(f"{quote(str(path))} {'is not a file' if path.exists() else 'does not exist'}")
    except OSError as error:  # for example a name that is too long
        raise ValueError(f"{quote(str(path))} is not a file: {error.strerror}") from None
    return path


FILLED = AfterValidator(_filled)
"""A text that is not blank."""
FOLDER = AfterValidator(_folder)
"""The path of a folder, which need not exist."""
EXISTING = AfterValidator(lambda path: path if path.is_dir() else _file(path))
"""The path of a file or a folder that exists."""


def file_or(*words: Path) -> AfterValidator:
    return AfterValidator(lambda path: path if path in words else _file(path))


def placeholders(*names: str) -> AfterValidator:
    def check(template: str) -> str:
        if missing := missing_placeholders(template, names):
            raise ValueError(f"lacks the placeholder {' and '.join(missing)}")
        return template

    return AfterValidator(check)


def optional(check: Callable[[str], str]) -> AfterValidator:
    return AfterValidator(lambda text: check(text) if text else text)


def no_password(instead: str) -> AfterValidator:
    """An address without a password; `instead` is where the password belongs."""

    def check(url: str) -> str:
        if password_in(url):
            raise ValueError(f"contains a password, and settings are stored with the run; put it into {instead}")
        return url

    return AfterValidator(check)


def _address(url: str, schemes: Sequence[str], form: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port
        is_sound = parts.scheme in schemes and bool(parts.hostname or (parts.path and "http" not in parts.scheme))
    except ValueError:
        is_sound = False
    if not is_sound:
        before, at, host = url.rpartition("@")
        shown = before.partition("://")[0] + "://***@" + host if at else url
        raise ValueError(f"{quote(shown)} is not an address of the form {form}")
    return url


def http_address(url: str) -> str:
    return _address(url, ("http", "https"), "http://HOST:PORT")


def http_or_embedded(url: str) -> str:
    return url if url == EMBEDDED else http_address(url)


def server_address(url: str) -> str:
    """The address of a target server, which may listen on a Unix socket."""
    path = unix_path(url)
    if path is None:
        return http_address(url)
    if not path.startswith("/"):
        raise ValueError(f"{quote(url)} is not an address of the form unix:/PATH/OF/A/SOCKET")
    return url


def redis_address(url: str) -> str:
    return _address(url, ("redis", "rediss", "unix"), "redis://HOST:PORT/DATABASE")


def farm_address(text: str) -> str:
    return text if text in (EMBEDDED, EXTERNAL) else redis_address(text)


def variable_name(name: str) -> str:
    """The name of an environment variable; the error does not repeat what may be a secret."""
    if not (name.isascii() and name.isidentifier()):
        raise ValueError(
            "is not the name of an environment variable; the key belongs into the environment, and its name here"
        )
    return name


def model_name(model: str) -> str:
    """A model's id, or a folder that exists when the text is plainly a path."""
    if model.startswith(("/", "./", "../")) and not Path(model).is_dir():
        raise ValueError(f"{quote(model)} is not a folder")
    return model


def code_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ValueError(f"{quote(name)} is neither a name nor of the form module:function or file.py:function")
    return name


def callback_names(text: str) -> str:
    for name in text.split(","):
        code_name(name.strip())
    return text


def server_arguments(text: str) -> str:
    """A command or arguments for SGLang: can be split as a shell would, without arguments that Whetstone adds."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"cannot be split as a shell would: {error}") from None
    for word in words:
        if (name := word.partition("=")[0]) in OWN_ARGUMENTS:
            raise ValueError(f"{name} {OWN_ARGUMENTS[name]}")
    return text


class CallParameters(TypedDict, total=False):
    """What is sent with each call of a language model, where it is there."""

    temperature: Annotated[float, Field(ge=0, le=2)]
    top_p: Annotated[float, Field(gt=0, le=1)]
    seed: Annotated[int, Field(ge=0, lt=2**31)]


CallParameters.__pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[attr-defined]  # read by pydantic, unknown to TypedDict


def parse_parameters(text: str) -> CallParameters:
    return parse_json(CallParameters, text)


def parse_prices(text: str) -> tuple[float | None, float | None, float | None]:
    """US dollars a million tokens of prompt, cached prompt and completion; None for an empty text."""
    if not text.strip():
        return None, None, None
    try:
        prompt, cached, completion = map(float, text.split())
        if all(0 <= price <= 1e6 for price in (prompt, cached, completion)):
            return prompt, cached, completion
    except ValueError:
        pass
    raise ValueError(f"{quote(text)} is not three prices from 0 to 1000000")


def parsed_by(parse: Callable[[str], object]) -> AfterValidator:
    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


Rows = Annotated[str, parsed_by(parse_selection)]
Arguments = Annotated[str, AfterValidator(server_arguments)]
Model = Annotated[str, FILLED, AfterValidator(model_name)]


@dataclass(frozen=True)
class Settings:
    """The checked settings of a run: one field for each CONFIG_ option, its name in lower case (`load_settings`).

    Kconfig describes each option and has the range of whole numbers; other bounds are here.  `tournament_size` and
    `truncation_top_k` are -1 when they are not set, which is allowed when the selection does not need them.
    """

    # Farm
    farm: Annotated[str, FILLED, AfterValidator(farm_address), no_password("WHETSTONE_REDIS_PASSWORD")]
    farm_dir: Annotated[Path, FOLDER]
    # Data
    data_path: Annotated[Path, EXISTING]
    data_columns: Annotated[str, parsed_by(parse_columns)]
    training: Annotated[Rows, FILLED]
    validation: Rows
    test: Rows
    too_long: Literal["error", "drop"]
    # Target
    target_model: Model
    device: Literal["cpu", "cuda"]
    sglang_lifecycle: Literal["resident", "restart"]
    sglang_url: Annotated[str, optional(server_address), no_password("the variable SGLANG_API_KEY")]
    sglang_command: Annotated[Arguments, FILLED]
    sglang_args: Arguments
    target_concurrency: int
    target_system_prompt: str
    target_prompt_template: Annotated[str, FILLED, placeholders("context", "query")]
    target_max_new_tokens: int
    whole: bool
    target_temperature: Annotated[float, Field(ge=0, le=2)]
    # Clusters
    clusters_by: ClusteredBy
    embedder_model: Model
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
    judge: Annotated[str, FILLED, AfterValidator(code_name)]
    judge_model: Annotated[str, FILLED]
    judge_tolerance: Annotated[float, Field(ge=0, le=1)]
    judge_forgiving: bool
    judge_max_completion_tokens: int
    # OpenAI
    openai_base_url: Annotated[str, optional(http_address), no_password("the variable that OPENAI_API_KEY_ENV names")]
    openai_api_key_env: Annotated[str, FILLED, AfterValidator(variable_name)]
    openai_parameters: Annotated[str, parsed_by(parse_parameters)]
    openai_context_tokens: int
    openai_requests_per_minute: int
    openai_tokens_per_minute: int
    openai_prices: Annotated[str, parsed_by(parse_prices)]
    budget_usd: Annotated[float, Field(ge=0, le=1e9)]
    # Output
    output_dir: Annotated[Path, FOLDER]
    callbacks: Annotated[str, optional(callback_names)]

    @property
    def needs_reflector(self) -> bool:
        return self.optimiser in ("reflective", "lineage")

    @property
    def is_embedded(self) -> bool:
        return self.farm == EMBEDDED

    @property
    def redis_url(self) -> str:
        """The address of an external farm; "" for that of the environment."""
        return "" if self.farm in (EMBEDDED, EXTERNAL) else self.farm


@functools.cache
def options() -> Mapping[str, Any]:
    """The type of each option, without its annotations, by name without CONFIG_ and in the order of the fields."""
    kinds = get_type_hints(Settings)
    return {field.name.upper(): kinds[field.name] for field in dataclasses.fields(Settings)}


RESUMABLE = (
    "FARM", "FARM_DIR", "SGLANG_LIFECYCLE", "SGLANG_URL", "SGLANG_COMMAND", "TARGET_CONCURRENCY", "NGEN",
    "EVALUATION_CACHE", "REFLECTOR_MODEL", "REFLECTOR_TEMPERATURE", "REFLECTOR_MAX_COMPLETION_TOKENS",
    "OPENAI_BASE_URL", "OPENAI_API_KEY_ENV", "OPENAI_PARAMETERS", "OPENAI_CONTEXT_TOKENS",
    "OPENAI_REQUESTS_PER_MINUTE", "OPENAI_TOKENS_PER_MINUTE", "OPENAI_PRICES", "BUDGET_USD", "OUTPUT_DIR", "CALLBACKS",
)  # fmt: skip
"""The options that may change before a run is resumed: where, how fast, how long and at what cost it is computed, and
which model reflects.  With any other option changed the run would be another one.
"""


def changed_options(a: Settings, b: Settings) -> list[str]:
    """The names, without CONFIG_, of the options that differ between `a` and `b`, in the order of Kconfig."""
    return [name for name in options() if getattr(a, name.lower()) != getattr(b, name.lower())]
