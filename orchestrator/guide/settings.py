"""The settings of `guide`: every key of its YAML file, as frozen dataclasses.

The names of the fields are the keys, so that `dataclasses.asdict` gives the file back.  A key that may be left out has
a default here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr, StringConstraints

from orchestrator.guide.cross_checks import CROSS_CHECKS
from orchestrator.guide.names import mission_name
from orchestrator.settings.documents import (
    Count,
    Document,
    Ratio,
    Share,
    Temperature,
    Text,
    parse_document,
    read_document,
)
from orchestrator.settings.run_output import RunOutput
from orchestrator.settings.value_checks import http_or_embedded, variable_name
from tasks.context import content_hash
from tasks.guide.decoding import DecodeCell
from tasks.guide.prompting import PromptForm

Backend = Literal["target", "endpoint"]
Policy = Literal["selected_mismatch_or_all_wrong", "contradictions_only", "contradictions_or_all_wrong"]
AllWrong = Literal["reflect_diagnose", "manual_review"]
TieBreak = Literal["confidence", "temperature"]
LARGEST_SEED = 2**31 - 2**16  # so that the seeds of all samples of a cell fit in 31 bits
MOST_CRITICS = 6

Seed = Annotated[StrictInt, Field(ge=0, le=LARGEST_SEED)]
Stops = Annotated[tuple[Annotated[StrictStr, StringConstraints(min_length=1)], ...], Field(max_length=16)]


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
    output: RunOutput
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
        return self.output.path

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
    output = settings.output.named(name, "guide", settings_hash(settings))
    return dataclasses.replace(settings, output=output)
