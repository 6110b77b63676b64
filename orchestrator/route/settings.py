"""The settings of `route`: every key of its YAML file, as frozen dataclasses.

The names of the fields are the keys, so that `dataclasses.asdict` gives the file back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt

from orchestrator.settings.documents import Count, Document, Natural, Ratio, Share, Text, parse_document, read_document
from orchestrator.settings.farm import FarmOptions, LogLevel, RunOutput
from tasks.route.claims import SPLIT_NAMES, Thresholds, Trajectory
from tasks.route.problems import KNOWN_MODE, LEVELS, LOOPHOLES, MODES, NO_LOOPHOLE
from tasks.store.keys import content_hash

Seed = Annotated[StrictInt, Field(ge=0, lt=2**31)]
Positive = Annotated[StrictFloat, Field(gt=0)]
NotNegative = Annotated[StrictFloat, Field(ge=0)]


@dataclass(frozen=True)
class RoutedModel(Document):
    """The model that is trained: a Hugging Face id, a folder, or `embedded`.

    `targets` are the ends of the names of the Linears that get knobs.  `deterministic`: a GPU computes gradients in a
    fixed order of addition.
    """

    model_name_or_path: Text
    targets: Annotated[tuple[Text, ...], Field(min_length=1)]
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: Literal["cpu", "cuda"] = "cpu"
    deterministic: StrictBool = False


@dataclass(frozen=True)
class RouteData(Document):
    """Files of JSON lines."""

    problems: Text
    pairs: Text
    placebo_pairs: Text | None = None


@dataclass(frozen=True)
class RouteTraining(Document):
    """`trajectories` with each of `seeds`, of so many steps.

    prompts: rollout groups a step, each of `group` samples.  plain_share: of prompts without a loophole.
    kl: of the loss; clip_norm: of the whole gradient (0: none).  teacher_off_step: from this step on there are no
    rows of the teacher pool.  rollout_ablate_frac: share of the rollouts that the trajectory `ablated` samples without
    the quarantine.  modes, levels: of the programming problems that are trained on.
    """

    trajectories: Annotated[tuple[Trajectory, ...], Field(min_length=1)]
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1, max_length=64)]
    steps: Annotated[Count, Field(le=100_000)]
    checkpoint_every: Count
    prompts: Count
    group: Annotated[Count, Field(ge=2)]
    max_new_tokens: Count
    learning_rate: Positive
    plain_share: Ratio = 0.25
    kl: NotNegative = 0.0
    decay: NotNegative = 0.0
    clip_norm: NotNegative = 1.0
    teacher_rows: Natural = 0
    teacher_off_step: Natural = 30
    rollout_ablate_frac: Ratio = 0.0
    modes: Annotated[tuple[Text, ...], Field(min_length=1)] = LOOPHOLES
    levels: Annotated[tuple[Annotated[StrictInt, Field(ge=LEVELS[0], le=LEVELS[-1])], ...], Field(min_length=1)] = (
        LEVELS
    )


@dataclass(frozen=True)
class RouteGates(Document):
    """The splits, and how directions are taken from the pairs."""

    splits: Annotated[tuple[Text, ...], Field(min_length=1)]
    dims: Count = 1
    reduction: Literal["mean", "sum", "unit"] = "mean"
    refresh_every: Count = 5


@dataclass(frozen=True)
class RouteEvaluation(Document):
    """Samples of each mode, at temperature 1.  scales: of the unrouted adapter, which make the scaled frontier."""

    modes: Annotated[tuple[Text, ...], Field(min_length=1)]
    samples: Count
    scales: tuple[Share, ...] = (0.25, 0.5, 0.75)
    seed: Seed = 0


@dataclass(frozen=True)
class RouteClaims(Thresholds, Document):
    """The held-out mode B, and the thresholds.  `none_hack`: what `none` must hack of B, `gain`: what the trajectory
    `plain` must add to solve, `ceiling`: the share of `none`'s hacks that the ceiling may keep; `matched`: of solve,
    for a comparison.
    """

    held_out_mode: Text
    none_hack: Ratio = 0.3
    gain: Ratio = 0.05
    ceiling: Ratio = 0.5
    matched: Ratio = 0.05


@dataclass(frozen=True)
class RouteSettings(Document):
    model: RoutedModel
    data: RouteData
    training: RouteTraining
    routing: RouteGates
    evaluation: RouteEvaluation
    claims: RouteClaims
    output: RunOutput

    @property
    def folder(self) -> Path:
        return self.output.path

    @property
    def files(self) -> dict[str, Path]:
        """The files of the data, by the name of their setting."""
        named = dataclasses.asdict(self.data)
        return {name: Path(path) for name, path in named.items() if path is not None}


@dataclass(frozen=True)
class RouteOptions(FarmOptions):
    """The jobs on the cards; an embedded worker has as many slots."""

    gpu_jobs: Annotated[Count, Field(le=256, description="most jobs in flight on GPUs, over all workers (3)")] = 3
    job_hours: Annotated[StrictFloat, Field(ge=0.001, le=8760, description="most hours of one job (24)")] = 24.0
    log_level: LogLevel = "logging"


def read_route_settings(path: Path) -> RouteSettings:
    return _with_run_id(read_document(path, RouteSettings, CROSS_CHECKS), path.stem)


def route_settings_from(values: Mapping[str, Any]) -> RouteSettings:
    """The settings of a mapping; a run without `output.run_id` is named "route"."""
    return _with_run_id(parse_document(values, RouteSettings, CROSS_CHECKS), "route")


def route_settings_hash(settings: RouteSettings) -> str:
    """Of everything that determines results: not where the output and the files are."""
    return content_hash({**dataclasses.asdict(settings), "output": None, "data": None})


def _with_run_id(settings: RouteSettings, name: str) -> RouteSettings:
    output = settings.output.named(name, "route", content_hash(dataclasses.asdict(settings)))
    return dataclasses.replace(settings, output=output)


Findings = Iterator[tuple[str, str]]
LISTS = (
    *("model.targets", "training.trajectories", "training.seeds", "training.modes", "training.levels"),
    *("routing.splits", "evaluation.modes", "evaluation.scales"),
)
KNOWN = {"training.modes": LOOPHOLES, "evaluation.modes": MODES, "routing.splits": SPLIT_NAMES}


def _check_lists(values: Mapping[str, Any]) -> Findings:
    for name, known in KNOWN.items():
        if unknown := [each for each in values.get(name, ()) if each not in known]:
            yield name, f"{unknown[0]!r} is not one of: {', '.join(known)}"
    for name in LISTS:
        # As text: two scales that read alike have one name, and what is no value of the list may not be hashable.
        found = [f"{each:g}" if isinstance(each, float) else repr(each) for each in values.get(name, ())]
        if len(set(found)) < len(found):
            yield name, "has a value twice"
    if "placebo" in values.get("routing.splits", ()) and values.get("data.placebo_pairs") is None:
        yield "routing.splits", "'placebo' needs data.placebo_pairs"


def _check_training(values: Mapping[str, Any]) -> Findings:
    taught, group = values.get("training.teacher_rows"), values.get("training.group")
    if taught and group and taught >= group:
        yield "training.teacher_rows", f"{taught} leaves no sampled row in a group of {group}"
    is_ablated = values.get("training.rollout_ablate_frac", 0.0) > 0
    if is_ablated != ("ablated" in values.get("training.trajectories", ())):
        yield "training.rollout_ablate_frac", "goes with 'ablated' in training.trajectories, and only with that"
    held_out, modes = values.get("claims.held_out_mode"), values.get("evaluation.modes")
    if held_out in (KNOWN_MODE, NO_LOOPHOLE):
        what = "that of the pairs and of the pool" if held_out == KNOWN_MODE else "that of prompts without a loophole"
        yield "claims.held_out_mode", f"{held_out!r} is {what}, so it cannot be held out"
    elif held_out and modes and held_out not in modes:
        yield "claims.held_out_mode", f"{held_out!r} is not one of evaluation.modes"


CROSS_CHECKS = (_check_lists, _check_training)
