"""The settings of `guide`: every key of its YAML file, as frozen dataclasses.

The names of the fields are the keys, so that `dataclasses.asdict` gives the file back.  A key that may be left out has
a default here.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr, StringConstraints

from orchestrator.guide.names import mission_name, mission_name_problems
from orchestrator.settings.documents import (
    Count,
    Document,
    Ratio,
    Share,
    Temperature,
    Text,
    parse_document,
    read_document,
    shown_key,
)
from orchestrator.settings.value_checks import (
    EMBEDDED,
    http_or_embedded,
    no_password,
    optional,
    redis_address,
    server_address,
    server_arguments,
    variable_name,
)
from tasks.context import content_hash
from tasks.guide.decoding import DecodeCell
from tasks.guide.prompting import PromptForm

Backend = Literal["target", "endpoint"]
Policy = Literal["selected_mismatch_or_all_wrong", "contradictions_only", "contradictions_or_all_wrong"]
AllWrong = Literal["reflect_diagnose", "manual_review"]
TieBreak = Literal["confidence", "temperature"]

BATCHES = (32, 64)
"""The sizes of a batch, unless `reflection.rapid_mode` is true."""
LARGEST_SEED = 2**31 - 2**16  # so that the seeds of all samples of a cell fit in 31 bits
MOST_CRITICS = 6

Seed = Annotated[StrictInt, Field(ge=0, le=LARGEST_SEED)]
Stops = Annotated[tuple[Annotated[StrictStr, StringConstraints(min_length=1)], ...], Field(max_length=16)]


def folder_name(name: str) -> str:
    """A checked setting that becomes the name of a folder.  Raises: ValueError."""
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,79}", name):
        raise ValueError("is no name of a folder: letters, digits, '_', '-' and '.', at most 80, no '.' at the start")
    return name


@dataclass(frozen=True)
class ModelSettings(Document):
    """The frozen model: a Hugging Face id, a folder, or `embedded`.  The other two are options of its server."""

    model_name_or_path: Text
    torch_dtype: Literal["auto", "bfloat16", "float16", "float32"] | None = None
    device_map: Literal["auto", "cuda", "cpu"] | None = None


@dataclass(frozen=True)
class GuidanceSettings(Document):
    """The file with the first experiences, which is only read, and how many snapshots a mission keeps."""

    path: Text
    retention: Count


@dataclass(frozen=True)
class OutputSettings(Document):
    """The run's folder is `{root}/{run_id}`; without `run_id` it is made of the file's name and its content."""

    root: Text
    run_id: Annotated[StrictStr, AfterValidator(folder_name)] | None = None
    fail_if_exists: StrictBool = True


@dataclass(frozen=True)
class CellSettings(Document):
    """One way of sampling; temperature 0 is greedy."""

    temperature: Temperature
    top_p: Share
    max_new_tokens: Count
    seed: Seed | None = None
    stop: Stops = ()


@dataclass(frozen=True)
class SamplerSettings(Document):
    """`samples_per_decode` candidates of each cell of `grid`, one of a greedy cell.

    `constrain`: whether the server enforces the three lines.  `enforce_three_line`: whether a batch without any valid
    candidate ends the run.  `prompt`: with or without judged examples, see `PromptForm`.
    """

    group_batch_size: Count
    samples_per_decode: Annotated[Count, Field(le=256)]
    grid: Annotated[tuple[CellSettings, ...], Field(min_length=1, max_length=64)]
    constrain: Literal["none", "three_line"]
    enforce_three_line: StrictBool = True
    prompt: PromptForm = "plain"


@dataclass(frozen=True)
class WeightSettings(Document):
    """What each signal counts where the tie-break leaves a tie."""

    label_match: StrictFloat
    self_consistency: StrictFloat
    confidence: StrictFloat


@dataclass(frozen=True)
class SignalSettings(Document):
    store_confidence: StrictBool
    enable_consistency: StrictBool
    weights: WeightSettings | None = None


@dataclass(frozen=True)
class PrefilterSettings(Document):
    """Only so many candidates of a ticket are criticised: wrong ones first, then by confidence, then by index."""

    top_k: Annotated[Count, Field(le=MOST_CRITICS)] | None = None


@dataclass(frozen=True)
class CriticSettings(Document):
    """Who criticises candidates, how it is asked, and how long its words may be."""

    backend: Backend
    prompt_path: Text
    temperature: Temperature
    top_p: Share
    max_new_tokens: Count
    max_candidates: Annotated[Count, Field(le=MOST_CRITICS)]
    summary_max_chars: Count
    critique_max_chars: Count
    enabled: StrictBool = True
    prefilter: PrefilterSettings | None = None


@dataclass(frozen=True)
class ReflectionSettings(Document):
    """Who proposes edits, how it is asked, and what an edit may change."""

    backend: Backend
    prompt_path: Text
    batch_size: Count
    apply_if_delta: Ratio
    allow_uncertain: StrictBool
    max_operations: Count
    change_cap_per_epoch: Count
    eligibility_policy: Policy
    all_wrong_strategy: AllWrong
    temperature: Temperature
    top_p: Share
    max_new_tokens: Count
    rapid_mode: StrictBool = False


@dataclass(frozen=True)
class HoldoutSettings(Document):
    """The tickets of each mission that only the gate sees; with `fraction` 0 there is no gate."""

    fraction: Annotated[StrictFloat, Field(ge=0, lt=1)]
    seed: Seed
    max_false_pass_rise: Ratio
    min_probability: Ratio


@dataclass(frozen=True)
class SelectionSettings(Document):
    policy: Literal["label_first"]
    tie_break: TieBreak


@dataclass(frozen=True)
class RunnerSettings(Document):
    """`shuffle_seed` is the seed of the run."""

    epochs: Annotated[Count, Field(le=1000)]
    shuffle_seed: Seed


@dataclass(frozen=True)
class EndpointSettings(Document):
    """Who critic and reflector are where their backend is `endpoint`; a null `seed` is not sent."""

    model: Text
    api_base: Annotated[Text, AfterValidator(http_or_embedded)]
    api_key_env: Annotated[Text, AfterValidator(variable_name)]
    seed: Seed | None = None


@dataclass(frozen=True)
class GuideSettings(Document):
    """The whole file.  `missions` has the focus of each mission, by name."""

    stage_a_paths: Annotated[tuple[Text, ...], Field(min_length=1)]
    missions: Annotated[Mapping[str, Text], Field(min_length=1)]
    model: ModelSettings
    guidance: GuidanceSettings
    output: OutputSettings
    sampler: SamplerSettings
    signals: SignalSettings
    critic: CriticSettings
    reflection: ReflectionSettings
    holdout: HoldoutSettings
    selection: SelectionSettings
    runner: RunnerSettings
    verifier: Text | None = None
    endpoint: EndpointSettings | None = None

    @property
    def folder(self) -> Path:
        """The output folder of the run."""
        assert self.output.run_id is not None  # `read_guide_settings` has set it
        return Path(self.output.root) / self.output.run_id

    @property
    def cells(self) -> tuple[DecodeCell, ...]:
        return tuple(
            DecodeCell(cell.temperature, cell.top_p, cell.max_new_tokens, cell.seed, cell.stop)
            for cell in self.sampler.grid
        )

    @property
    def is_gated(self) -> bool:
        """Whether a proposal is tried on held-out tickets before it is applied."""
        return self.holdout.fraction > 0 and not self.reflection.rapid_mode

    @property
    def needs_endpoint(self) -> bool:
        return self.reflection.backend == "endpoint" or (self.critic.enabled and self.critic.backend == "endpoint")


Price = Annotated[StrictFloat, Field(ge=0)] | None


@dataclass(frozen=True)
class GuideOptions(Document):
    """The options of the command line, for which the file has no keys.

    `rollout_jobs` and `endpoint_jobs` are jobs in flight over all workers.  `sglang_url` names a server that runs
    already; without it each gpu worker starts one by `sglang_command` and `sglang_args`.  Prices are US dollars for a
    million tokens of the endpoint; None is unknown.  `budget_usd` is for all its calls; 0 is no limit.
    `retry_wait_s` is how long a run with nothing left but failures waits for a retry before it parks.
    """

    farm: Literal["embedded", "external"] = "embedded"
    redis_url: Annotated[StrictStr, optional(redis_address), no_password("WHETSTONE_REDIS_PASSWORD")] = ""
    farm_dir: Text = "outputs/farm"
    rollout_jobs: Annotated[Count, Field(le=4096)] = 64
    endpoint_jobs: Annotated[Count, Field(le=256)] = 4
    sglang_url: Annotated[StrictStr, optional(server_address)] = ""
    sglang_command: Annotated[StrictStr, AfterValidator(server_arguments)] = "python -m sglang.launch_server"
    sglang_args: Annotated[StrictStr, AfterValidator(server_arguments)] = ""
    requests_per_minute: Count = 100_000
    tokens_per_minute: Count = 1_000_000_000
    retry_wait_s: Annotated[StrictFloat, Field(ge=0)] = 0.0
    price_prompt: Price = None
    price_cached: Price = None
    price_completion: Price = None
    budget_usd: Annotated[StrictFloat, Field(ge=0)] = 0.0
    callbacks: StrictStr = ""
    log_level: Literal["debug", "logging", "warning"] = "logging"

    @property
    def prices(self) -> tuple[float | None, ...]:
        return (self.price_prompt, self.price_cached, self.price_completion)


def read_guide_settings(path: Path) -> GuideSettings:
    """The settings in a YAML file.  Raises: SettingsError with one line for each key that is wrong."""
    return _named(read_document(path, GuideSettings, CROSS_CHECKS), path.stem)


def guide_settings_from(values: Mapping[str, Any], name: str = "guide") -> GuideSettings:
    """The settings of a mapping; `name` is for a run without `output.run_id`.  Raises: SettingsError."""
    return _named(parse_document(values, GuideSettings, CROSS_CHECKS), name)


def settings_hash(settings: GuideSettings) -> str:
    """Of everything but where the output goes."""
    return content_hash({**dataclasses.asdict(settings), "output": None})


def _named(settings: GuideSettings, name: str) -> GuideSettings:
    """The settings with missions in Unicode's composed form, and an `output.run_id`."""
    settings = dataclasses.replace(settings, missions={mission_name(m): f for m, f in settings.missions.items()})
    if settings.output.run_id is not None:
        return settings
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:60].strip("-") or "guide"
    run_id = f"{stem}-{settings_hash(settings)[:8]}"
    return dataclasses.replace(settings, output=dataclasses.replace(settings.output, run_id=run_id))


