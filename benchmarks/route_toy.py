"""The toy world of gradient routing as a world for `orchestrator route`: two layers, loopholes A and B, or none.

`world: "benchmarks/route_toy.py:toy_world"` of configs/route_smoke.yaml names it; the workers need no other model.
"""

from __future__ import annotations

import dataclasses
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "tasks" / "gpu" / "routing"))

import toy_world as toy
from safetensors.torch import load, save

from tasks.context import content_hash
from tasks.files import write_atomic
from tasks.gpu.routing.adapter import Adapter
from tasks.gpu.routing.row_gradients import PolicyRows
from tasks.gpu.routing.world import PromptTokens
from tasks.gpu.training.worlds import TrainedWorld, WorldGiven, bases_of, weights_hash

BASE_SEED = 0


def toy_world(given: WorldGiven) -> TrainedWorld:
    """As many prompts of A and B as of none, near enough; the base model is the same for all seeds."""
    training = given.training
    plain = round(training["prompts"] * training["plain_share"])
    with_a = (training["prompts"] - plain + 1) // 2
    settings = toy.ToySettings(
        prompts_a=with_a,
        prompts_b=training["prompts"] - plain - with_a,
        prompts_none=plain,
        teacher_rows=training["teacher_rows"],
    )
    model = _base_model(settings, given.bases_folder)
    bases, error, computed = bases_of(model, given)
    policy = PolicyRows(model, Adapter(model, bases), rows_at_once=512)
    world = toy.ToyWorld(settings)
    return TrainedWorld(policy, world, world, _held_out, partial(weights_hash, model), error, computed)


def _base_model(settings: toy.ToySettings, folder: Path) -> toy.ToyModel:
    """The base model, which is trained once a machine: that takes longer than 30 steps of its arms."""
    path = folder / f"toy-{content_hash(dataclasses.asdict(settings), BASE_SEED)[:32]}.safetensors"
    if not path.exists():
        write_atomic(path, save(toy.base_model(settings, BASE_SEED).state_dict()))
    model = toy.ToyModel(settings)
    model.load_state_dict(load(path.read_bytes()))
    return model


def _held_out(mode: str, count: int) -> list[PromptTokens]:
    """Prompts of the held-out problems, repeated until there are enough."""
    kind = next(kind for kind, name in toy.KINDS.items() if name == mode)
    return [toy.prompt_of(kind, toy.HELD_OUT[number % len(toy.HELD_OUT)]) for number in range(count)]
