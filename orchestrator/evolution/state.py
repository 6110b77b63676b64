"""`evolution_state.json`: all that a run needs to resume.

It is the state at the start of a generation: `generation` is the index of the next one to run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import FiniteFloat, NonNegativeInt
from typing_extensions import TypedDict

from orchestrator.evolution.individual import canonical_order, list_to_deltas
from orchestrator.evolution.params import Params
from tasks.validation import parse_json


class GenomeFile(TypedDict):
    deltas: dict[str, FiniteFloat]
    scratchpad: str


class StateFile(TypedDict):
    """evolution_state.json."""

    generation: NonNegativeInt
    population: list[GenomeFile]
    best_individual: GenomeFile | None
    best_fitness: FiniteFloat | None
    rr_idx: int


class StateError(Exception):
    """A state file that cannot be resumed from; says why in one line."""


@dataclass(frozen=True)
class Genome:
    """The heritable part of an individual: one delta a cluster, in canonical order, and the scratchpad."""

    deltas: tuple[float, ...]
    scratchpad: str


@dataclass(frozen=True)
class State:
    generation: int
    population: tuple[Genome, ...]
    best: Genome | None
    best_fitness: float | None
    rr_idx: int


def initial_state(params: Params) -> State:
    """The one initial individual, cloned `population_size` times, with empty scratchpads."""
    genome = Genome(params.initial_deltas, "")
    return State(0, (genome,) * params.population_size, None, None, 0)


def state_to_json(state: State, cluster_ids: Sequence[str]) -> str:
    def genome(value: Genome) -> dict[str, Any]:
        return {"deltas": list_to_deltas(value.deltas, cluster_ids), "scratchpad": value.scratchpad}

    content = {
        "generation": state.generation,
        "population": [genome(g) for g in state.population],
        "best_individual": None if state.best is None else genome(state.best),
        "best_fitness": state.best_fitness,
        "rr_idx": state.rr_idx,
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def state_from_json(text: str, params: Params) -> State:
    """Raises: StateError when the text is no state, or one of another population or clustering."""
    try:
        values = parse_json(StateFile, text)
        population = tuple(_genome(g, params) for g in values["population"])
        best = values["best_individual"]
        state = State(
            generation=values["generation"],
            population=population,
            best=None if best is None else _genome(best, params),
            best_fitness=values["best_fitness"],
            rr_idx=values["rr_idx"],
        )
    except ValueError as error:
        raise StateError(f"it is not an evolution state ({error})") from None
    if len(population) != params.population_size:
        raise StateError(f"it holds {len(population)} individuals, CONFIG_POPULATION_SIZE is {params.population_size}")
    if not 0 <= state.rr_idx < len(params.cluster_ids):
        raise StateError(f"rr_idx {state.rr_idx} is no position among {len(params.cluster_ids)} clusters")
    return state


def _genome(values: GenomeFile, params: Params) -> Genome:
    deltas = values["deltas"]
    if canonical_order(list(deltas)) != params.cluster_ids:
        raise ValueError(f"its clusters are {sorted(deltas, key=int)}, not {list(params.cluster_ids)}")
    return Genome(tuple(deltas[cluster] for cluster in params.cluster_ids), values["scratchpad"])