Findings = Iterator[tuple[str, str]]


def _check_missions(values: Mapping[str, Any]) -> Findings:
    names = [name.removeprefix("missions.") for name in values if name.startswith("missions.")]
    for name, reason in mission_name_problems(names):
        yield f"missions.{shown_key(name)}", reason


def _check_batch(values: Mapping[str, Any]) -> Findings:
    size = values.get("sampler.group_batch_size")
    if size is not None and size not in BATCHES and values.get("reflection.rapid_mode") is not True:
        yield "sampler.group_batch_size", f"{size} is not 32 or 64, and reflection.rapid_mode is not true"


def _check_endpoint(values: Mapping[str, Any]) -> Findings:
    """The section `endpoint` is there where one is asked."""
    asked = [
        name
        for name, enabled in (("critic", values.get("critic.enabled", True)), ("reflection", True))
        if enabled and values.get(f"{name}.backend") == "endpoint"
    ]
    is_given = any(name.startswith("endpoint.") for name in values) or values.get("endpoint") is not None
    if asked and not is_given:
        yield "endpoint", f"is missing: {' and '.join(f'{name}.backend' for name in asked)} needs it"


def _check_model(values: Mapping[str, Any]) -> Findings:
    if values.get("model.model_name_or_path") == EMBEDDED:
        if values.get("model.torch_dtype") == "float16":
            yield "model.torch_dtype", "'float16' is not of the embedded model: auto, bfloat16 or float32"
        if values.get("model.device_map") == "cuda":
            yield "model.device_map", "'cuda' is not of the embedded model, which computes on the CPU"


CROSS_CHECKS = (_check_missions, _check_batch, _check_endpoint, _check_model)
