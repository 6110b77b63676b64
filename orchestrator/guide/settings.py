"""The settings of `guide`: every key of its YAML file, and the options of its command.

docs/guide.md says what each means.  A key that may be left out has a default here.
"""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr, StringConstraints

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
from orchestrator.settings.farm import EndpointOptions, LogLevel, RunOutput
from orchestrator.settings.options import (
    EMBEDDED,
    http_or_embedded,
    optional,
    server_address,
    server_arguments,
    variable_name,
)
from tasks.guide.choose import AllWrongStrategy, EligibilityPolicy, TieBreak
from tasks.guide.jobs import Backend
from tasks.guide.prompts import PromptForm
from tasks.guide.ticket import LARGEST_SEED, DecodeCell
from tasks.store.keys import content_hash

BATCHES = (32, 64)
"""The sizes of a batch, unless `reflection.rapid_mode` is true."""
LONGEST_NAME = 120  # of a mission, in bytes of UTF-8: it is a folder's
MOST_CRITICS = 6

Seed = Annotated[StrictInt, Field(ge=0, le=LARGEST_SEED)]
Stops = Annotated[tuple[Annotated[StrictStr, StringConstraints(min_length=1)], ...], Field(max_length=16)]


@dataclass(frozen=True)
class ModelSettings(Document):
    model_name_or_path: Text
    torch_dtype: Literal["auto", "bfloat16", "float16", "float32"] | None = None
    device_map: Literal["auto", "cuda", "cpu"] | None = None


@dataclass(frozen=True)
class GuidanceSettings(Document):
    path: Text
    retention: Count = 10


@dataclass(frozen=True)
class CellSettings(DecodeCell, Document):
    temperature: Temperature
    top_p: Share
    max_new_tokens: Count
    seed: Seed | None = None
    stop: Stops = ()


@dataclass(frozen=True)
class SamplerSettings(Document):
    group_batch_size: Count = BATCHES[0]
    samples_per_decode: Annotated[Count, Field(le=256)] = 7
    grid: Annotated[tuple[CellSettings, ...], Field(min_length=1, max_length=64)] = (
        CellSettings(0.0, 1.0, 128),
        CellSettings(0.5, 0.95, 128),
    )
    constrain: Literal["none", "three_line"] = "none"
    enforce_three_line: StrictBool = True
    prompt: PromptForm = "plain"


@dataclass(frozen=True)
class WeightSettings(Document):
    """Of the sum that decides between candidates which the tie-break leaves equal."""

    label_match: StrictFloat
    self_consistency: StrictFloat
    confidence: StrictFloat


@dataclass(frozen=True)
class SignalSettings(Document):
    store_confidence: StrictBool = True
    enable_consistency: StrictBool = True
    weights: WeightSettings | None = None


@dataclass(frozen=True)
class PrefilterSettings(Document):
    top_k: Annotated[Count, Field(le=MOST_CRITICS)] | None = None


@dataclass(frozen=True, kw_only=True)
class CriticSettings(Document):
    backend: Backend = "target"
    prompt_path: Text
    temperature: Annotated[StrictFloat, Field(ge=0.1, le=0.3)] = 0.2
    top_p: Annotated[StrictFloat, Field(ge=0.85, le=0.95)] = 0.9
    max_new_tokens: Count = 512
    max_candidates: Annotated[Count, Field(le=MOST_CRITICS)] = MOST_CRITICS
    summary_max_chars: Count = 300
    critique_max_chars: Count = 600
    enabled: StrictBool = True
    prefilter: PrefilterSettings | None = None


@dataclass(frozen=True, kw_only=True)
class ReflectionSettings(Document):
    """Those without a default must be chosen by whoever starts a run."""

    backend: Backend = "target"
    prompt_path: Text
    batch_size: Count
    apply_if_delta: Ratio
    allow_uncertain: StrictBool
    max_operations: Count
    change_cap_per_epoch: Count
    eligibility_policy: EligibilityPolicy
    all_wrong_strategy: AllWrongStrategy
    temperature: Temperature = 0.2
    top_p: Share = 0.9
    max_new_tokens: Count = 1024
    rapid_mode: StrictBool = False


@dataclass(frozen=True)
class HoldoutSettings(Document):
    """The tickets of each mission that only the gate sees; with `fraction` 0 there is no gate."""

    fraction: Annotated[StrictFloat, Field(ge=0, lt=1)] = 0.3334
    seed: Seed = 17
    max_false_pass_rise: Ratio = 0.02
    min_probability: Ratio = 0.8


@dataclass(frozen=True)
class SelectionSettings(Document):
    policy: Literal["label_first"] = "label_first"
    tie_break: TieBreak = "confidence"


@dataclass(frozen=True)
class RunnerSettings(Document):
    """`shuffle_seed` is the seed of the run."""

    epochs: Annotated[Count, Field(le=1000)] = 2
    shuffle_seed: Seed = 42


@dataclass(frozen=True)
class EndpointSettings(Document):
    model: Text
    api_base: Annotated[Text, AfterValidator(http_or_embedded)]
    api_key_env: Annotated[Text, AfterValidator(variable_name)]
    seed: Seed | None = None


