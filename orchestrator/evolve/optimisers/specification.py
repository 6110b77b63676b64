"""The state of a reflective search as `evolution_state.json` has it: all that a run needs to resume.

    {"generation": 3, "population": [{"deltas": {"0": 1.5, ...}, "scratchpad": "..."}, ...],
     "best_individual": {"deltas": ..., "scratchpad": ...}, "best_fitness": 0.61, "rr_idx": 4}

It is the state at the start of a generation: `generation` is the index of the next one to run.  The population has no
scores; a resumed run evaluates it again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import FiniteFloat, NonNegativeInt
from typing_extensions import TypedDict

from orchestrator.evolve.optimisers.base import Best, Member
from orchestrator.evolve.optimisers.generation import Genome
from orchestrator.evolve.optimisers.individual import canonical_order, list_to_deltas
from tasks.common.validation import Delta, Scratchpad, parse_json

if TYPE_CHECKING:
    from orchestrator.evolve.optimisers.reflective import ReflectiveState


class GenomeFile(TypedDict):
    deltas: dict[str, Delta]
    scratchpad: Scratchpad


class StateFile(TypedDict):
    """evolution_state.json."""

    generation: NonNegativeInt
    population: list[GenomeFile]
    best_individual: GenomeFile | None
    best_fitness: FiniteFloat | None
    rr_idx: int


def state_to_json(state: ReflectiveState, cluster_ids: Sequence[str]) -> str:
    def genome(value: Member | Best) -> dict[str, Any]:
        return {"deltas": list_to_deltas(value.deltas, cluster_ids), "scratchpad": value.scratchpad}

    content = {
        "generation": state.generation,
        "population": [genome(member) for member in state.population],
        "best_individual": None if state.best is None else genome(state.best),
        "best_fitness": None if state.best is None else state.best.fitness,
        "rr_idx": state.rr_idx,
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def parse_state(text: str, cluster_ids: Sequence[str]) -> dict[str, Any]:
    """The fields of a `ReflectiveState`."""
    values = parse_json(StateFile, text)
    best, fitness = values["best_individual"], values["best_fitness"]
    population = [_genome(genome, cluster_ids) for genome in values["population"]]
    leader = None if best is None else _genome(best, cluster_ids)
    return {
        "generation": values["generation"],
        "best": None if leader is None or fitness is None else Best(leader.deltas, leader.scratchpad, fitness),
        "population": tuple(Member(genome.deltas, genome.scratchpad) for genome in population),
        "rr_idx": values["rr_idx"],
    }


def _genome(values: GenomeFile, cluster_ids: Sequence[str]) -> Genome:
    deltas = values["deltas"]
    if canonical_order(list(deltas)) != tuple(cluster_ids):
        raise ValueError(f"its clusters are {sorted(deltas, key=int)}, not {list(cluster_ids)}")
    return Genome(tuple(deltas[cluster] for cluster in cluster_ids), values["scratchpad"])
