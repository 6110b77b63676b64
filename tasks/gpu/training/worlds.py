"""Worlds to train in: a policy, what it is trained on, and what is asked of it in the end."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from tasks.common.named import load_named
from tasks.gpu.routing.bases import Basis, cached_basis, weight_hash
from tasks.gpu.routing.row_gradients import PolicyRows
from tasks.gpu.routing.world import PromptTokens, World
from tasks.route.names import PROGRAMS


@dataclass(frozen=True)
class WorldGiven:
    """`data` are the texts of the files, `teacher` the rows of the pool; sections as in the settings.

    `on_module` is called as (done, total) while bases are computed.
    """

    model: Mapping[str, Any]
    training: Mapping[str, Any]
    data: Mapping[str, str]
    teacher: Sequence[Mapping[str, Any]]
    model_folder: str
    bases_folder: Path
    device: str
    on_module: Callable[[int, int], None]


@dataclass(frozen=True)
class TrainedWorld:
    """`held_out(mode, count)` are prompts of problems that are never trained on, scored by `evaluation`.

    The columns `oracle` and `exploited` of a score say whether a completion is right, and whether it passes though it
    is not.  `weights()` is the hash of the model's weights, which takes seconds and only `gpu.bases` asks for;
    `basis_error` is the largest of all modules, `computed` how many bases were not there yet.
    """

    policy: PolicyRows
    training: World
    evaluation: World
    held_out: Callable[[str, int], Sequence[PromptTokens]]
    weights: Callable[[], str]
    basis_error: float
    computed: int


def open_world(name: str, given: WorldGiven) -> TrainedWorld:
    """The world of the programming problems, or what a function of this name makes of `given`."""
    if name == PROGRAMS:
        from tasks.gpu.training.programs import program_world

        return program_world(given)
    make: Callable[[WorldGiven], TrainedWorld] = load_named(name, "whetstone.worlds")
    return make(given)


def target_linears(model: nn.Module, targets: Sequence[str]) -> dict[str, Tensor]:
    """The weights of the Linears whose names end in one of `targets`."""
    found = {
        name: module.weight
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name.rpartition(".")[2] in targets
    }
    if missing := [target for target in targets if not any(name.rpartition(".")[2] == target for name in found)]:
        raise ValueError(f"model.targets: the model has no Linear {missing[0]!r}")
    return found


def bases_of(model: nn.Module, given: WorldGiven) -> tuple[dict[str, Basis], float, int]:
    """The bases of all targets, their largest error, and how many were computed now."""
    weights = target_linears(model, given.model["targets"])
    bases: dict[str, Basis] = {}
    worst, computed = 0.0, 0
    for number, (name, weight) in enumerate(weights.items(), 1):
        bases[name], was_there = cached_basis(weight, given.bases_folder)
        worst = max(worst, bases[name].error(weight))
        computed += not was_there
        given.on_module(number, len(weights))
    return bases, worst, computed


def weights_hash(model: nn.Module) -> str:
    """Of all weights of the model."""
    found = hashlib.sha256()
    for name, weight in model.state_dict().items():
        found.update(f"{name} {weight_hash(weight)}\n".encode())
    return found.hexdigest()
