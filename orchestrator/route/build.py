"""From the settings of `route` to what its jobs are given, and to its embedded farm."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from pathlib import Path

from orchestrator.route.settings import RouteSettings
from orchestrator.settings import SettingsError
from orchestrator.settings.value_checks import EMBEDDED
from tasks import records
from tasks.common.files import FileTooLarge, read_limited
from tasks.common.named import absolute, load_named, source_identity
from tasks.common.validation import COLLECTED_BYTES
from tasks.route.claims import NONE, PROGRAMS
from tasks.route.jobs import Arm, Deployment, RouteInputs, data_key

log = logging.getLogger(__name__)
LEVELS = {"debug": "DEBUG", "logging": "INFO", "warning": "WARNING"}


def route_inputs(settings: RouteSettings, texts: dict[str, str]) -> RouteInputs:
    """What all jobs are given; `texts` are those of the data files."""
    return RouteInputs(
        target=_target(settings),
        world=settings.world if settings.world == PROGRAMS else absolute(settings.world),
        world_source=world_source(settings),
        data={name: data_key(text) for name, text in texts.items()},
        model=dataclasses.asdict(settings.model),
        training=dataclasses.asdict(settings.training),
        routing=dataclasses.asdict(settings.routing),
        evaluation=dataclasses.asdict(settings.evaluation),
    )


def read_texts(settings: RouteSettings) -> dict[str, str]:
    """The texts of the data files, by the name of their setting."""
    texts, problems = {}, []
    for name, path in settings.files.items():
        try:
            data = read_limited(path, COLLECTED_BYTES)
            texts[name] = data.decode("utf-8-sig")
        except OSError as error:
            problems.append(f"data.{name}: {path}: {error.strerror}")
        except FileTooLarge as error:
            problems.append(f"data.{name}: {path}: {error}")
        except UnicodeDecodeError as error:
            line = 1 + data.count(b"\n", 0, error.start)
            problems.append(f"data.{name}: {path}: line {line}: invalid UTF-8 at byte {error.start} of the file")
    if problems:
        raise SettingsError(problems)
    return texts


def world_source(settings: RouteSettings) -> str:
    """The hash of the source of a world of the user's own, "" for `programs`."""
    if settings.world == PROGRAMS:
        return ""
    file, _, _ = settings.world.rpartition(":")
    try:
        if file.endswith(".py"):  # not imported here: a world needs torch
            return _file_hash(Path(file))
        return source_identity(load_named(settings.world, "whetstone.worlds"))
    except OSError as error:
        raise SettingsError([f"world: {error.filename or file}: {error.strerror or error}"]) from None
    except Exception as error:  # a module may raise anything while it is imported
        said = " ".join(str(error).split())
        raise SettingsError([f"world: {settings.world} cannot be loaded: {type(error).__name__}: {said}"]) from None


def _file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def arms(settings: RouteSettings) -> list[Arm]:
    """The trajectories of a run, in the order of the settings, each with all seeds: what decides can come first."""
    training = settings.training
    return [Arm(trajectory, seed) for trajectory in training.trajectories for seed in training.seeds]


def deployments(settings: RouteSettings, arm: Arm) -> list[Deployment]:
    """What is evaluated of an arm, in every mode."""
    evaluation = settings.evaluation
    match arm.trajectory:
        case "shared":
            scaled = [f"scaled_{scale:g}" for scale in evaluation.scales]
            names = [(name, "off") for name in (NONE, "untrained", *scaled, *settings.routing.splits)]
        case "plain":
            names = [(NONE, "off")]
        case "erase":
            names = [("erase", "off")]
        case "ablated":
            names = [("real", "off"), ("real", "on")]
    return [
        Deployment(arm, name, mode, "on" if quarantine == "on" else "off")
        for mode in evaluation.modes
        for name, quarantine in names
    ]


def _target(settings: RouteSettings) -> records.Target:
    """The model as workers know it; nobody is served."""
    model = settings.model
    return records.Target(
        model=model.model_name_or_path,
        engine="embedded" if model.model_name_or_path == EMBEDDED else "sglang",
        lifecycle="resident",
        url="",
        command="",
        args="",
        device=model.device,
        dtype="auto",
        ready_timeout_s=600.0,
        request_timeout_s=600.0,
        concurrency=1,
        system_prompt="",
        prompt_template="{context}{query}",
        sampling=records.Sampling(settings.training.max_new_tokens, 1.0, 1.0, 0),
    )
