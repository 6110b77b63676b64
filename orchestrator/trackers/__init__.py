"""Experiment trackers: what CONFIG_TRACKERS names (docs/trackers.md).  Each is one module, and one line here."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.trackers.base import Tracker

TRACKERS: Mapping[str, str] = {
    "mlflow": "orchestrator.trackers.mlflow:MlflowTracker",
    "tensorboard": "orchestrator.trackers.tensorboard:TensorboardTracker",
    "wandb": "orchestrator.trackers.wandb:WandbTracker",
}
"""The class of each, by name; the name is also that of the extra which installs its library."""


def make_trackers(names: Sequence[str]) -> tuple[Tracker, ...]:
    """The trackers of these names."""
    return tuple(_make(name) for name in names)


def _make(name: str) -> Tracker:
    module, _, kind = TRACKERS[name].partition(":")
    try:
        made: Tracker = getattr(importlib.import_module(module), kind)()
    except ImportError as error:
        raise ImportError(f"{name} cannot be used ({error}); pip install '.[{name}]'") from None
    return made