@dataclass(frozen=True, kw_only=True)
class GuideSettings(Document):
    """The whole file.  `missions` has the focus of each mission, by name."""

    stage_a_paths: Annotated[tuple[Text, ...], Field(min_length=1)]
    missions: Annotated[Mapping[str, Text], Field(min_length=1)]
    model: ModelSettings
    guidance: GuidanceSettings
    output: RunOutput
    sampler: SamplerSettings = SamplerSettings()
    signals: SignalSettings = SignalSettings()
    critic: CriticSettings
    reflection: ReflectionSettings
    holdout: HoldoutSettings = HoldoutSettings()
    selection: SelectionSettings = SelectionSettings()
    runner: RunnerSettings = RunnerSettings()
    verifier: Text | None = None
    endpoint: EndpointSettings | None = None

    @property
    def folder(self) -> Path:
        """The output folder of the run."""
        return self.output.path

    @property
    def gate(self) -> Literal["preview", "rapid", "no_holdout"]:
        """How edits are decided on: by a preview on held-out tickets, or not at all."""
        if self.reflection.rapid_mode:
            return "rapid"
        return "preview" if self.holdout.fraction > 0 else "no_holdout"

    @property
    def needs_endpoint(self) -> bool:
        return self.reflection.backend == "endpoint" or (self.critic.enabled and self.critic.backend == "endpoint")

    @property
    def asks_rules(self) -> bool:
        return self.needs_endpoint and self.endpoint is not None and self.endpoint.api_base == EMBEDDED


@dataclass(frozen=True)
class GuideOptions(EndpointOptions):
    """The jobs in flight, and the server of the target."""

    rollout_jobs: Annotated[
        Count, Field(le=4096, description="most jobs of the target in flight, over all workers (64)")
    ] = 64
    endpoint_jobs: Annotated[Count, Field(le=256, description="most calls of the endpoint in flight (4)")] = 4
    sglang_url: Annotated[
        StrictStr,
        optional(server_address),
        Field(description="a running server of the model (default: each gpu worker starts one)"),
    ] = ""
    sglang_command: Annotated[StrictStr, AfterValidator(server_arguments)] = "python -m sglang.launch_server"
    sglang_args: Annotated[
        StrictStr, AfterValidator(server_arguments), Field(description="further arguments of a server that is started")
    ] = ""
    log_level: LogLevel = "logging"


def read_guide_settings(path: Path) -> GuideSettings:
    """The settings in a YAML file."""
    return _named(read_document(path, GuideSettings, [cross_problems]), path.stem)


def guide_settings_from(values: Mapping[str, Any]) -> GuideSettings:
    """The settings of a mapping; a run without `output.run_id` is named "guide"."""
    return _named(parse_document(values, GuideSettings, [cross_problems]), "guide")


def settings_hash(settings: GuideSettings) -> str:
    """Of everything but where the output goes."""
    return content_hash({**dataclasses.asdict(settings), "output": None})


def mission_name(name: str) -> str:
    """A mission's name in Unicode's composed form (NFC): one name of several spellings of the same characters."""
    return unicodedata.normalize("NFC", name)


def has_control(name: str) -> bool:
    """Whether a name has a control character, one that ends a line, or half of a surrogate pair."""
    return any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name)


def cross_problems(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The keys whose values do not go together, and why."""
    names = [name.removeprefix("missions.") for name in values if name.startswith("missions.")]
    folders = [mission_name(name).casefold() for name in names]
    for place, name in enumerate(names):
        is_long = len(mission_name(name).encode("utf-8", "replace")) > LONGEST_NAME
        if not name.strip() or name[0] == "." or {*name} & {"/", "\\"} or has_control(name) or is_long:
            yield f"missions.{shown_key(name)}", "is no name of a folder"
        elif folders[place] in folders[:place]:
            yield f"missions.{shown_key(name)}", "has the same folder as an earlier one"
    size = values.get("sampler.group_batch_size", BATCHES[0])
    if size not in BATCHES and values.get("reflection.rapid_mode") is not True:
        yield "sampler.group_batch_size", f"{size} is not 32 or 64, and reflection.rapid_mode is not true"
    asked = [name for name in ("critic", "reflection") if values.get(f"{name}.backend") == "endpoint"]
    if values.get("critic.enabled") is False:
        asked = [name for name in asked if name != "critic"]
    if asked and not any(name.startswith("endpoint") and value is not None for name, value in values.items()):
        yield "endpoint", f"is missing, and is asked by {' and '.join(f'{name}.backend' for name in asked)}"
    if values.get("model.model_name_or_path") == EMBEDDED:
        if values.get("model.torch_dtype") == "float16":
            yield "model.torch_dtype", "'float16' is not of the embedded model: auto, bfloat16 or float32"
        if values.get("model.device_map") == "cuda":
            yield "model.device_map", "'cuda' is not of the embedded model, which computes on the CPU"


def _named(settings: GuideSettings, name: str) -> GuideSettings:
    """The settings with missions in Unicode's composed form, and an `output.run_id`."""
    settings = dataclasses.replace(settings, missions={mission_name(m): f for m, f in settings.missions.items()})
    output = settings.output.named(name, "guide", settings_hash(settings))
    return dataclasses.replace(settings, output=output)
